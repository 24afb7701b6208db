"""From snapshots to a fitted energy, by the options of :func:`scjko.tl.fit_energy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ._logging import logger, progress_bar
from ._settings import settings_of
from ._snapshots import Snapshots
from ._storage import mixing
from .core.couplings import Coupling, couple, solver
from .core.fit import Fit, fit
from .core.intervals import Intervals


def varies(asked: Mapping[str, Any], n_snapshots: int) -> Any:
    """How the potential varies in time: as asked, or by default."""
    if asked["time_varying"] is None:
        return asked["scheme"] == "both" or n_snapshots > 2
    return asked["time_varying"]


def couple_snapshots(snapshots: Snapshots, asked: Mapping[str, Any], progress: bool) -> list[Coupling]:
    """The couplings of consecutive snapshots by the solver that is asked for."""
    sizes, size = snapshots.sizes, asked["coupling_batch"]
    if asked["coupling"] == "batched" and size > sizes.min():
        raise ValueError(
            f"coupling_batch={size} is larger than the smallest snapshot ({sizes.min()} cells at "
            f"{snapshots.times[np.argmin(sizes)]:g}); choose a smaller batch, or coupling='exact'."
        )
    largest = max(zip(sizes[:-1], sizes[1:], strict=True), key=np.prod)
    logger.info(
        "Coupling %d intervals (%s), the largest of %d × %d cells.", len(sizes) - 1, asked["coupling"], *largest
    )
    solve = solver(asked["coupling"], size=size, epsilon=asked["epsilon"], random_state=asked["random_state"])
    with progress_bar(len(sizes) - 1, "couplings", enabled=progress) as bar:
        return couple(snapshots.points, snapshots.weights, solve, on_solved=bar.update)


def fit_snapshots(snapshots: Snapshots, couplings: list[Coupling], asked: Mapping[str, Any], progress: bool) -> Fit:
    """The energy that is asked for, fitted to coupled snapshots."""
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
