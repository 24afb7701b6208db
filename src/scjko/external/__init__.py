"""Handing over to and taking over from other packages, which ``pip install 'scjko[interop]'`` brings."""

from . import cellrank, moscot

__all__ = ["cellrank", "moscot"]
