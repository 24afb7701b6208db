"""Basins of cells: where the steepest slopes from cell to cell lead down to, and the passes between them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from ..compute.neighbours import nearest
from .relief import Relief

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Neighbours of a cell: those that its passes lead to, and the one whose distance says how near cells are.
NEIGHBOURS, NEAR = 10, 5
#: Steps from the lowest cell of a basin down, each of half its distance from its neighbours.
SLIDES = 12


@dataclass(frozen=True, eq=False)
class Support:
    """Where cells are: nearer to some of them than a quantile of them are to each other."""

    cells: Array
    quantile: float

    @property
    def k(self) -> int:
        """The neighbour whose distance counts."""
        return min(NEAR, len(self.cells) - 1)

    def holds(self, x: Array) -> NDArray[np.bool_]:
        """Whether each point has cells around it."""
        if not len(x):
            return np.zeros(0, dtype=bool)
        own = nearest(self.cells, self.cells, self.k + 1)[0][:, -1]
        return np.asarray(nearest(self.cells, x, self.k)[0][:, -1] <= np.quantile(own, self.quantile))


def basins_of(relief: Relief, x: Array, height: Array, there: Support) -> Index:
    """The number of the basin of each cell."""
    return _beyond(relief, x, height, _lowest(x, height), there)


def _lowest(x: Array, height: Array) -> Index:
    """The number of the local minimum that the steepest slopes from neighbour to neighbour lead each cell to."""
    away, near = nearest(x, x, NEIGHBOURS + 1)
    fall = (height[:, None] - height[near]) / np.maximum(away, 1e-300)
    fall[away == 0] = 0.0
    after = np.where(fall.max(axis=1) > 0, near[np.arange(len(x)), fall.argmax(axis=1)], np.arange(len(x)))
    for _ in range(int(np.ceil(np.log2(len(x) + 1))) + 1):
        after = after[after]
    return np.unique(after, return_inverse=True)[1].ravel()


def _beyond(relief: Relief, x: Array, height: Array, basin: Index, there: Support) -> Index:
    """The same basins, joined where V falls on from the lowest cell of one to lower cells of another.

    Neighbours are few, and none of them may lie where V falls.
    """
    members = [np.flatnonzero(basin == k) for k in range(int(basin.max(initial=-1)) + 1)]
    bottom = np.array([rows[np.argmin(height[rows])] for rows in members], dtype=np.int64)
    step = nearest(x, x[bottom], there.k + 1)[0][:, -1:] / 2
    point, value, into = x[bottom].copy(), height[bottom], np.arange(len(bottom))
    active = np.arange(len(bottom))
    for _ in range(SLIDES):
        slope = relief.gradient(point[active])
        size = np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-300)
        reached = point[active] - step[active] * slope / size
        fell = relief.potential(reached)
        cell = nearest(x, reached, 1)[1][:, 0]
        lower = (height[cell] < height[bottom[active]]) & (basin[cell] != active)
        going = (fell < value[active]) & there.holds(reached)
        into[active[lower & going]] = basin[cell[lower & going]]
        going &= ~lower
        active, reached, fell = active[going], reached[going], fell[going]
        if not len(active):
            break
        point[active], value[active] = reached, fell
    for _ in range(int(np.ceil(np.log2(len(into) + 1))) + 1):
        into = into[into]
    return np.unique(into[basin], return_inverse=True)[1].ravel()


@dataclass(frozen=True, eq=False)
class Edges:
    """The lowest pass between neighbouring cells of every two basins that touch."""

    between: Index
    heights: Array
    cells: Index
    """The two neighbours, one of either basin (n, 2)."""


def passes_of(relief: Relief, x: Array, height: Array, basin: Index) -> Edges:
    """The lowest passes between the basins of cells with these heights; −1 marks cells of none."""
    rows = np.flatnonzero(basin >= 0)
    none = Edges(np.zeros((0, 2), np.int64), np.zeros(0), np.zeros((0, 2), np.int64))
    if not len(rows) or basin.max() < 1:
        return none
    own = x[rows]
    near = nearest(own, own, NEIGHBOURS + 1)[1]
    one, other = np.repeat(np.arange(len(own)), near.shape[1]), near.ravel()
    # Groups of cells that are no neighbours of others are joined where they are nearest to each other.
    _, part = connected_components(coo_matrix((np.ones(len(one)), (one, other)), (len(own),) * 2), directed=False)
    bridges = _bridges(own, part)
    ends = rows[np.concatenate([np.stack([one, other], axis=1), bridges])]
    ends = np.unique(np.sort(ends[basin[ends[:, 0]] != basin[ends[:, 1]]], axis=1), axis=0)
    if not len(ends):
        return none
    marks = [height[ends].max(axis=1)]
    marks += [relief.potential((1 - f) * x[ends[:, 0]] + f * x[ends[:, 1]]) for f in (0.25, 0.5, 0.75)]
    top = np.max(marks, axis=0)
    ends = np.where((basin[ends[:, :1]] > basin[ends[:, 1:]]), ends[:, ::-1], ends)
    order = np.argsort(top, kind="stable")
    between, first = np.unique(basin[ends[order]], axis=0, return_index=True)
    return Edges(between, top[order][first], ends[order][first])


def _bridges(x: Array, part: Index) -> Index:
    """The nearest cells of groups, for as many pairs of groups as join all of them."""
    n = int(part.max()) + 1
    if n == 1:
        return np.zeros((0, 2), np.int64)
    distance, pair = np.zeros((n, n)), np.zeros((n, n, 2), np.int64)
    members = [np.flatnonzero(part == k) for k in range(n)]
    for a in range(n):
        for b in range(a + 1, n):
            found, index = nearest(x[members[b]], x[members[a]], 1)
            i = int(np.argmin(found[:, 0]))
            distance[a, b], pair[a, b] = found[i, 0] + 1e-300, (members[a][i], members[b][index[i, 0]])
    return pair[minimum_spanning_tree(distance).nonzero()]
