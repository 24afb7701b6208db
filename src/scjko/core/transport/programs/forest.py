"""Plans without cycles: what plans of blocks leave over when they are put together.

The pairs of a plan are the edges of a graph between sources and targets. Along a cycle of it mass can be taken from
every second pair and given to the others, which leaves the marginals as they are, until a pair is empty; in one of the
two directions the cost does not rise. A plan without cycles is a forest: it has fewer pairs than there are cells, as a
vertex of the transport polytope has.
"""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components

from .plan import Plan

Array = NDArray[np.float64]
Index = NDArray[np.int64]


def without_cycles(plan: Plan, cost: Array, n_sources: int, n_targets: int) -> Plan:
    """A plan with the same marginals that costs no more, of fewer pairs than cells; ``cost`` is that of each pair."""
    if len(plan.mass) < 2:
        return plan
    parent, edge, depth = _spanning_forest(plan.source, plan.target + n_sources, n_sources + n_targets)
    below = np.flatnonzero(edge >= 0)
    rest = np.setdiff1d(np.arange(len(plan.mass)), edge[below], assume_unique=True)
    # Every cycle that is cancelled may deepen the trees: with short ones first it takes half the time.
    rest = rest[np.argsort((depth[plan.source] + depth[plan.target + n_sources])[rest], kind="stable")]
    order = np.concatenate([edge[below], rest])
    edge[below] = np.arange(len(below))
    plan = plan.part(order)
    _cancel(plan.source, plan.target + n_sources, cost[order], plan.mass, parent, edge, len(below))
    return plan.part(np.flatnonzero(plan.mass))


def _spanning_forest(source: Index, target: Index, n_nodes: int) -> tuple[Index, Index, Index]:
    """The parent of every node in trees that are as flat as can be, the edge to it, and its depth.

    Roots have −1 for parent and edge.
    """
    edges = np.arange(1, len(source) + 1)  # a sparse matrix has no place for an edge 0
    graph = coo_matrix((edges, (source, target)), shape=(n_nodes, n_nodes)).tocsr()
    _, component = connected_components(graph, directed=False)
    _, roots = np.unique(component, return_index=True)
    # One more node above all roots makes it a single search.
    above = coo_matrix((np.ones(len(roots)), (np.full(len(roots), n_nodes), roots)), shape=(n_nodes + 1, n_nodes + 1))
    graph.resize(n_nodes + 1, n_nodes + 1)
    order, parent = breadth_first_order((graph + above).tocsr(), n_nodes, directed=False)
    parent = parent[:n_nodes].astype(np.int64)
    parent[roots] = -1
    below = np.flatnonzero(parent >= 0)
    one, other = np.minimum(below, parent[below]), np.maximum(below, parent[below])
    edge = np.full(n_nodes, -1)
    edge[below] = np.asarray(graph[one, other]).ravel().astype(np.int64) - 1
    return parent, edge, _depths(order[1:], parent)


@numba.njit(cache=True, nogil=True)
def _depths(order: NDArray[np.int32], parent: Index) -> Index:
    """How many edges each node is below its root; ``order`` has parents before their children."""
    depth = np.zeros(len(parent), np.int64)
    for node in order:
        if parent[node] >= 0:
            depth[node] = depth[parent[node]] + 1
    return depth


@numba.njit(cache=True, nogil=True)
def _cancel(source: Index, target: Index, cost: Array, mass: Array, parent: Index, edge: Index, n_forest: int) -> None:
    """Cancels the cycle that each edge after the ``n_forest`` of the forest closes, in place.

    An edge is dropped by having no mass. One of the forest that is emptied gives its place to the one that closed the
    cycle.
    """
    seen = np.full(len(parent), -1)
    for k in range(n_forest, len(mass)):
        meeting = _meeting(source[k], target[k], parent, seen, k)
        # Mass on the edge k is positive direction; next to it on either side the cycle has an edge that loses.
        change, gaining, losing = cost[k], mass[k], np.inf
        out_of_gaining, out_of_losing = -1, -1  # the node below the edge that is emptied first; −1 for k itself
        for end in (source[k], target[k]):
            node, sign = end, -1.0
            while node != meeting:
                e = edge[node]
                change += sign * cost[e]
                if sign < 0 and mass[e] < losing:
                    losing, out_of_losing = mass[e], node
                elif sign > 0 and mass[e] < gaining:
                    gaining, out_of_gaining = mass[e], node
                node, sign = parent[node], -sign
        moved, out = (losing, out_of_losing) if change <= 0 else (-gaining, out_of_gaining)
        mass[k] += moved
        leaves_side = source[k]
        for end in (source[k], target[k]):
            node, sign = end, -1.0
            while node != meeting:
                if node == out:
                    leaves_side = end
                mass[edge[node]] += sign * moved
                node, sign = parent[node], -sign
        if out >= 0:
            # The tree below the emptied edge now hangs by the edge k: the path from there to its end is reversed.
            node, above, by = leaves_side, source[k] + target[k] - leaves_side, k
            while True:
                next_node, next_edge = parent[node], edge[node]
                parent[node], edge[node] = above, by
                if node == out:
                    break
                node, above, by = next_node, node, next_edge


@numba.njit(cache=True, nogil=True)
def _meeting(one: int, other: int, parent: Index, seen: Index, k: int) -> int:
    """The first common ancestor of two nodes of a tree, by walks from both; ``seen`` is marked with ``k``."""
    while True:
        if one >= 0:
            if seen[one] == k:
                return one
            seen[one] = k
            one = parent[one]
        one, other = other, one
