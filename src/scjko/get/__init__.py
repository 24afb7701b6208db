"""Reading what was fitted."""

from ._couplings import couplings
from ._energy import energy

__all__ = ["couplings", "energy"]
