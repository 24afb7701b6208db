"""Representatives of large snapshots: cluster centres that stand for the cells around them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..compute.neighbours import nearest
from .transitions import gathered

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Rounds of Lloyd's algorithm, on so many cells for each representative at most. Clusters need not be the best ones.
ROUNDS, CELLS_EACH = 5, 25


@dataclass(frozen=True, eq=False)
class Representatives:
    """Points that stand for the cells of a snapshot: all of them, or centres of clusters."""

    points: Array
    """(k, d)."""
    label: Index
    """The representative of each cell (n,)."""

    def mass(self, weight: Array) -> Array:
        """The weight of the cells that each stands for."""
        return np.bincount(self.label, weight, minlength=len(self.points)).astype(np.float64)

    def share(self, weight: Array) -> Array:
        """The weight of each cell among those of its representative; where none has any, equal ones."""
        mass = self.mass(weight)
        empty = mass <= 0
        weight = np.where(empty[self.label], 1.0, weight)
        return weight / self.mass(weight)[self.label]


def representatives(x: Array, most: int, random_state: int = 0) -> Representatives:
    """At most so many representatives of the cells ``x``; of as few cells, the cells themselves."""
    if len(x) <= most:
        return Representatives(x, np.arange(len(x)))
    rng = np.random.default_rng(random_state)
    sample = x[rng.permutation(len(x))[: CELLS_EACH * most]]
    centers = sample[:most]
    for _ in range(ROUNDS):
        centers = _means(sample, nearest(centers, sample, 1)[1][:, 0])
    used, label = np.unique(nearest(centers, x, 1)[1][:, 0], return_inverse=True)
    return Representatives(centers[used], label.astype(np.int64))


def _means(x: Array, label: Index) -> Array:
    """The mean of each cluster that has cells."""
    _, label = np.unique(label, return_inverse=True)
    count = np.bincount(label).astype(np.float64)
    return gathered(x, label, len(count)) / count[:, None]
