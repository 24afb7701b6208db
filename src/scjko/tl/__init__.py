"""Tools: fit an energy, predict and interpolate cells, validate."""

from ._fit_energy import fit_energy
from ._interpolate import interpolate
from ._predict import predict
from ._validate import validate
from ._velocity_embedding import velocity_embedding

__all__ = ["fit_energy", "interpolate", "predict", "validate", "velocity_embedding"]
