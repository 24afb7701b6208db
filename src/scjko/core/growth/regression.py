"""Rates of single cells made a smooth function of position, as smooth as cells that were held out say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve
from scipy.spatial.distance import cdist

from ..compute.parallel import one_thread
from .field import Rate, gaussians

Array = NDArray[np.float64]

#: Centres of a rate, at most, and cells that it is fitted to.
MAX_CENTERS, MAX_CELLS = 150, 2000
#: Widths that are tried, as multiples of the median distance of two cells, and ridges, relative to the weight of all.
WIDTHS = (0.25, 0.5, 1.0)
RIDGES = (1e-4, 1e-3, 1e-2, 1e-1)


class Sample(NamedTuple):
    """Rates of some cells."""

    points: Array
    rates: Array
    weight: Array
    """One in all."""

    @classmethod
    def of(cls, points: Array, rates: Array, weight: Array, rng: np.random.Generator) -> Sample:
        """The cells with weight, or as many of them as a fit looks at."""
        rows = np.flatnonzero(weight > 0)
        if len(rows) > MAX_CELLS:
            rows = np.sort(rng.choice(rows, MAX_CELLS, replace=False))
        return cls(points[rows], rates[rows], weight[rows] / weight[rows].sum())

    @property
    def mean(self) -> float:
        """The mean rate."""
        return float(self.weight @ self.rates)


def smooth(whole: Sample, parts: Sequence[tuple[Sample, Sample]]) -> Rate:
    """Kernel ridge regression of the rates, its width and ridge those that predict one part of a pair from the other.

    If no setting predicts better than the mean rate, the rate is the same everywhere.
    """
    center = whole.points.mean(axis=0)
    squared = cdist(whole.points[:500], whole.points[:500], "sqeuclidean")
    typical = float(np.sqrt(np.median(squared[squared > 0]))) if (squared > 0).any() else 0.0
    flat = Rate(np.zeros((0, len(center))), np.zeros(0), 1.0, whole.mean)
    if typical == 0 or np.ptp(whole.rates) <= 1e-12 * (1 + np.abs(whole.rates).max()):
        return flat
    with one_thread():  # for matrices this small more threads wait longer than they work
        setting = _best(parts, typical)
        return flat if setting is None else _fits(whole, setting[0] * typical, setting[1:])[0]


def _best(parts: Sequence[tuple[Sample, Sample]], typical: float) -> tuple[float, float] | None:
    """The width, as a multiple of the typical distance, and the ridge that predict best; none if the mean does."""
    errors: dict[tuple[float, float] | None, float] = {None: 0.0}
    for one, other in [*parts, *(pair[::-1] for pair in parts)]:
        errors[None] += float(other.weight @ (other.rates - one.mean) ** 2)
        for width in WIDTHS:
            fits = _fits(one, width * typical, RIDGES)
            for ridge, rate in zip(RIDGES, fits, strict=True):
                error = float(other.weight @ (other.rates - rate(other.points)) ** 2)
                errors[width, ridge] = errors.get((width, ridge), 0.0) + error
    return min(errors, key=lambda setting: errors[setting])


def _fits(sample: Sample, width: float, ridges: Sequence[float]) -> list[Rate]:
    """The regression with each of these ridges."""
    n = len(sample.points)
    centers = sample.points[np.random.default_rng(0).permutation(n)[:MAX_CENTERS]]
    kernel, own = gaussians(sample.points, centers, width), gaussians(centers, centers, width)
    gram = kernel.T @ (sample.weight[:, None] * kernel)
    target = kernel.T @ (sample.weight * (sample.rates - sample.mean))
    steady = 1e-10 * np.eye(len(centers))
    heights = [solve(gram + ridge * own + steady, target, assume_a="pos") for ridge in ridges]
    return [Rate(centers, height, width, sample.mean) for height in heights]
