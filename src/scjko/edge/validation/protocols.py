"""Protocols of a validation: what is held out, and what is predicted of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.energy.energy import Energy
from ...core.fitting.ensembles.regions import distances
from ...core.judging.baselines import (
    Cloud,
    best_transport,
    kantorovich,
    kernel_ridge,
    last_mean_shift,
    linear_map,
    midpoint,
    mixture,
    transport,
)
from ...core.judging.names import JUDGED, UNMOVED
from ...core.motion.interpolation import best_rule, between, towards_observed, with_mass
from ...core.schemes import scheme_of
from ...core.timeline import Timeline, time_text
from ...core.transport import Auto
from ..checks import check_integer, check_option, check_positive
from ..snapshots import Snapshots
from .folds import LEVEL, Fold, Held, Predicted, Protocol, Trained, clouds

#: Nearest training cells whose displacements are averaged.
NEIGHBOURS = 5


@dataclass(frozen=True)
class Cells(Protocol):
    """Some cells of every time point are held out, moved to the next one and compared with those held out there."""

    name: ClassVar[str] = "cells"
    what: ClassVar[str] = "held-out cells"
    part: ClassVar[str] = "split"

    test_size: float
    n_splits: int
    max_compared: int | None = None

    def __post_init__(self) -> None:
        check_integer("n_splits", self.n_splits)
        if check_positive("test_size", self.test_size) >= 1:
            raise ValueError(f"test_size={self.test_size:g} must be a fraction below one.")

    @property
    def test_share(self) -> float:
        """The fraction of the cells held out."""
        return self.test_size

    def folds(self, snapshots: Snapshots, time_key: str, scheme: str, random_state: int) -> list[Fold]:
        """Random splits of every time point, the same whatever the order of rows."""
        folds = []
        for split in range(self.n_splits):
            rng, train = np.random.default_rng(random_state + split), np.zeros(len(snapshots.rows), dtype=bool)
            for time, rows in zip(snapshots.times, snapshots.rows_by_time, strict=True):
                train[rng.permutation(rows)[: self._n_train(len(rows), time)]] = True
            folds.append(Fold(split, train, random_state + split))
        return folds

    def _n_train(self, n_cells: int, time: float) -> int:
        n_train = round((1 - self.test_size) * n_cells)
        if n_train < 2 or n_train == n_cells:
            raise ValueError(
                f"test_size={self.test_size:g} leaves {n_train} of the {n_cells} cells at time {time_text(time)} for "
                f"training and {n_cells - n_train} held out; at least two and one are needed. Change test_size, or "
                "drop that time."
            )
        return n_train

    def compared(self, known: NDArray[np.int64], held_out: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Held-out cells of one time, or training cells of the next, with held-out cells of the next."""
        return [(int(max(held_out[k], known[k + 1])), int(held_out[k + 1])) for k in range(len(known) - 1)]

    def predicted(self, fold: Trained) -> Iterator[Predicted]:
        """The held-out cells of each time point, moved to the next."""
        energy, train, test, couplings = fold[:4]
        held_out, known = clouds(test), clouds(train)
        for k, (t0, t1) in enumerate(zip(train.times[:-1], train.times[1:], strict=True)):
            x, target, plan = held_out[k], held_out[k + 1], (known[k].points, known[k + 1].points, couplings[k])
            step = energy.move(x.points, t0, t1)
            points = {
                JUDGED: step.positions,
                UNMOVED: x.points,
                "ot_nearest": transport(x.points, *plan, 1),
                "ot_neighbours": transport(x.points, *plan, NEIGHBOURS),
                "ot_neighbours_best": best_transport(x.points, *plan),
                "kernel_ridge": kernel_ridge(x.points, *plan),
                "linear_map": linear_map(x.points, *plan),
                "kantorovich": kantorovich(x.points, *plan),
            }
            made = {method: x._replace(points=moved) for method, moved in points.items()}
            made[JUDGED] = Cloud(step.positions, with_mass(x.weight, step.mass))
            untrusted = int(np.sum(~step.converged))
            held = _held(energy, k, x.points, made[JUDGED], target)
            yield Predicted(t1, target, made, _paired(energy, made), untrusted, (known[k + 1], target), held)


