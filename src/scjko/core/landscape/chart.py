"""A chart of a potential at one time: its wells, the saddles between them, barriers, and the basin of every cell."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial.distance import cdist

from ..compute.neighbours import nearest
from .barriers import barriers_of, merged
from .basins import Edges, Support, basins_of, passes_of
from .relief import Relief, newton
from .strings import POINTS, evenly, relaxed

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Between these quantiles of the cells lies the range of V.
RANGE = (0.02, 0.98)
#: How far a well may be from the lowest cell of its basin, in units of the distance of that from its neighbours.
FAR = 3.0
#: Stationary points nearer than this are one, in units of the spread of the cells.
ONE = 0.01
#: The cell that stands for a basin without a well, by its rank in height: the lowest of all may be an outlier.
BOTTOM = 0.05
#: Cells at the bottom of a basin, at least, and the mean of their slopes, relative to the size of these, up to which
#: they cancel.
FEWEST, ONE_WAY = 5, 0.5


@dataclass(frozen=True, eq=False)
class Wells:
    """The wells of a potential."""

    points: Array
    heights: Array
    curvature: Array
    """The eigenvalues of the Hessian, in increasing order."""
    solved: NDArray[np.bool_]
    """Whether the slope is zero there; elsewhere it is a cell that 5 % of the basin are below."""
    resting: NDArray[np.bool_]
    """Whether cells come to rest in it; elsewhere V falls on beyond them, and it is where cells are headed."""

    def rows(self, kept: Index) -> Wells:
        """Some of the wells."""
        return Wells(**{name: part[kept] for name, part in vars(self).items()})


@dataclass(frozen=True, eq=False)
class Saddles:
    """Saddles of index one, each the lowest pass between two wells, with the path of least energy over it."""

    points: Array
    heights: Array
    curvature: Array
    between: Index
    """The two wells (n, 2)."""
    supported: NDArray[np.bool_]
    solved: NDArray[np.bool_]
    """Whether the slope is zero there; elsewhere it is the highest point of the path."""
    paths: Array
    """From the first well to the second (n, points, d)."""


@dataclass(frozen=True, eq=False)
class Chart:
    """Wells, saddles, and the basin of each cell."""

    wells: Wells
    saddles: Saddles
    basin: Index
    """The well that each cell rolls into; −1 if it belongs to none."""
    cells: Array

    @property
    def passes(self) -> Array:
        """The height of the lowest pass between every two wells (n, n), whatever lies in between; infinite if none."""
        return barriers_of(len(self.wells.heights), self.saddles.between, self.saddles.heights)

    @property
    def barriers(self) -> Array:
        """How high the pass from each well (row) to each other one is above the first of them (n, n)."""
        return np.asarray(self.passes - self.wells.heights[:, None])


def chart(relief: Relief, cells: Array, *, support: float = 0.99, shallow: float = 0.02) -> Chart:
    """The chart of a potential where ``cells`` are.

    From cell to cell the steepest slope among neighbours leads down to the lowest cell of a basin. Basins divided by
    less than ``shallow`` of the range of V over the cells are one. Between two that touch, a path of least energy leads
    over a saddle. Cells are not rolled down V itself: where many of them rest it is as flat as sampling is noisy, and
    beyond the last cell it may fall for ever.
    """
    height, there = relief.potential(cells), Support(cells, support)
    least = shallow * float(np.ptp(np.quantile(height, RANGE)))
    basin = basins_of(relief, cells, height, there)
    edges = passes_of(relief, cells, height, basin)
    bottoms = np.array([height[basin == k].min() for k in range(int(basin.max(initial=-1)) + 1)])
    group = merged(bottoms, edges.between, edges.heights, least)
    wells, basin = _wells(relief, cells, height, group[basin], there)
    # Newton's method may lead from two basins to one well.
    near = (cdist(wells.points, wells.points) <= ONE * relief.length) & np.logical_and.outer(wells.solved, wells.solved)
    wells, basin = _joined(wells, basin, connected_components(coo_matrix(near), directed=False)[1])
    saddles = _saddles(relief, wells, cells, passes_of(relief, cells, height, basin), there)
    group = merged(wells.heights, saddles.between, saddles.heights, least)
    wells, basin = _joined(wells, basin, group)
    saddles = _distinct(saddles, group[saddles.between])
    saddles.paths[:, [0, -1]] = wells.points[saddles.between]
    lowest = barriers_of(len(wells.heights), saddles.between, saddles.heights)[tuple(saddles.between.T)]
    saddles = _once(_rows(saddles, np.flatnonzero(saddles.solved | (saddles.heights <= lowest))), relief.length)
    return Chart(wells, saddles, basin, cells)


def _wells(relief: Relief, x: Array, height: Array, basin: Index, there: Support) -> tuple[Wells, Index]:
    """The wells of basins, and the one of each cell; basins of very few cells have none."""
    n = int(basin.max(initial=-1)) + 1
    slope = relief.gradient(x)
    members = [np.flatnonzero(basin == k) for k in range(n)]
    cells = np.array([rows[np.argmin(height[rows])] for rows in members], dtype=np.int64)
    lowest = x[cells]
    spacing = nearest(x, lowest, there.k + 1)[0][:, -1]
    found = newton(relief, lowest)
    # Newton's method may leave for another stationary point, or find none where V has a kink.
    near = np.linalg.norm(found.points - lowest, axis=1) <= FAR * spacing
    solved = found.converged & near & (found.curvature[:, 0] > 0) & there.holds(found.points)
    low = [rows[np.argsort(height[rows], kind="stable")[int(BOTTOM * len(rows))]] for rows in members]
    points = np.where(solved[:, None], found.points, x[np.array(low, dtype=np.int64)])
    rests = np.array([_rests(slope[rows], height[rows]) for rows in members])
    kept = np.array([len(rows) >= FEWEST for rows in members])
    number = np.where(kept, np.cumsum(kept) - 1, -1)
    wells = Wells(points, relief.potential(points), found.curvature, solved, solved | rests)
    return wells.rows(np.flatnonzero(kept)), number[basin]


def _rests(slope: Array, height: Array) -> bool:
    """Whether slopes at the bottom of a basin cancel; where cells go on to where none is, they do not."""
    low = np.argsort(height, kind="stable")[: max(FEWEST, len(height) // 4)]
    size = float(np.sqrt(np.mean(np.sum(slope[low] ** 2, axis=1))))
    return float(np.linalg.norm(slope[low].mean(axis=0))) <= ONE_WAY * size


def _joined(wells: Wells, basin: Index, group: Index) -> tuple[Wells, Index]:
    """The wells after merging, the lowest of each group for all of it; its number for every member."""
    kept = [np.flatnonzero(group == k) for k in range(int(group.max(initial=-1)) + 1)]
    lowest = np.array([rows[np.argmin(wells.heights[rows])] for rows in kept], dtype=np.int64)
    return wells.rows(lowest), np.where(basin >= 0, np.append(group, -1)[basin], -1)


def _saddles(relief: Relief, wells: Wells, x: Array, edges: Edges, there: Support) -> Saddles:
    """The passes of paths of least energy between every two basins that touch."""
    order = np.argsort(edges.heights, kind="stable")
    between, cells = np.sort(edges.between[order], axis=1), edges.cells[order]
    swapped = edges.between[order][:, 0] > edges.between[order][:, 1]
    cells = np.where(swapped[:, None], cells[:, ::-1], cells)
    apart = between[:, 0] != between[:, 1]
    between, first = np.unique(between[apart], axis=0, return_index=True)
    cells = cells[apart][first]
    ends = wells.points[between]
    straight = np.concatenate([ends[:, :1], x[cells], ends[:, 1:]], axis=1)
    straight = np.array([evenly(path, POINTS) for path in straight]).reshape(len(straight), POINTS, x.shape[1])
    paths = relaxed(relief, straight)
    heights = relief.potential(paths.reshape(-1, x.shape[1])).reshape(paths.shape[:2])
    top = heights.argmax(axis=1)
    highest = paths[np.arange(len(paths)), top]
    found = newton(relief, highest)
    one = (found.curvature < 0).sum(axis=1) == 1
    near = np.linalg.norm(found.points - highest, axis=1) <= 4 * np.linalg.norm(paths[:, 1] - paths[:, 0], axis=1)
    solved = found.converged & one & near & (top > 0) & (top < POINTS - 1)
    # Where V has no saddle, or the path has left all cells, the lowest pass from cell to cell is what is known.
    solved &= there.holds(found.points) | ~there.holds(x[cells].mean(axis=1))
    points = np.where(solved[:, None], found.points, x[cells].mean(axis=1))
    value = np.where(solved, relief.potential(points), edges.heights[order][apart][first])
    value = np.maximum(value, wells.heights[between].max(axis=1))
    paths = np.where(solved[:, None, None], paths, straight)
    return Saddles(points, value, found.curvature, between, there.holds(points), solved, paths)


def _distinct(saddles: Saddles, between: Index) -> Saddles:
    """The lowest saddle between every two wells."""
    swapped = between[:, 0] > between[:, 1]
    paths = np.where(swapped[:, None, None], saddles.paths[:, ::-1], saddles.paths)
    between = np.sort(between, axis=1)
    order = np.argsort(saddles.heights, kind="stable")
    order = order[between[order, 0] != between[order, 1]]
    _, first = np.unique(between[order], axis=0, return_index=True)
    return _rows(replace(saddles, between=between, paths=paths), order[first])


def _once(saddles: Saddles, length: float) -> Saddles:
    """Every saddle once, with the shortest of the paths that lead over it: others go on to further wells."""
    long = np.linalg.norm(np.diff(saddles.paths, axis=1), axis=2).sum(axis=1)
    kept: list[int] = []
    for row in np.argsort(long, kind="stable"):
        away = np.linalg.norm(saddles.points[kept] - saddles.points[row], axis=1)
        if not (saddles.solved[row] and saddles.solved[kept][away <= ONE * length].any()):
            kept.append(int(row))
    return _rows(saddles, np.sort(np.array(kept, dtype=np.int64)))


def _rows(saddles: Saddles, rows: Index) -> Saddles:
    return Saddles(**{name: part[rows] for name, part in vars(saddles).items()})
