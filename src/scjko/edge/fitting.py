"""From snapshots to a fitted energy, by the options of :func:`scjko.tl.fit_energy`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..core.fitting.fit import Fit, fit
from ..core.timeline import Intervals, time_text
from ..core.transport.budget import Budget, allot, machine_memory
from ..core.transport.couplings import Coupling, OperatorCoupling, couple, solver
from .logging import logger, progress_bar
from .settings import settings_of
from .snapshots import Snapshots
from .stored import mixing


def varies(asked: Mapping[str, Any], n_snapshots: int) -> Any:
    """How the potential varies in time: as asked, or by default."""
    if asked["time_varying"] is None:
        return asked["scheme"] == "both" or n_snapshots > 2
    return asked["time_varying"]


def memory_limit(asked: Mapping[str, Any]) -> int:
    """Bytes that couplings and distances may take: as asked for, or a quarter of the machine's."""
    return machine_memory() // 4 if asked["memory_limit"] is None else int(asked["memory_limit"] * 1e9)


def couple_snapshots(
    snapshots: Snapshots, asked: Mapping[str, Any], progress: bool, client: Any = None
) -> tuple[list[Coupling], list[str]]:
    """The couplings of consecutive snapshots, and the solver that each is by: as asked for, or as fits into memory."""
    sizes, size = snapshots.sizes, asked["coupling_batch"]
    if asked["coupling"] == "batched" and size > sizes.min():
        raise ValueError(
            f"coupling_batch={size} is larger than the smallest snapshot ({sizes.min()} cells at "
            f"{time_text(snapshots.times[np.argmin(sizes)])}); choose a smaller batch, or coupling='exact'."
        )
    n_dims = snapshots.coordinates.shape[1]
    budget = allot(asked["coupling"], sizes.tolist(), n_dims, size, memory_limit(asked), os.cpu_count() or 1)
    _announce(sizes.tolist(), budget, client)
    solvers = [
        solver(name, size=size, epsilon=asked["epsilon"], random_state=asked["random_state"]) for name in budget.solvers
    ]
    with progress_bar(len(sizes) - 1, "couplings", enabled=progress) as bar:
        solved = couple(snapshots.points, snapshots.weights, solvers, bar.update, at_once=budget.at_once, client=client)
    return solved, budget.solvers


def _announce(sizes: list[int], budget: Budget, client: Any) -> None:
    """Say before it starts how large the problem is, what takes it, and what that means."""
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))
    k = max(range(len(pairs)), key=lambda k: pairs[k][0] * pairs[k][1])
    where = f"{budget.at_once} at a time" if client is None else "on the cluster"
    counts = {name: budget.solvers.count(name) for name in dict.fromkeys(budget.solvers)}
    logger.info(
        "Coupling %d intervals (%s), %s; the largest of %d × %d cells, %.2g GB.",
        len(pairs),
        ", ".join(f"{count} {name}" for name, count in counts.items()),
        where,
        *pairs[k],
        budget.needs[k] / 1e9,
    )
    if "decomposed" in counts and "exact" in counts or counts.get("decomposed") == len(pairs):
        logger.info(
            "Decomposed couplings cost a few per cent more than exact ones, which large snapshots have no room for."
        )


def fit_snapshots(
    snapshots: Snapshots, couplings: Sequence[Coupling | OperatorCoupling], asked: Mapping[str, Any], progress: bool
) -> Fit:
    """The energy that is asked for, fitted to coupled snapshots."""
    logger.info("Training a %s energy on %d cells.", asked["parametrization"], len(snapshots.coordinates))
    with progress_bar(100, "training", enabled=progress) as bar:
        return fit(
            snapshots.points,
            couplings,
            Intervals(snapshots.times, asked["time_label"]),
            settings=settings_of(asked),
            terms=tuple(asked["terms"]),
            scheme=asked["scheme"],
            mixing=mixing(asked["parametrization"], varies(asked, len(snapshots.times))),
            point_weights=snapshots.weights,
            n_components=asked["n_components"],
            on_progress=lambda fraction: bar.update(100 * fraction),
        )
