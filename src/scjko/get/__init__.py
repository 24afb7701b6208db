"""Reading what was fitted."""

from ._energy import energy

__all__ = ["energy"]
