"""Reading what was fitted."""

from ._couplings import couplings
from ._energy import energy
from ._params import params

__all__ = ["couplings", "energy", "params"]
