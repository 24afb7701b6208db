"""Which wells are one, and the lowest pass between any two: minimax paths over a graph of saddles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def merged(wells: Array, between: Index, heights: Array, least: float) -> Index:
    """The group of each well: one less than ``least`` below its pass to a deeper one belongs to that beyond the pass.

    Passes are taken from the lowest up: each that joins two groups ends the life of the shallower one.
    """
    parent = np.arange(len(wells))
    same = np.arange(len(wells))

    def root(of: Index, k: int) -> int:
        while of[k] != k:
            k = int(of[k])
        return k

    for row in np.argsort(heights, kind="stable"):
        one, other = (int(k) for k in between[row])
        a, b = root(parent, one), root(parent, other)
        if a == b:
            continue
        deep, shallow, beyond = (a, b, one) if wells[a] <= wells[b] else (b, a, other)
        parent[shallow] = deep
        if heights[row] - wells[shallow] < least:
            same[shallow] = root(same, beyond)
    roots = np.array([root(same, k) for k in range(len(wells))], dtype=np.int64)
    return np.unique(roots, return_inverse=True)[1].ravel() if len(roots) else roots


def barriers_of(n_wells: int, between: Index, heights: Array) -> Array:
    """The height of the lowest pass between every two of the wells, minus infinity for each with itself."""
    found = np.full((n_wells, n_wells), np.inf)
    for (a, b), height in zip(between, heights, strict=True):
        found[a, b] = found[b, a] = min(found[a, b], height)
    np.fill_diagonal(found, -np.inf)
    for k in range(n_wells):
        found = np.minimum(found, np.maximum(found[:, k, None], found[None, k, :]))
    return found
