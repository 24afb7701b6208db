"""Tools: fit an energy, predict cells."""

from ._fit_energy import fit_energy
from ._predict import predict
from ._validate import validate

__all__ = ["fit_energy", "predict", "validate"]
