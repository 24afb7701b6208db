"""Data sets to try things on."""

from ._embryoid_body import embryoid_body
from ._simulated import simulated

__all__ = ["embryoid_body", "simulated"]
