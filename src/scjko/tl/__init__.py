"""Tools: fit an energy, predict and interpolate cells, validate, hand over to other tools."""

from ._ancestors import ancestors
from ._descendants import descendants
from ._drivers import drivers
from ._fates import fates
from ._fit_energy import fit_energy
from ._growth_rates import growth_rates
from ._interpolate import interpolate
from ._landscape import landscape
from ._perturb import perturb
from ._predict import predict
from ._project_genes import project_genes
from ._transition_matrix import transition_matrix
from ._transition_table import transition_table
from ._trends import trends
from ._validate import validate
from ._velocity_embedding import velocity_embedding

__all__ = [
    "ancestors",
    "descendants",
    "drivers",
    "fates",
    "fit_energy",
    "growth_rates",
    "interpolate",
    "landscape",
    "perturb",
    "predict",
    "project_genes",
    "transition_matrix",
    "transition_table",
    "trends",
    "validate",
    "velocity_embedding",
]
