"""Transport: couplings of consecutive snapshots, their solvers, and the memory these take."""

from .batches import batched
from .coupling import Coupling, OperatorCoupling, uniform
from .decomposition import decomposed
from .entropic import sinkhorn
from .linear_program import MAX_ITERATIONS, exact
from .solvers import SOLVERS, Auto, Batched, Decomposed, Exact, Sinkhorn, Solver, as_solver, couple

__all__ = [
    "MAX_ITERATIONS",
    "SOLVERS",
    "Auto",
    "Batched",
    "Coupling",
    "Decomposed",
    "Exact",
    "OperatorCoupling",
    "Sinkhorn",
    "Solver",
    "as_solver",
    "batched",
    "couple",
    "decomposed",
    "exact",
    "sinkhorn",
    "uniform",
]
