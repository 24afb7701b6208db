"""From snapshots to a fitted energy, by the options of :func:`scjko.tl.fit_energy`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.compute.limits import n_cores
from ..core.fitting.fit import Fit, fit
from ..core.growth.estimate import Growth
from ..core.timeline import Timeline, time_text
from ..core.transport import Batched, Coupling, Multiscale, OperatorCoupling, Partial, Solver, couple
from ..core.transport.budget import Budget, allot
from .logging import logger, progress_bar
from .options import FitOptions
from .snapshots import Snapshots

#: Gaps up to this are those of exact couplings.
EXACT = 1e-6


def couple_snapshots(
    snapshots: Snapshots, options: FitOptions, progress: bool, client: Any = None, growth: Growth | None = None
) -> tuple[list[Coupling], list[Solver]]:
    """The couplings of consecutive snapshots, and the solver of each: the one named, or one that fits into memory."""
    sizes, solver = snapshots.sizes, options.solver
    if isinstance(solver, Batched) and solver.size > sizes.min():
        raise ValueError(
            f"size={solver.size} of sj.Batched is larger than the smallest snapshot ({sizes.min()} cells at "
            f"{time_text(snapshots.times[np.argmin(sizes)])}); choose a smaller batch, or coupling='exact'."
        )
    budget = allot(solver, sizes.tolist(), snapshots.coordinates.shape[1], n_cores())
    _announce(sizes.tolist(), budget, client)
    with progress_bar(len(sizes) - 1, "couplings", enabled=progress) as bar:
        solved = couple(
            snapshots.points,
            snapshots.weights,
            budget.solvers,
            bar.update,
            at_once=budget.at_once,
            client=client,
            random_state=options.random_state,
            gains=None if growth is None else growth.gains,
        )
    _report(snapshots.times, solved, budget.solvers)
    return solved, budget.solvers


def _announce(sizes: list[int], budget: Budget, client: Any) -> None:
    """Say before it starts how large the problem is, which solver takes it, and what that means."""
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
    k = max(range(len(pairs)), key=lambda k: pairs[k][0] * pairs[k][1])
    where = f"{budget.at_once} at a time" if client is None else "on the cluster"
    names = [solver.name for solver in budget.solvers]
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    logger.info(
        "Coupling %d intervals (%s), %s; the largest of %d × %d cells, %.2g GB.",
        len(pairs),
        ", ".join(f"{count} {name}" for name, count in counts.items()),
        where,
        *pairs[k],
        budget.needs[k] / 1e9,
    )


def _report(times: NDArray[np.float64], couplings: list[Coupling], solvers: list[Solver]) -> None:
    """Say how much mass has no partner, how far from optimal large couplings can be, and where that is too far."""
    if any(isinstance(solver, Partial) for solver in solvers):
        logger.info("%s", _left_over(times, couplings))
    proven = [
        (np.inf if coupling.bound is None else coupling.bound, k)
        for k, (coupling, solver) in enumerate(zip(couplings, solvers, strict=True))
        if isinstance(solver, Multiscale | Partial)
    ]
    gap, k = max(proven, default=(0.0, 0))
    solver = solvers[k]
    # Of small snapshots, partial couplings are exact.
    if not isinstance(solver, Multiscale | Partial) or (isinstance(solver, Partial) and gap <= EXACT):
        return
    if gap <= solver.tolerance:
        logger.info("%s couplings are at most %.2g %% above the optimum.", solver.name.capitalize(), 100 * gap)
        return
    logger.warning(
        "The coupling of %s and %s %s, more than the tolerance of %g %%; coupling=sj.%s(max_sweeps=...) "
        "refines it further.",
        time_text(times[k]),
        time_text(times[k + 1]),
        f"is at most {100 * gap:.2g} % above the optimum" if np.isfinite(gap) else "has no bound on its cost",
        100 * solver.tolerance,
        type(solver).__name__,
    )


def _left_over(times: NDArray[np.float64], couplings: list[Coupling]) -> str:
    """What is said of the mass without partners in each interval that has such."""
    told = [
        f"{100 * coupling.dropped:.2g} % between {time_text(times[k])} and {time_text(times[k + 1])}"
        for k, coupling in enumerate(couplings)
        if coupling.dropped > 0
    ]
    return f"Mass left uncoupled: {', '.join(told)}." if told else "No mass was left uncoupled."


def fit_snapshots(
    snapshots: Snapshots,
    couplings: Sequence[Coupling | OperatorCoupling],
    options: FitOptions,
    progress: bool,
    growth: Growth | None = None,
) -> Fit:
    """The energy fitted to coupled snapshots."""
    logger.info("Training a %s energy on %d cells.", options.parametrization.name, len(snapshots.coordinates))
    with progress_bar(100, "training", enabled=progress) as bar:
        return fit(
            snapshots.points,
            couplings,
            Timeline(snapshots.times),
            parametrization=options.parametrization,
            terms=options.terms,
            scheme=options.scheme,
            time_varying=options.varies(len(snapshots.times)),
            point_weights=snapshots.weights,
            growth=growth,
            solver=options.solver,
            random_state=options.random_state,
            on_progress=lambda fraction: bar.update(100 * fraction),
        )


def summary(couplings: Sequence[Coupling | OperatorCoupling], snapshots: Snapshots) -> dict[str, Any]:
    """What is stored of couplings."""
    return {
        "source_time": snapshots.times[:-1],
        "target_time": snapshots.times[1:],
        "n_source": snapshots.sizes[:-1],
        "n_target": snapshots.sizes[1:],
        "n_pairs": np.array([coupling.n_pairs for coupling in couplings]),
        "cost": np.array([coupling.cost for coupling in couplings]),
        "gap": np.array([np.nan if coupling.bound is None else coupling.bound for coupling in couplings]),
        "dropped": np.array([coupling.dropped for coupling in couplings]),
    }
