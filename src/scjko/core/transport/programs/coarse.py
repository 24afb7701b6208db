"""A first plan and first potentials for large snapshots: from the exact coupling of clusters of cells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from .plan import Plan
from .pricing import price_side_by_side
from .simplex import simplex

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Clusters of a snapshot, at most: their exact coupling takes a fifth of a second.
MAX_CLUSTERS = 1000
#: Cells in a cluster, at least, on average.
FEWEST = 4
#: Rounds of Lloyd's algorithm. Clusters need not be the best ones.
ROUNDS = 3


def coarse_start(
    x: Array, y: Array, a: Array, b: Array, rng: np.random.Generator, cap: float = np.inf
) -> tuple[Plan, tuple[Array, Array], Index]:
    """A plan of the cells from that of their clusters, potentials likewise, and the clusters of the sources.

    Cells have coordinates in random order and whole masses. On branched data in few dimensions the plan is within some
    per cent of the optimum and the potentials prove it; on clouds in many dimensions they are a start. A pair costs
    ``cap`` at most.
    """
    one, other = clusters(x, rng), clusters(y, rng)
    (centers, mass), (other_centers, other_mass) = _means(x, a, one), _means(y, b, other)
    cost = np.minimum(cdist(centers, other_centers, "sqeuclidean"), cap)
    unit = np.exp2(np.rint(np.log2(mass.mean())))
    matrix, u, v = simplex(mass / unit, other_mass / unit, cost, of="clusters")
    matrix = np.rint(matrix * unit)
    source, target = np.nonzero(matrix)
    plan = shared_out(Plan(source, target, matrix[source, target]), one, other, a, b)
    # The potential of a cell is that which its own position has with the clusters of the other side.
    f = price_side_by_side(x, other_centers, v, [0, len(other_centers)], cap=cap).least
    g = price_side_by_side(y, centers, u, [0, len(centers)], cap=cap).least
    return plan, (f, g), one


def clusters(x: Array, rng: np.random.Generator) -> Index:
    """The cluster of each cell, numbered without gaps: Lloyd's algorithm from random cells."""
    n_clusters = max(1, min(MAX_CLUSTERS, len(x) // FEWEST))
    centers = x[rng.permutation(len(x))[:n_clusters]]
    label = np.zeros(len(x), np.int64)
    for _ in range(ROUNDS):
        found = price_side_by_side(x, centers, np.zeros(len(centers)), [0, len(centers)]).target[:, 0]
        label = np.unique(found, return_inverse=True)[1]
        centers, _ = _means(x, np.ones(len(x)), label)
    return label


def _means(x: Array, mass: Array, label: Index) -> tuple[Array, Array]:
    """The mean and the mass of each cluster."""
    total = np.bincount(label, mass).astype(np.float64)
    return np.stack([np.bincount(label, mass * column) for column in x.T], axis=1) / total[:, None], total


def shared_out(coarse: Plan, one: Index, other: Index, a: Array, b: Array) -> Plan:
    """The plan of clusters as one of cells: the cells of a cluster, one after the other, fill its pairs in turn."""
    # Along a line on which every cell and every pair takes as much room as it has mass, sources in the order of their
    # clusters, and once more for the targets: a pair is an interval on both lines.
    sources, targets = np.argsort(one, kind="stable"), np.argsort(other, kind="stable")
    left, entered = np.cumsum(a[sources]), np.cumsum(b[targets])
    by_target = np.lexsort((coarse.source, coarse.target))  # they are in the order of their sources
    leaves = np.cumsum(coarse.mass) - coarse.mass
    enters = np.empty(len(coarse.mass))
    enters[by_target] = np.cumsum(coarse.mass[by_target]) - coarse.mass[by_target]
    parts = []
    for start, arrival, mass in zip(leaves, enters, coarse.mass, strict=True):
        ends = np.union1d(
            left[np.searchsorted(left, start, "right") : np.searchsorted(left, start + mass)] - start,
            entered[np.searchsorted(entered, arrival, "right") : np.searchsorted(entered, arrival + mass)] - arrival,
        )
        ends = np.append(ends, mass)
        parts.append(
            Plan(
                sources[np.searchsorted(left, start + ends)],
                targets[np.searchsorted(entered, arrival + ends)],
                np.diff(ends, prepend=0),
            )
        )
    return Plan.union(parts, len(b))
