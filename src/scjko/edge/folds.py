"""Validation: which cells are held out, and how far predictions of them are off."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.energy.energies import Energy
from ..core.judging.baselines import Cloud, midpoint, mixture, transport
from ..core.judging.metrics import emd
from ..core.motion.interpolation import best_strength, between, towards_observed
from ..core.timeline import time_text
from ..core.transport.couplings import Coupling
from .snapshots import Snapshots

Array = NDArray[np.float64]
Row = dict[str, Any]

#: Nearest training cells whose displacements are averaged.
NEIGHBOURS = 5


@dataclass(frozen=True)
class Fold:
    """One fit of a validation."""

    split: int
    train: NDArray[np.bool_]
    """Whether each cell takes part in the fit."""
    seed: int


def leave_out_cells(snapshots: Snapshots, test_size: float, n_splits: int, random_state: int) -> list[Fold]:
    """Folds that hold out ``test_size`` of the cells of every time point, at random whatever the order of rows."""
    if test_size >= 1:
        raise ValueError(f"test_size={test_size:g} must be a fraction below one.")
    folds = []
    for split in range(n_splits):
        rng, train = np.random.default_rng(random_state + split), np.zeros(len(snapshots.rows), dtype=bool)
        for time, rows in zip(snapshots.times, snapshots.rows_by_time, strict=True):
            cells = rng.permutation(rows)
            n_train = round((1 - test_size) * len(cells))
            if n_train < 2 or n_train == len(cells):
                raise ValueError(
                    f"test_size={test_size:g} leaves {n_train} of the {len(cells)} cells at time {time_text(time)} for "
                    f"training and {len(cells) - n_train} held out; two and one are needed. Change test_size, or drop "
                    "that time."
                )
            train[cells[:n_train]] = True
        folds.append(Fold(split, train, random_state + split))
    return folds


def leave_out_times(times: Array, time_key: str, random_state: int) -> list[Fold]:
    """Folds that hold out every time point but the first and the last, in turn."""
    there = np.unique(times)
    if len(there) < 3:
        raise ValueError(
            f"protocol='times' leaves out a time point between two others, and obs[{time_key!r}] has but {len(there)} "
            "time points; use protocol='cells'."
        )
    return [Fold(split, times != time, random_state) for split, time in enumerate(there[1:-1])]


def compared(snapshots: Snapshots, fold: Fold, protocol: str) -> list[tuple[int, int]]:
    """How many cells the populations have whose distance a fold asks for."""
    known = np.array([np.count_nonzero(fold.train[rows]) for rows in snapshots.rows_by_time])
    held_out = snapshots.sizes - known
    if protocol == "cells":
        return [(int(max(held_out[k], known[k + 1])), int(held_out[k + 1])) for k in range(len(known) - 1)]
    (k,) = np.flatnonzero(held_out)
    return [(int(known[k - 1] + known[k + 1]), int(held_out[k]))]


def clouds(snapshots: Snapshots) -> list[Cloud]:
    """Every snapshot as weighted points."""
    return [Cloud(x, w) for x, w in zip(snapshots.points, snapshots.weights, strict=True)]


def cells_rows(energy: Energy, train: Snapshots, test: Snapshots, couplings: list[Coupling]) -> Iterator[Row]:
    """Held-out cells of each time point, moved to the next, against those held out there."""
    held_out, known = clouds(test), clouds(train)
    for k, (t0, t1) in enumerate(zip(train.times[:-1], train.times[1:], strict=True)):
        x, target, plan = held_out[k], held_out[k + 1], (known[k].points, known[k + 1].points, couplings[k])
        predictions = {
            "scjko": x._replace(points=energy.step(x.points, t0, t1)),
            "persistence": x,
            "ot_nearest": x._replace(points=transport(x.points, *plan, 1)),
            "ot_neighbours": x._replace(points=transport(x.points, *plan, NEIGHBOURS)),
            "floor": known[k + 1],
        }
        yield from _rows(predictions, target, t1)


def times_rows(energy: Energy, train: Snapshots, test: Snapshots, couplings: list[Coupling]) -> Iterator[Row]:
    """The time point that was held out, interpolated from its neighbours, against its cells."""
    (time,), (target,), known = test.times, clouds(test), clouds(train)
    k = energy.intervals.containing(time)
    before, after, ends = known[k], known[k + 1], (train.times[k], train.times[k + 1])
    fraction = (time - ends[0]) / (ends[1] - ends[0])
    cloud = between(energy, before, after, ends, time).cloud
    pulled = towards_observed(cloud.points, train.coordinates, best_strength(known, train.times))
    predictions = {
        "scjko": cloud._replace(points=pulled),
        "persistence": before,
        "ot_midpoint": midpoint(before.points, after.points, couplings[k], fraction),
        "mixture": mixture(before, after, fraction),
    }
    yield from _rows(predictions, target, time)
    # Every second cell in an order by coordinates would be a sample better than random: halves are drawn.
    half = np.random.default_rng(0).permutation(len(target.weight)) % 2 == 0
    yield from _rows({"floor": _part(target, half)}, _part(target, ~half), time)


def _part(cloud: Cloud, chosen: NDArray[np.bool_]) -> Cloud:
    return Cloud(cloud.points[chosen], cloud.weight[chosen] / cloud.weight[chosen].sum())


def _rows(predictions: dict[str, Cloud], target: Cloud, time: float) -> Iterator[Row]:
    for method, cloud in predictions.items():
        yield {
            "time": float(time),
            "method": method,
            "emd": emd(cloud.points, target.points, cloud.weight, target.weight),
            "n_source": len(cloud.weight),
            "n_target": len(target.weight),
        }
