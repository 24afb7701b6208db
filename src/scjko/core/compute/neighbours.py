"""Nearest neighbours by whichever search is faster in as many dimensions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

Array = NDArray[np.float64]

#: Up to as many dimensions a tree is faster. Measured on 20 000 points: 0.1 s against 0.5 s in 5 dimensions, equal in
#: 8 to 10, 4.5 s against 0.9 s in 50.
TREE_DIMS = 10


def nearest(points: Array, queries: Array, k: int) -> tuple[Array, NDArray[np.int64]]:
    """Distance and index (n_queries, k) of the ``k`` points nearest to each query, in order of distance.

    With fewer than ``k`` points, all of them. Points at the same distance come in order of their index.
    """
    k = min(k, len(points))
    if points.shape[1] <= TREE_DIMS:
        index = np.asarray(cKDTree(points).query(queries, k=np.arange(1, k + 1))[1])
    else:
        # Brute force expands (x − y)², which cancels if the points are far from the origin.
        centre = points.mean(axis=0)
        search = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(points - centre)
        index = search.kneighbors(queries - centre, return_distance=False)
    # Recomputed: the expanded square leaves about 1e-8 between a point and itself.
    distance = np.stack([np.linalg.norm(points[column] - queries, axis=1) for column in index.T], axis=1)
    order = np.lexsort((index, distance), axis=1)
    return np.take_along_axis(distance, order, axis=1), np.take_along_axis(index, order, axis=1).astype(np.int64)
