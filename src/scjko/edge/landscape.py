"""Landscapes as plain arrays: the relief of an energy at one time, and charts to and from ``uns``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.energy.energy import Energy
from ..core.energy.spread import deviation
from ..core.fitting.fit import fit
from ..core.fitting.parametrizations import Linear
from ..core.judging.metrics import emd
from ..core.landscape.chart import Chart
from ..core.landscape.relief import Relief
from ..core.landscape.static import gradient_test
from ..core.landscape.tracks import Tracks
from ..core.timeline import Timeline, time_text
from ..core.transport import Exact, couple, uniform
from .fitted import FittedCells
from .logging import logger

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Cells of a time point that the test of one potential takes, and the potential that it fits.
TESTED = 200
TRIED = Linear(degree=3, n_centers=50, ridge=1e-2)
#: One potential does not explain the motion if it explains less than it should by this fraction, and if that is rare in
#: simulated courses. On simulated fates it explained 5 and 10 % less, of rotations 29 and 31 % (seeds 10 and 11).
SHORTFALL, CHANCE = 0.15, 0.05


def relief_of(energy: Energy, time: float, cells: Array) -> Relief:
    """The potential at one time."""
    spread = float(np.sqrt(np.mean(np.sum((cells - cells.mean(axis=0)) ** 2, axis=1))))
    return Relief(
        lambda x: energy.potential(x, time) if len(x) else np.zeros(0),
        lambda x: energy.gradient(x, time) if len(x) else np.zeros(x.shape),
        lambda x: energy.hessian(x, time) if len(x) else np.zeros((0, *2 * x.shape[1:])),
        spread or 1.0,
    )


def cells_around(cells: FittedCells, time: float) -> Index:
    """Rows of the cells measured at a time, or just before and just after."""
    present = np.intersect1d(cells.energy.times, cells.times)
    if time in present:
        return np.flatnonzero(cells.times == time)
    near = [*present[present < time][-1:], *present[present > time][:1]]
    return np.flatnonzero(np.isin(cells.times, near))


@dataclass(frozen=True, eq=False)
class Charted:
    """The charts of an energy at some times, and the rows of the cells of each."""

    energy: Energy
    times: Array
    charts: Sequence[Chart]
    rows: Sequence[Index]
    tracks: Tracks

    def error(self, k: int, one: Array, other: Array | None = None) -> Array:
        """The standard deviation of V at points of chart ``k``, or of its difference between two; NaN if unknown."""
        spread, time = self.energy.spread, self.times[k]
        if spread is None or not self.energy.has_std or not len(one):
            return np.full(len(one), np.nan)
        values = [
            m.potential(one, time) - (0 if other is None else m.potential(other, time)) for m in self.energy.members
        ]
        return spread.potential * deviation(np.stack(values))

    def to_uns(self, names: Sequence[str]) -> dict[str, Any]:
        """All that is stored, as columns; ``names`` are those of the tracks."""
        first = np.cumsum([0, *(len(chart.wells.heights) for chart in self.charts)])
        return {
            "times": self.times,
            "wells": _columns([self._wells(k, names) for k in range(len(self.charts))]),
            "saddles": _columns([self._saddles(k, int(first[k])) for k in range(len(self.charts))]),
            "barriers": _columns([self._barriers(k, int(first[k])) for k in range(len(self.charts))]),
            "events": self._events(names),
        }

    def _wells(self, k: int, names: Sequence[str]) -> dict[str, Any]:
        chart, track = self.charts[k], self.tracks.numbers[k]
        wells = chart.wells
        count = np.bincount(chart.basin[chart.basin >= 0], minlength=len(track))
        return {
            "time": np.full(len(track), self.times[k]),
            "track": track,
            "name": np.array([names[t] for t in track], dtype=str),
            "position": wells.points,
            "height": wells.heights,
            "error": self.error(k, wells.points),
            "curvature": wells.curvature,
            "solved": wells.solved,
            "resting": wells.resting,
            "n_cells": count,
        }

    def _saddles(self, k: int, first: int) -> dict[str, Any]:
        saddles = self.charts[k].saddles
        return {
            "time": np.full(len(saddles.heights), self.times[k]),
            "wells": saddles.between + first,
            "position": saddles.points,
            "height": saddles.heights,
            "error": self.error(k, saddles.points),
            "curvature": saddles.curvature,
            "supported": saddles.supported,
            "solved": saddles.solved,
            "path": saddles.paths,
        }

    def _barriers(self, k: int, first: int) -> dict[str, Any]:
        chart = self.charts[k]
        passes, saddles = chart.passes, chart.saddles
        one, other = np.nonzero(np.isfinite(passes))
        # The highest saddle along the path: heights are copied, never computed, so that they can be compared.
        over = np.array([np.flatnonzero(saddles.heights == h)[0] for h in passes[one, other]], dtype=np.int64)
        return {
            "time": np.full(len(one), self.times[k]),
            "from": one + first,
            "to": other + first,
            "height": passes[one, other] - chart.wells.heights[one],
            "error": self.error(k, saddles.points[over], chart.wells.points[one]),
            "supported": saddles.supported[over],
        }

    def _events(self, names: Sequence[str]) -> dict[str, Any]:
        events = self.tracks.events
        before = np.array([event.before for event in events], dtype=np.int64)
        return {
            "kind": np.array([event.kind for event in events], dtype=str),
            "after": self.times[before],
            "before": self.times[before + 1] if len(events) else self.times[:0],
            "well": np.array([names[event.track] for event in events], dtype=str),
            "other": np.array([names[event.other] if event.other >= 0 else "" for event in events], dtype=str),
        }


def _columns(parts: Sequence[dict[str, Any]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def names_of(charted: Charted, adata: AnnData, groups: pd.Series | None) -> list[str]:
    """The name of each track: the group of most of its cells if that is more than half of them, else its number."""
    n = 1 + max((int(track.max()) for track in charted.tracks.numbers if len(track)), default=-1)
    names = [f"well {k + 1}" for k in range(n)]
    if groups is None:
        return names
    own = [
        np.concatenate(
            [
                rows[np.isin(chart.basin, np.flatnonzero(track == k))]
                for chart, rows, track in zip(charted.charts, charted.rows, charted.tracks.numbers, strict=True)
            ]
        )
        for k in range(n)
    ]
    taken: dict[str, int] = {}
    for k in sorted(range(n), key=lambda k: -len(own[k])):  # the one of most cells has the plain name
        share = groups.iloc[own[k]].astype(str).value_counts(normalize=True)
        if len(share) and share.iloc[0] > 0.5:
            name = str(share.index[0])
            taken[name] = taken.get(name, 0) + 1
            names[k] = name if taken[name] == 1 else f"{name} ({taken[name]})"
    return names


def stored_landscape(cells: FittedCells) -> Mapping[str, Any]:
    """The landscape in ``uns`` of this fit."""
    name = cells.keys.landscape
    if name not in cells.adata.uns:
        raise KeyError(f"No landscape at adata.uns[{name!r}]; run sj.tl.landscape(adata, key={cells.keys.key!r}).")
    found: Mapping[str, Any] = cells.adata.uns[name]
    return found


def tested(cells: FittedCells, random_state: int) -> dict[str, Any]:
    """Whether one potential explains the motion, in numbers, and in words in a log line."""
    timeline = Timeline(cells.snapshots.times)
    if timeline.n_intervals < 2:
        raise ValueError(
            "test_gradient=True needs cells of three time points or more: between two, some potential explains nearly "
            "any motion."
        )
    rng = np.random.default_rng(random_state)
    points = [x[rng.permutation(len(x))[:TESTED]].astype(np.float64) for x in cells.snapshots.points]

    def fitted(points: Sequence[Array]) -> tuple[float, Any]:
        weights = [uniform(x) for x in points]
        solved = couple(points, weights, [Exact()] * timeline.n_intervals)
        found = fit(points, solved, timeline, parametrization=TRIED, time_varying=False)
        moved = np.array([coupling.cost for coupling in solved])
        energy, times = found.energy, timeline.times.tolist()
        explained = float(found.explained @ moved / moved.sum()) if moved.sum() > 0 else 0.0
        return explained, lambda k, x: energy.move(x, times[k], times[k + 1]).positions

    test = gradient_test(points, timeline.gaps, fitted, emd, random_state=random_state)
    usual = float(np.median(test.expected))
    follows = not (test.p_value <= CHANCE and test.explained < (1 - SHORTFALL) * usual)
    found = {
        "explained": test.explained,
        "expected": test.expected,
        "p_value": test.p_value,
        "noise": test.noise,
        "follows": follows,
    }
    logger.info("%s", one_potential(found))
    return found


def one_potential(test: Mapping[str, Any]) -> str:
    """What a stored test of one potential says."""
    verdict = (
        "as far as these snapshots show, cells move down one landscape"
        if test["follows"]
        else "cells do not move down one landscape, which changes in time, or they go round"
    )
    return (
        f"One potential for all times explains {100 * test['explained']:.0f} % of the squared displacement, and would "
        f"explain {100 * np.median(test['expected']):.0f} % of cells that follow it: {verdict}."
    )


def say_how_heights_compare(cells: FittedCells) -> None:
    """Say how far heights are from those of the dual potentials of the couplings, which are found without a fit."""
    difference = cells.stored["diagnostics"].get("dual_difference")
    if difference is None or not np.isfinite(difference).any():
        return
    k = int(np.nanargmax(difference))
    logger.info(
        "Heights differ from the dual potentials of the couplings by %.0f %% of their spread (median of intervals), "
        "at most by %.0f %% between %s and %s.",
        100 * float(np.nanmedian(difference)),
        100 * float(difference[k]),
        *map(time_text, cells.energy.times[k : k + 2]),
    )
