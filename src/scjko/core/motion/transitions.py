"""Probabilities of cells to become cells of a later snapshot, from where an energy moves them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..compute.neighbours import nearest

Array = NDArray[np.float64]


def transitions(moved: Array, cells: Array, n_neighbors: int) -> sparse.csr_matrix:
    """The row-stochastic matrix (n, m) of n moved cells becoming one of the m ``cells`` they come to stand among.

    A cell moved to y becomes one of the ``n_neighbors`` nearest cells x_j with probability
    p_j ∝ exp(−2 ‖y − x_j‖² / h²), where h is the distance of the farthest of them: sharp where cells are dense, wide
    where they are sparse.
    """
    distance, column = nearest(cells, moved, n_neighbors)
    farthest = np.maximum(distance[:, -1:], np.finfo(float).tiny)
    weight = np.exp(-2 * (distance / farthest) ** 2)
    row = np.repeat(np.arange(len(moved)), column.shape[1])
    probability = weight / weight.sum(axis=1, keepdims=True)
    return sparse.csr_matrix((probability.ravel(), (row, column.ravel())), shape=(len(moved), len(cells)))


def chain(
    moved: Array, cells: Array, snapshot: NDArray[np.int64], following: NDArray[np.int64], n_neighbors: int
) -> sparse.csr_matrix:
    """The transitions among all cells (n, n): a cell of snapshot k becomes one of snapshot ``following[k]``."""
    rows, columns, values = [], [], []
    for k, after in enumerate(following):
        here, there = np.flatnonzero(snapshot == k), np.flatnonzero(snapshot == after)
        block = sparse.coo_matrix(transitions(moved[here], cells[there], n_neighbors))
        rows.append(here[block.row])
        columns.append(there[block.col])
        values.append(block.data)
    entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
    return sparse.csr_matrix(entries, shape=(len(cells), len(cells)))


def markov_chain(
    predicted: Array, cells: Array, snapshot: NDArray[np.int64], within: float, n_neighbors: int
) -> sparse.csr_matrix:
    """The chain (n, n) in which a cell goes to the next snapshot, where it is predicted to be, or stays in its own.

    It stays with probability ``within``, and becomes a cell near itself. In the last snapshot it always stays: what
    comes after has not been measured.
    """
    n_snapshots = int(snapshot.max()) + 1
    last = snapshot == n_snapshots - 1
    next_one = np.minimum(np.arange(n_snapshots) + 1, n_snapshots - 1)
    onward = chain(np.where(last[:, None], cells, predicted), cells, snapshot, next_one, n_neighbors)
    return (1 - within) * onward + within * chain(cells, cells, snapshot, np.arange(n_snapshots), n_neighbors)
