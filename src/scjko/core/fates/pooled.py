"""Fates without dynamics, as baselines: where neighbours end, and random walks on the graph of all cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import splu

from ..compute.neighbours import nearest
from .representatives import representatives
from .transitions import gathered

Array = NDArray[np.float64]

#: Neighbours of a cell, and representatives of all cells on whose graph random walks are solved.
NEIGHBOURS, MOST = 15, 5000
#: A walk stops at a step with this probability, so that one that never meets a terminal cell ends.
STOP = 1e-4


def unmoved(x: Array, terminal: Array, member: Array) -> Array:
    """The shares of fates among the nearest terminal cells, as if no cell moved."""
    _, index = nearest(terminal, x, NEIGHBOURS)
    return np.asarray(member[index].mean(axis=1))


def walked(x: Array, member: Array, random_state: int = 0) -> Array:
    """The probabilities that a random walk on the graph of neighbours of all cells first meets each terminal set.

    H = L + (1 − s)(1 − |L|) W H, with W the symmetric graph of neighbours, its rows divided by their sums.
    """
    stand_ins = representatives(x, MOST, random_state)
    points, n = stand_ins.points, len(stand_ins.points)
    labelled = gathered(stand_ins.share(np.ones(len(x)))[:, None] * member, stand_ins.label, n)
    _, index = nearest(points, points, NEIGHBOURS + 1)
    row = np.repeat(np.arange(n), index.shape[1])
    graph = sparse.csr_matrix((np.ones(len(row)), (row, index.ravel())), shape=(n, n))
    graph = sparse.csr_matrix(graph.maximum(graph.T) - sparse.eye(n))
    scale = (1 - STOP) * (1 - labelled.sum(axis=1)) / np.maximum(np.asarray(graph.sum(axis=1)).ravel(), 1.0)
    system = sparse.csc_matrix(sparse.eye(n) - sparse.diags(scale) @ graph)
    found = splu(system).solve(labelled)
    total = found.sum(axis=1, keepdims=True)
    base = labelled.sum(axis=0) / labelled.sum()
    shares = np.where(total > STOP * STOP, found / np.maximum(total, STOP * STOP), base)
    return np.asarray(np.where(member.sum(axis=1, keepdims=True) > 0, member, shares[stand_ins.label]))
