"""Learn the energy behind a time-course single-cell experiment."""

from importlib.metadata import version

from . import benchmarks, datasets, external, get, pl, tl
from .core.energy.specification import Interaction, Internal, Potential
from .core.fitting.parametrizations import Kantorovich, Linear, Neural, Stacked
from .core.transport import Auto, Batched, Exact, Multiscale, Partial, Sinkhorn
from .reporting._report import report

__all__ = [
    "Auto",
    "Batched",
    "Exact",
    "Interaction",
    "Internal",
    "Kantorovich",
    "Linear",
    "Multiscale",
    "Neural",
    "Partial",
    "Potential",
    "Sinkhorn",
    "Stacked",
    "benchmarks",
    "datasets",
    "external",
    "get",
    "pl",
    "report",
    "tl",
]

__version__ = version("scjko")
