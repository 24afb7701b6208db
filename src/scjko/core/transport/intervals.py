"""Couplings of all intervals of a time course, solved side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.parallel import one_thread, side_by_side
from .coupling import Coupling, grown, uniform
from .programs.linear_program import exact
from .solvers import Solver

Array = NDArray[np.float64]


def couple(
    points: Sequence[Array],
    weights: Sequence[Array] | None = None,
    solve: Solver | Callable[..., Coupling] | Sequence[Solver | Callable[..., Coupling]] = exact,
    on_solved: Callable[[], object] = lambda: None,
    *,
    at_once: int | None = None,
    client: Any = None,
    random_state: int = 0,
    gains: Sequence[Array] | None = None,
) -> list[Coupling]:
    """The couplings of consecutive snapshots, by one solver or by one for each interval, solved side by side.

    ``on_solved`` is called after each. ``random_state`` is the seed of every solver; a function in place of a solver is
    called with the two snapshots and their weights only. With ``gains``, the log of the factor by which the mass of
    every source cell grows over its interval, sources have the mass that they grow to. For ``at_once`` and ``client``
    see :func:`scjko.core.compute.parallel.side_by_side`.
    """
    weights = [uniform(x) for x in points] if weights is None else weights
    n_intervals = len(points) - 1
    sources = weights[:-1] if gains is None else [grown(*pair) for pair in zip(weights[:-1], gains, strict=True)]
    solvers = [solve] * n_intervals if isinstance(solve, Solver) or callable(solve) else list(solve)
    # Longest first, so that no core is left with the largest problem at the end.
    order = sorted(range(n_intervals), key=lambda k: -len(points[k]) * len(points[k + 1]))
    # Each with its own data only, which may have to travel to another machine.
    problems = [(solvers[k], random_state, *points[k : k + 2], sources[k], weights[k + 1]) for k in order]
    solved = side_by_side(_solved, problems, on_solved, at_once=at_once, client=client)
    return [coupling for _, coupling in sorted(zip(order, solved, strict=True), key=lambda pair: pair[0])]


def _solved(problem: tuple[Any, ...]) -> Coupling:
    solver, random_state, *data = problem
    # How sums of linear algebra are rounded may depend on the number of its threads, of which a worker of a cluster may
    # have fewer.
    with one_thread():
        return solver.solve(*data, random_state=random_state) if isinstance(solver, Solver) else solver(*data)
