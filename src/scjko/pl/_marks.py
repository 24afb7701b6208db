"""Wells, saddles and paths of least energy as marks on a map."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ..core.compute.neighbours import nearest
from ._canvas import PALETTE
from ._frame import Frame

Array = NDArray[np.float64]


def mark(axes: Axes, plane: Frame, landscape: Mapping[str, Any], time: float) -> None:
    """Draw the wells, saddles and paths of one time; none if the landscape does not have it."""
    wells, saddles = landscape["wells"], landscape["saddles"]
    here = saddles["time"] == time
    for path, sure in zip(saddles["path"][here], saddles["supported"][here], strict=True):
        if plane.fitted:  # on an embedding a path has no place where no cell is
            axes.plot(*path[:, plane.columns].T, color="white", linewidth=3, zorder=3.8)
            style = "-" if sure else "--"
            axes.plot(*path[:, plane.columns].T, color="black", linewidth=1.2, linestyle=style, zorder=3.9)
    if here.any():
        at = _placed(plane, saddles["position"][here], time)
        axes.plot(*at.T, "x", color="white", markersize=8, markeredgewidth=3.2, zorder=4)
        axes.plot(*at.T, "x", color="black", markersize=7, markeredgewidth=1.5, zorder=4.1)
    rows = np.flatnonzero(wells["time"] == time)
    for row, (x, y) in zip(rows, _placed(plane, wells["position"][rows], time), strict=True):
        colour = PALETTE[int(wells["track"][row]) % len(PALETTE)]
        face = colour if wells["resting"][row] else "white"
        axes.plot(x, y, "o", color=colour, markerfacecolor=face, markeredgewidth=1.8, markersize=7, zorder=4.2)


def _placed(plane: Frame, points: Array, time: float) -> Array:
    """Where points of the fitted coordinates are in the plane: on an embedding where the nearest cell is."""
    if plane.fitted or not len(points):
        return points[:, plane.columns]
    rows = plane.around(time)
    cells = plane.cells.coordinates[rows].astype(np.float64)
    return plane.positions[rows[nearest(cells, points, 1)[1][:, 0]]]
