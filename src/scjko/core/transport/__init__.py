"""Transport: couplings of consecutive snapshots, their solvers, and the memory these take."""

from .batches import batched
from .coupling import Coupling, OperatorCoupling, grown, uniform
from .entropic import sinkhorn
from .intervals import couple
from .programs.linear_program import exact
from .programs.multiscale import multiscale
from .programs.partial import NothingLeft, partial, within
from .programs.simplex import MAX_ITERATIONS
from .solvers import REPLACED, SOLVERS, Auto, Batched, Exact, Multiscale, Partial, Sinkhorn, Solver, as_solver

__all__ = [
    "MAX_ITERATIONS",
    "REPLACED",
    "SOLVERS",
    "Auto",
    "Batched",
    "Coupling",
    "Exact",
    "Multiscale",
    "NothingLeft",
    "OperatorCoupling",
    "Partial",
    "Sinkhorn",
    "Solver",
    "as_solver",
    "batched",
    "couple",
    "exact",
    "grown",
    "multiscale",
    "partial",
    "sinkhorn",
    "uniform",
    "within",
]
