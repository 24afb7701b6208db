"""The potential over the plane of a plot, and how near the cells are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator
from scipy.spatial import cKDTree

from ..core.motion.embedding import smoothed
from ..edge.checks import check_option
from ._canvas import HEIGHTS, paper
from ._frame import Frame

Array = NDArray[np.float64]

OTHERS = ("mean", "cells")
#: Nearest cells that lend their other components to a point of the plane, or on an embedding their potential.
NEAREST = 15
#: One scale of heights for all panels, or one for each.
SCALES = ("shared", "panel")
#: How far the map is faded where no cells are.
FADED = 0.96
#: Points along each side of the grid.
N_POINTS = 100


@dataclass(frozen=True, eq=False)
class Surface:
    """Heights of the potential at one time over a grid, and how far each point is from the cells of that time."""

    x: Array
    y: Array
    heights: Array
    """One for each point (len(y), len(x)), as matplotlib takes them."""
    fading: Array
    """From 0 where cells are to 1 where there are none."""

    level: float
    """The mean height of the cells."""
    doubt: Array
    """From 0 where heights are known to 1 where their standard deviation exceeds the differences of height."""

    @property
    def believed(self) -> Array:
        """Heights near cells; NaN elsewhere."""
        return np.where(self.fading < 1, self.heights, np.nan)

    def lift(self, points: Array) -> Array:
        """Points of the plane (n, 2) laid upon the surface (n, 3), a little above it."""
        inside = np.clip(points, (self.x[0], self.y[0]), (self.x[-1], self.y[-1]))
        height = RegularGridInterpolator((self.y, self.x), self.heights)(inside[:, ::-1])
        return np.column_stack([points, height + 0.01 * np.ptp(self.believed[np.isfinite(self.believed)])])


def surfaces(frame: Frame, times: list[float], others: str, n_points: int = N_POINTS) -> list[Surface]:
    """The potential at each of these times, over one grid."""
    check_option("others", others, OTHERS)
    x, y, grid = _grid(frame, n_points)
    found = []
    for time in times:
        rows = frame.around(time)
        heights = _heights(frame, grid, rows, time, others)
        fading = fade_away(frame.positions[rows], grid)
        level = float(frame.cells.energy.potential(frame.cells.coordinates[rows], time).mean())
        shape = len(y), len(x)
        doubt = _doubt(frame, grid, rows).reshape(shape)
        found.append(Surface(x, y, heights.reshape(shape), fading.reshape(shape), level, doubt))
    return found


def whole_course(frame: Frame, n_points: int = N_POINTS) -> Surface:
    """The potential of all cells, each at its own time, interpolated between them."""
    x, y, grid = _grid(frame, n_points)
    own = frame.cells.energy.potential(frame.cells.coordinates, frame.cells.times)
    heights = smoothed(grid, frame.positions, own[:, None], 2 * NEAREST)[:, 0]
    shape = len(y), len(x)
    fading, doubt = fade_away(frame.positions, grid), _doubt(frame, grid, np.arange(len(own)))
    return Surface(x, y, heights.reshape(shape), fading.reshape(shape), float(own.mean()), doubt.reshape(shape))


def _grid(frame: Frame, n_points: int) -> tuple[Array, Array, Array]:
    """The sides of a grid over the plane, and its points."""
    x, y = (np.linspace(*limits, n_points) for limits in frame.limits)
    return x, y, np.stack([axis.ravel() for axis in np.meshgrid(x, y)], axis=1)


def note(frame: Frame, others: str) -> str:
    """What a reader has to know of the dimensions that are not drawn; nothing where all are."""
    if not frame.fitted:
        return "interpolated between cells"
    if frame.cells.energy.n_dims == 2:
        return ""
    return f"other components {'at their mean' if others == 'mean' else 'as in near cells'}"


def _heights(frame: Frame, grid: Array, rows: NDArray[np.int64], time: float, others: str) -> Array:
    energy, x = frame.cells.energy, frame.cells.coordinates[rows].astype(np.float64)
    if not frame.fitted:
        return smoothed(grid, frame.positions[rows], energy.potential(x, time)[:, None], NEAREST)[:, 0]
    if others == "mean" or energy.n_dims == 2:
        points = np.tile(x.mean(axis=0), (len(grid), 1))
        points[:, frame.columns] = grid
        return energy.potential(points, time)
    nearest = np.arange(1, min(NEAREST, len(rows)) + 1)
    near = np.asarray(cKDTree(frame.positions[rows]).query(grid, k=nearest)[1])
    points = x[near]
    points[:, :, frame.columns] = grid[:, None, :]
    return energy.potential(points.reshape(-1, energy.n_dims), time).reshape(near.shape).mean(axis=1)


def fade_away(positions: Array, grid: Array) -> Array:
    """Where a point is further from cells than most cells are from each other, by the tenth nearest.

    Of fewer than 400 cells by a nearer one: the tenth of a hundred is a good part of the picture away.
    """
    tree, k = cKDTree(positions), int(np.clip(np.sqrt(len(positions)) / 2, min(2, len(positions)), 10))
    usual = np.quantile(tree.query(positions, k=[k])[0], 0.9)
    step = np.ptp(grid, axis=0).max() / N_POINTS  # cells in one place are seen too
    away = np.ravel(tree.query(grid, k=[k])[0]) / max(usual, step)
    return np.clip(away - 1.0, 0.0, 1.0)


def _doubt(frame: Frame, grid: Array, rows: NDArray[np.int64]) -> Array:
    """How nearly the standard deviation of the potential, where there is one, is as large as the potential varies.

    It is that of nearby cells: from 0 at half of the spread of heights over all cells, to 1 where it exceeds that. The
    heights of a fit to shuffled times spread as far as they are uncertain.
    """
    obs, keys = frame.cells.adata.obs, frame.cells.keys
    if keys.potential_std not in obs or keys.potential not in obs:
        return np.zeros(len(grid))
    heights, std = (obs[name].to_numpy(np.float64) for name in (keys.potential, keys.potential_std))
    signal = max(float(heights.std()), 1e-300)
    around = smoothed(grid, frame.positions[rows], std[rows, None], NEAREST)[:, 0]
    return np.clip(2 * around / signal - 1, 0.0, 1.0)


def nice_levels(found: list[Surface], n_levels: int) -> Array:
    """Round heights, the same for all of these surfaces, that cover the potential where cells are."""
    believed = np.concatenate([surface.believed.ravel() for surface in found])
    low, high = np.nanmin(believed), np.nanmax(believed)
    if not high > low:
        low, high = low - 0.5, high + 0.5
    return np.asarray(MaxNLocator(n_levels).tick_values(low, high))


def levels_by_panel(found: list[Surface], n_levels: int, scale: str) -> list[Array]:
    """The heights of each panel: one scale for all, or each its own."""
    check_option("scale", scale, SCALES)
    shared = scale == SCALES[0]
    return [nice_levels(found if shared else [surface], n_levels) for surface in found]


def fill(axes: Axes, surface: Surface, levels: Array, fade: bool, **options: Any) -> Any:
    """Filled and line contours; faded far from all cells, where it means nothing, and where it is not known."""
    options = {"cmap": HEIGHTS, "extend": "both", "zorder": 0, **options}
    filled = axes.contourf(surface.x, surface.y, surface.heights, levels=levels, **options)
    lines: dict[str, Any] = {"colors": [paper(axes)], "linewidths": 0.4, "linestyles": "solid", "alpha": 0.7}
    axes.contour(surface.x, surface.y, surface.heights, levels=levels, zorder=0.1, **lines)
    if fade:
        mask = np.ones((*surface.fading.shape, 4))
        mask[..., :3] = paper(axes)
        mask[..., 3] = FADED * np.maximum(surface.fading, surface.doubt)
        extent = (surface.x[0], surface.x[-1], surface.y[0], surface.y[-1])
        axes.imshow(mask, extent=extent, origin="lower", aspect="auto", interpolation="bilinear", zorder=0.2)
    return filled