@dataclass(frozen=True)
class Times(Protocol):
    """Every time point but the first and last is left out in turn and interpolated from its neighbours."""

    name: ClassVar[str] = "times"
    what: ClassVar[str] = "left-out time points"
    part: ClassVar[str] = "time point"

    max_compared: int | None = None

    def folds(self, snapshots: Snapshots, time_key: str, scheme: str, random_state: int) -> list[Fold]:
        """One fold for each time point in between."""
        n_times = len(snapshots.times)
        if n_times < 3:
            raise ValueError(
                f"protocol='times' leaves out a time point between two others, and obs[{time_key!r}] has only "
                f"{n_times} time points; use protocol='cells'."
            )
        if scheme_of(scheme, static=False).backward is None:
            raise ValueError(
                f"protocol='times' interpolates from both sides, and scheme={scheme!r} has no step back; use 'both' or "
                "'implicit'."
            )
        return [Fold(k - 1, _without(snapshots, k), random_state) for k in range(1, n_times - 1)]

    def compared(self, known: NDArray[np.int64], held_out: NDArray[np.int64]) -> list[tuple[int, int]]:
        """The cells of both neighbours with those of the time point left out."""
        (k,) = np.flatnonzero(held_out)
        return [(int(known[k - 1] + known[k + 1]), int(held_out[k]))]

    def predicted(self, fold: Trained) -> Iterator[Predicted]:
        """The time point that was left out, by the rule of :func:`scjko.tl.interpolate`."""
        energy, train, test, couplings = fold[:4]
        (time,), (target,), known = test.times, clouds(test), clouds(train)
        k = energy.timeline.containing(time)
        before, after, ends = known[k], known[k + 1], (train.times[k], train.times[k + 1])
        fraction = (time - ends[0]) / (ends[1] - ends[0])
        rule = best_rule(known, train.times)

        def pulled(cloud: Cloud) -> Cloud:
            return cloud._replace(points=towards_observed(cloud.points, train.coordinates, rule.strength))

        found = between(energy, before, after, ends, time, asynchrony=rule.asynchrony)
        lines = before.points, after.points, couplings[k], fraction
        straight = midpoint(*lines)
        made = {
            JUDGED: pulled(found.cloud),
            UNMOVED: before,
            "ot_midpoint": straight,
            "ot_midpoint_prior": pulled(straight),
            "ot_asynchronous": pulled(midpoint(*lines, rule.asynchrony)),
            "mixture": mixture(before, after, fraction),
        }
        untrusted = int(np.sum(~found.converged))
        paired = _paired(energy, (JUDGED, "mixture"))
        yield Predicted(time, target, made, paired, untrusted, _halves(target))


class Last(Protocol):
    """The last time point is left out and forecast from the one before it."""

    name: ClassVar[str] = "last"
    reads_field: ClassVar[bool] = True
    what: ClassVar[str] = "the last time point"
    part: ClassVar[str] = "time point"

    def folds(self, snapshots: Snapshots, time_key: str, scheme: str, random_state: int) -> list[Fold]:
        """One fold, without the last time point."""
        n_times = len(snapshots.times)
        if n_times < 3:
            raise ValueError(
                f"protocol='last' fits all time points but the last, which takes at least three, and obs[{time_key!r}] "
                f"has only {n_times}; use protocol='cells'."
            )
        # Before anything is fitted: the last interval may be too long to be forecast.
        Timeline(snapshots.times[:-1]).check_path(*snapshots.times[-2:])
        return [Fold(0, _without(snapshots, n_times - 1), random_state)]

    def compared(self, known: NDArray[np.int64], held_out: NDArray[np.int64]) -> list[tuple[int, int]]:
        """The last two time points."""
        return [(int(known[-2]), int(held_out[-1]))]

    def predicted(self, fold: Trained) -> Iterator[Predicted]:
        """The last time point, from the cells of the one before."""
        energy, train, test = fold[:3]
        (time,), (target,), (before, last) = test.times, clouds(test), clouds(train)[-2:]
        step = energy.move(last.points, train.times[-1], time)
        gaps = train.times[-1] - train.times[-2], time - train.times[-1]
        made = {
            JUDGED: Cloud(step.positions, with_mass(last.weight, step.mass)),
            UNMOVED: last,
            "mean_shift": last_mean_shift(before, last, *gaps),
        }
        untrusted = int(np.sum(~step.converged))
        yield Predicted(time, target, made, _paired(energy, made), untrusted, _halves(target))


PROTOCOLS = (Cells.name, Times.name, Last.name)


def as_protocol(name: str | Protocol, test_size: float, n_splits: int) -> Protocol:
    """The protocol of this name. One that is made already, as benchmarks do, stays as it is."""
    if isinstance(name, Protocol):
        return name
    found: dict[str, Protocol] = {each.name: each for each in (Cells(test_size, n_splits), Times(), Last())}
    check_option("protocol", name, found)
    return found[name]


def _held(energy: Energy, k: int, x: NDArray[np.float64], moved: Cloud, target: Cloud) -> Held | None:
    """Which fraction of held-out cells, coupled by themselves, prediction regions hold."""
    if energy.spread is None:
        return None
    plan = Auto().solve(x, target.points, moved.weight, target.weight)
    away, mass = distances(moved.points, target.points, plan)
    n_cells = (len(x) + len(target.weight)) / 2
    radius = energy.spread.radii.at(k, LEVEL, energy.n_dims, n_cells)
    return Held(float(mass @ (away <= radius) / mass.sum()), radius)


def _paired(energy: Energy, methods: Iterable[str]) -> frozenset[str]:
    """Of methods that move the same cells those that give them the same weights: where cells grow, only the energy."""
    return frozenset(methods) if energy.growth_field is None else frozenset({JUDGED})


def _without(snapshots: Snapshots, k: int) -> NDArray[np.bool_]:
    """All cells but those of one time point."""
    train = np.ones(len(snapshots.rows), dtype=bool)
    train[snapshots.rows_by_time[k]] = False
    return train


def _halves(cloud: Cloud) -> tuple[Cloud, Cloud]:
    """Two random halves; every second cell in an order by coordinates would be a sample better than random."""
    half = np.random.default_rng(0).permutation(len(cloud.weight)) % 2 == 0
    one, other = (Cloud(cloud.points[part], cloud.weight[part]) for part in (half, ~half))
    return one, other
