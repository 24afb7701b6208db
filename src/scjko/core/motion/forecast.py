"""Forecasts: cells beyond the last snapshot, by the field there, as far as known snapshots say it can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..energy.interactions import Population
from ..judging.metrics import emd
from ..timeline import Segment
from .lines import advance

if TYPE_CHECKING:
    from ..energy.energy import Energy

Array = NDArray[np.float64]

#: Steps per interval in which the field is followed.
SUBSTEPS = 4
#: Dampings that are tried, and the one that is used where no known snapshot can be forecast. On simulated, embryoid,
#: haematopoietic and B cells the last quarter of the motion served better than all of it or none.
DAMPINGS = (0.0, 0.25, 0.5, 0.75, 1.0)
UNJUDGED = 0.25
#: How strongly a damping φ is held against unlimited motion: φ² times this is added to the sum of the relative errors,
#: so that one snapshot forecast slightly better is not enough to go all the way.
RESTRAINT = 0.5
#: Snapshots that are forecast to choose the damping, the last ones, and cells of each.
MAX_JUDGED = 8
MAX_CELLS = 300
#: A forecast whose error on known snapshots is not below this fraction of that of not moving has not been earned.
EARNED = 0.95


@dataclass(frozen=True)
class Forecast:
    """How far cells go on after the last snapshot, and how well that did where the outcome is known."""

    damping: float
    """The fraction of the motion that goes on, from one interval to the next."""
    ratio: float
    """Its error on known snapshots relative to not moving, on average; NaN if there was none to judge by."""
    n_judged: int
    """The number of snapshots that it was judged by."""

    @property
    def doubt(self) -> str | None:
        """Why a forecast should not be relied on; None if known snapshots speak for it."""
        if self.n_judged == 0:
            return "no known snapshot could be forecast to judge it by: that takes three time points"
        if self.damping == 0:
            return "on known snapshots every forecast was worse than not moving, so cells stay where they are"
        if self.ratio > EARNED:
            return f"on known snapshots its error was {self.ratio:.2f} times that of not moving"
        return None


def judged(energy: Energy, points: Sequence[Array], weights: Sequence[Array]) -> Forecast:
    """The damping that would have served best to forecast each known snapshot from the one before.

    The motion is that of the interval before both, so that nothing of the snapshot enters its forecast but through
    what intervals have in common. The damping minimises the errors relative to not moving, plus a restraint.
    """
    n = energy.timeline.n_intervals
    errors = np.array([_errors(energy, points, weights, k) for k in range(max(1, n - MAX_JUDGED), n)])
    if not len(errors):
        return Forecast(UNJUDGED, float("nan"), 0)
    relative = errors / np.maximum(errors[:, :1], 1e-300)
    best = int(np.argmin(relative.sum(axis=0) + RESTRAINT * np.square(DAMPINGS)))
    return Forecast(DAMPINGS[best], float(relative[:, best].mean()), len(errors))


def _errors(energy: Energy, points: Sequence[Array], weights: Sequence[Array], k: int) -> list[float]:
    """For each damping the error of snapshot k + 1, forecast from k by the motion of the interval before."""
    rng = np.random.default_rng(k)
    source, target = (_sample(points[j], weights[j], rng) for j in (k, k + 1))
    x = np.tile(source, (len(DAMPINGS), 1))  # all dampings at once
    step = np.repeat(DAMPINGS, len(source))[:, None] * energy.timeline.gaps[k] / SUBSTEPS
    place = np.full(len(x), k - 1), np.full(len(x), max(energy.scheme.anchors))
    for _ in range(SUBSTEPS):
        moved = x - step * energy.slope_at(x, *place, noise=True)
        x = np.where(np.isfinite(moved), moved, x)
    return [emd(np.clip(part, -1e150, 1e150), target) for part in np.split(x, len(DAMPINGS))]


def _sample(x: Array, weight: Array, rng: np.random.Generator) -> Array:
    return x[rng.choice(len(x), min(MAX_CELLS, len(x)), p=weight)]


def forecast(
    energy: Energy, x: Array, t0: float, t1: float, among: Array | None, rng: np.random.Generator
) -> tuple[Array, Array | None]:
    """Cells moved from ``t0`` to ``t1``, both beyond the last snapshot, and the population they are among.

    The field at the last snapshot is followed in small steps. With every further interval of the last length the motion
    is damped once more (the damped trend of Gardner and McKenzie 1985). A population that interacts moves along, so
    that it is felt where it is.
    """
    last, gap = energy.times[-1], energy.timeline.gaps[-1]
    if energy.forecast is None:
        return repeated(energy, x, t0 - last, t1 - last, rng), among
    if energy.interaction_term is not None and among is None:
        among = _last_population(energy).points * energy.units.length + energy.units.center
    for start, stop in _pieces(t0 - last, t1 - last, gap / SUBSTEPS):
        step = energy.forecast.damping ** (1 + np.floor(start / gap + 1e-9)) * (stop - start)
        felt = None if among is None else Population(energy.units.inner(among), _last_population(energy).weight)
        moved = x + step * _velocity(energy, x, felt)
        if energy.internal_term is not None:
            moved = moved + np.sqrt(2 * energy.beta * (stop - start)) * rng.standard_normal(x.shape)
        if among is not None:
            among = among + step * _velocity(energy, among, felt)
        x = np.where(np.isfinite(moved), moved, x)
    return x, among


def repeated(energy: Energy, x: Array, start: float, stop: float, rng: np.random.Generator) -> Array:
    """Cells moved on by the step of the last interval, over and over, as fits of version 0.1 forecast."""
    last, gap = energy.timeline.n_intervals - 1, energy.timeline.gaps[-1]
    at = 1.0 - energy.scheme.forward  # a proximal step is that of the whole interval, others start at its end
    for a, b in _pieces(start, stop, gap):
        x = advance(energy, x, Segment(last, at, at + (b - a) / gap), 1.0).positions
        if energy.internal_term is not None:
            x = x + np.sqrt(2 * energy.beta * (b - a)) * rng.standard_normal(x.shape)
    return x


def _pieces(start: float, stop: float, length: float) -> list[tuple[float, float]]:
    """The time from ``start`` to ``stop``, cut at every multiple of ``length``."""
    cuts = length * np.arange(np.floor(start / length) + 1, np.ceil(stop / length))
    marks = [start, *cuts[(cuts > start + 1e-9 * length) & (cuts < stop - 1e-9 * length)], stop]
    return list(zip(marks[:-1], marks[1:], strict=True))


def _last_population(energy: Energy) -> Population:
    assert energy.interaction_term is not None
    return energy.interaction_term.populations[float(energy.timeline.n_intervals)]


def _velocity(energy: Energy, x: Array, among: Population | None) -> Array:
    """The drift of the field at the last snapshot; zero where cells have left every range."""
    slope = energy.gradient(x, energy.times[-1])
    if among is not None and energy.interaction_term is not None:
        slope = slope + energy.interaction_term.slope(x, among)
    return np.nan_to_num(-slope, posinf=0.0, neginf=0.0)
