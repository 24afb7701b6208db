"""Data sets to try things on."""

from ._simulated import simulated

__all__ = ["simulated"]
