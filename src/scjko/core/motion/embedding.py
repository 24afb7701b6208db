"""Velocities on an embedding: where neighbours say that a cell is headed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..compute.neighbours import nearest

Array = NDArray[np.float64]


def project(velocity: Array, x: Array, embedding: Array, graph: sparse.csr_matrix) -> Array:
    """The velocity of each cell on the embedding (n, k), by the expectation of a kernel over its neighbours.

    A neighbour j of cell i is stepped to with probability p_ij ∝ w_ij exp(cos(x_j − x_i, v_i) / σ), where w is the
    graph and σ a scale of the cosines; the velocity is Σ_j p_ij u_ij − Σ_j q_ij u_ij, with u_ij the unit vector from i
    to j on the embedding and q_ij ∝ w_ij the same without velocity (La Manno et al. 2018; Bergen et al. 2020). Its
    length is that share times the cell's speed, as a fraction of the mean speed, times the mean distance of neighbours
    on the embedding: arrows of cells at rest are short.
    """
    graph = sparse.csr_matrix(graph)
    weights = sparse.coo_matrix(graph)
    keep = (weights.row != weights.col) & (weights.data > 0)
    i, j, w = weights.row[keep], weights.col[keep], weights.data[keep].astype(np.float64)
    way, there = x[j] - x[i], embedding[j] - embedding[i]
    speed = np.linalg.norm(velocity, axis=1)
    length = np.linalg.norm(way, axis=1) * speed[i]
    cosine = np.divide(np.sum(way * velocity[i], axis=1), length, out=np.zeros(len(i)), where=length > 0)
    distance = np.linalg.norm(there, axis=1)
    unit = np.divide(there, distance[:, None], out=np.zeros_like(there), where=distance[:, None] > 0)
    scale = max(float(np.std(cosine)), 1e-12) if len(cosine) else 1.0
    pull = _mean(unit, w * np.exp((cosine - 1.0) / scale), i, len(x)) - _mean(unit, w, i, len(x))
    typical = speed.mean()
    relative = speed / typical if typical > 0 else speed
    return pull * relative[:, None] * (distance.mean() if len(distance) else 0.0)


def _mean(values: Array, weight: Array, row: NDArray[np.int32], n_rows: int) -> Array:
    """The weighted mean of the values of each row; zero where there are none."""
    total = np.bincount(row, weight, minlength=n_rows)
    sums = np.stack([np.bincount(row, weight * column, minlength=n_rows) for column in values.T], axis=1)
    return sums / np.where(total > 0, total, 1.0)[:, None]


def smoothed(grid: Array, points: Array, values: Array, n_nearest: int = 15) -> Array:
    """``values`` (n, k) of the nearest of ``points``, averaged at each point of ``grid``, nearer ones with more weight.

    The weights fall off over the distance to the farthest of the nearest: sharp among many points, smooth among few.
    """
    distance, near = nearest(points, grid, n_nearest)
    weight = np.exp(-2 * (distance / np.maximum(distance[:, -1:], 1e-300)) ** 2)
    return np.sum(weight[..., None] * values[near], axis=1) / weight.sum(axis=1)[:, None]
