"""The growth field g(x, t): at which rate the mass of a cell grows, or shrinks if it is negative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..schemes import BOTH
from ..timeline import Timeline

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Cells whose kernels are evaluated at a time.
BLOCK = 8192


@dataclass(frozen=True, eq=False)
class Rate:
    """A rate as a function of position, m + Σ_j h_j exp(−‖x − c_j‖² / 2w²): far from all cells it is the mean m."""

    points: Array
    """The centres c (n_centers, d)."""
    heights: Array
    width: float
    mean: float

    def __call__(self, x: Array) -> Array:
        """The rate at points ``x`` (n, d)."""
        blocks = np.array_split(x, max(1, -(-len(x) // BLOCK)))
        # Sums of products, and no product of matrices: the rate of a point must not depend on those beside it.
        sums = [(gaussians(part, self.points, self.width) * self.heights).sum(axis=1) for part in blocks]
        return self.mean + np.concatenate(sums)


def gaussians(x: Array, points: Array, width: float) -> Array:
    """exp(−‖x − c‖² / 2w²) for every point and centre."""
    return np.asarray(np.exp(-cdist(x, points, "sqeuclidean") / (2 * width**2)))


@dataclass(frozen=True, eq=False)
class GrowthField:
    """Rates at both ends of every interval, per unit of time.

    As with the potential there are two readings. A *map* is the mean rate of a lineage over an interval, as its first
    cell (at the start) or its last one (at the end) knows it: a mass grows by the factor e^{gΔ}. The *field* at a
    snapshot is the mean of the intervals on either side.
    """

    timeline: Timeline
    rates: tuple[Rate, ...]
    """At the start and the end of the first interval, of the second, and so on."""

    def over(self, x: Array, interval: int, fraction: float) -> Array:
        """The mean rate over an interval of cells that stand at ``x`` at a fraction of it."""
        start, end = self.rates[2 * interval : 2 * interval + 2]
        if fraction in (0, 1):
            return (end if fraction else start)(x)
        return (1 - fraction) * start(x) + fraction * end(x)

    def at(self, x: Array, interval: Index, fraction: Array) -> Array:
        """The field at points that each have a place in time."""
        parts, total = BOTH.field(self.timeline, interval, fraction), np.zeros(len(x))
        place = 2 * parts.interval + (parts.anchor > 0)
        for k in np.unique(place):
            here = place == k
            np.add.at(total, parts.row[here], parts.weight[here] * self.rates[k](x[parts.row[here]]))
        return total
