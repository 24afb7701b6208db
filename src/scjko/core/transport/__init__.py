"""Transport: couplings of consecutive snapshots, their solvers, and the memory these take."""

from .batches import batched
from .coupling import Coupling, OperatorCoupling, uniform
from .entropic import sinkhorn
from .programs.linear_program import exact
from .programs.multiscale import multiscale
from .programs.simplex import MAX_ITERATIONS
from .solvers import REPLACED, SOLVERS, Auto, Batched, Exact, Multiscale, Sinkhorn, Solver, as_solver, couple

__all__ = [
    "MAX_ITERATIONS",
    "REPLACED",
    "SOLVERS",
    "Auto",
    "Batched",
    "Coupling",
    "Exact",
    "Multiscale",
    "OperatorCoupling",
    "Sinkhorn",
    "Solver",
    "as_solver",
    "batched",
    "couple",
    "exact",
    "multiscale",
    "sinkhorn",
    "uniform",
]
