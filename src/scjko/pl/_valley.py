"""The potential over one coordinate and time: the surface of a Waddington landscape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from scipy.ndimage import gaussian_filter
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from ..core.motion.embedding import smoothed
from ..edge.fitted import FittedCells
from ._cells import colour_values, numbers
from ._times import times_with_cells

Array = NDArray[np.float64]

#: Points of the surface across and along time, and cells of a time that it is read off, at most.
ACROSS, ALONG, MOST = 160, 90, 1500
#: Width of the kernel, in standard deviations of the coordinate.
WIDTH = 0.12
#: How far the surface falls from the first time to the last, and the height of its walls, in ranges of V within a time.
FALL, WALL = 1.6, 0.7
#: Beyond this share of the highest density of a time no cells are believed to be.
THIN = 0.03
#: Groups of fewer cells than this, or of a smaller share of the last cells, do not decide where the rest lie.
FEW, RARE = 3, 0.01


@dataclass(frozen=True, eq=False)
class Valley:
    """Heights over a coordinate and time."""

    s: Array
    t: Array
    heights: Array
    """(time, coordinate), without units: V within a time, a fall over time, and walls where no cells are."""
    potential: Array
    """V relative to the mean cell of the time, in units of V."""
    bare: Array
    """From 0 where cells are to 1 where there are none."""

    def lift(self, s: Array, t: Array) -> Array:
        """Points laid upon the surface, a little above it."""
        inside = np.stack([np.clip(t, self.t[0], self.t[-1]), np.clip(s, self.s[0], self.s[-1])], axis=-1)
        return np.asarray(RegularGridInterpolator((self.t, self.s), self.heights)(inside) + 0.02)


@dataclass(frozen=True, eq=False)
class Coordinate:
    """One coordinate of cells: a direction among those fitted, or the numbers of a column carried to near points."""

    name: str
    direction: Array | None
    known: Array
    """Of every cell."""
    cells: Array

    def __call__(self, x: Array) -> Array:
        """The coordinate of points of the fitted coordinates."""
        if self.direction is not None:
            return np.asarray(x @ self.direction)
        return smoothed(x, self.cells, self.known[:, None])[:, 0]


def coordinate(cells: FittedCells, column: str | None) -> Coordinate:
    """The coordinate that a column means, by default the first principal axis of the last snapshot."""
    x = cells.coordinates.astype(np.float64)
    last = np.flatnonzero(cells.times == times_with_cells(cells)[-1])
    if column is None:
        centred = x[last] - x[last].mean(axis=0)
        axis = np.linalg.svd(centred, full_matrices=False)[2][0]
        axis = axis * np.sign(axis[np.argmax(np.abs(axis))])
        return Coordinate("principal axis of the last cells", axis, x @ axis, x)
    values = colour_values(cells.adata, column)
    if numbers(values):
        return Coordinate(column, None, values.to_numpy(dtype=np.float64), x)
    labels = values.iloc[last].astype(object)
    count = labels.dropna().value_counts()
    kept = labels.isin(count.index[count >= max(FEW, RARE * len(last))]).to_numpy()
    if labels[kept].nunique() < 2:
        raise ValueError(
            f"coordinate={column!r} has one group at the last time point; a direction separates two or more. Name "
            "another column, or leave it out."
        )
    found = LinearDiscriminantAnalysis(solver="eigen", shrinkage=0.1).fit(x[last][kept], labels[kept].astype(str))
    axis = found.scalings_[:, 0]
    axis = axis / max(float(np.linalg.norm(axis)), 1e-300)
    return Coordinate(f"direction that separates {column}", axis, x @ axis, x)


def valley(cells: FittedCells, along: Coordinate, random_state: int) -> Valley:
    """The surface: V of cells moving from time point to time point, averaged over those near in the coordinate."""
    rng = np.random.default_rng(random_state)
    times = times_with_cells(cells)
    t = np.linspace(times[0], times[-1], ALONG)
    low, high = np.quantile(along.known[np.isin(cells.times, times)], (0.002, 0.998))
    margin = 0.12 * max(high - low, 1e-12)
    s = np.linspace(low - margin, high + margin, ACROSS)
    some = {time: _some(cells, time, rng) for time in times}
    points, weights, row = [], [], []
    for k, time in enumerate(t):
        for x, weight in _between(cells, some, times, float(time)):
            points.append(x)
            weights.append(np.full(len(x), weight / len(x)))
            row.append(np.full(len(x), k))
    x, w, at = np.concatenate(points), np.concatenate(weights), np.concatenate(row)
    v = cells.energy.potential(x, t[at])
    where = np.clip(np.rint((along(x) - s[0]) / (s[1] - s[0])).astype(int), 0, ACROSS - 1)
    shape = ALONG, ACROSS
    mass = np.bincount(at * ACROSS + where, w, ALONG * ACROSS).reshape(shape)
    v = v - (np.bincount(at, w * v, ALONG) / np.bincount(at, w, ALONG))[at]
    total = np.bincount(at * ACROSS + where, w * v, ALONG * ACROSS).reshape(shape)
    width = WIDTH * float(np.std(along.known)) / (s[1] - s[0])
    near = {"sigma": (1.5, max(width, 1.0)), "mode": "nearest"}
    far = {"sigma": (1.5, 4 * max(width, 1.0)), "mode": "nearest"}
    density, wide = gaussian_filter(mass, **near), gaussian_filter(mass, **far)
    # Far from cells V is that of those less far: only walls are seen there.
    least = 1e-4 * wide.max()
    potential = (gaussian_filter(total, **near) + least * gaussian_filter(total, **far) / (wide + 1e-12)) / (
        density + least
    )
    thin = density / density.max(axis=1, keepdims=True)
    believed = thin > THIN
    spread = max(float(np.ptp(np.quantile(potential[believed], (0.02, 0.98)))), 1e-12)
    wall = np.clip(np.log(THIN / np.maximum(thin, 1e-12)) / np.log(1 / THIN), 0, 1)
    wall = gaussian_filter(wall, (1.0, 2.0))
    fall = FALL * np.linspace(0, 1, ALONG)[:, None]
    shown = np.clip(potential / spread, -1.5, 1.5)
    heights = gaussian_filter(shown, (1.5, 1.0)) - fall + WALL * wall
    return Valley(s, t, heights, potential, np.clip(2 * wall, 0, 1))


def _some(cells: FittedCells, time: float, rng: np.random.Generator) -> Array:
    """Cells of a time point, some of them if there are many."""
    rows = np.flatnonzero(cells.times == time)
    if len(rows) > MOST:
        rows = rng.choice(rows, MOST, replace=False)
    return cells.coordinates[rows].astype(np.float64)


def _between(cells: FittedCells, some: dict[float, Array], times: Array, time: float) -> list[tuple[Array, float]]:
    """Cells at a time and their weight: those measured before, moved there, and those measured after."""
    before, after = times[times <= time][-1], times[times >= time][0]
    if before == after:
        return [(some[before], 1.0)]
    share = (time - before) / (after - before)
    moved = cells.energy.step(some[before], before, time)
    return [(moved, 1 - share**2), (some[after], share**4)]
