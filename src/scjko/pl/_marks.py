"""Wells, saddles and paths of least energy as marks on a map."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke
from numpy.typing import NDArray

from ..core.compute.neighbours import nearest
from ._canvas import PALETTE, ink, paper, seen_on
from ._frame import Frame

Array = NDArray[np.float64]

#: Cells that place a point on an embedding.
NEAREST = 5


def mark(
    axes: Axes,
    plane: Frame,
    landscape: Mapping[str, Any],
    time: float,
    lift: Callable[[Array], Array] = np.asarray,
) -> None:
    """Draw the wells, saddles and paths of one time; none if the landscape does not have it.

    ``lift`` lays points of the plane upon a surface.
    """
    wells, saddles = landscape["wells"], landscape["saddles"]
    light, dark = paper(axes), ink(axes)
    here = saddles["time"] == time
    for path, sure in zip(saddles["path"][here], saddles["supported"][here], strict=True):
        if plane.fitted:  # on an embedding a path has no place where no cell is
            line = lift(path[:, plane.columns]).T
            axes.plot(*line, color=light, linewidth=3, zorder=3.8)
            axes.plot(*line, color=dark, linewidth=1.2, linestyle="-" if sure else "--", zorder=3.9)
    if here.any():
        at = lift(placed(plane, saddles["position"][here], time)).T
        cross: dict[str, Any] = {"marker": "x", "linestyle": "none"}
        axes.plot(*at, color=light, markersize=8, markeredgewidth=3.2, zorder=4, **cross)
        axes.plot(*at, color=dark, markersize=7, markeredgewidth=1.5, zorder=4.1, **cross)
    rows = np.flatnonzero(wells["time"] == time)
    for row, point in zip(rows, lift(placed(plane, wells["position"][rows], time)), strict=True):
        (colour,) = seen_on([PALETTE[int(wells["track"][row]) % len(PALETTE)]], axes)
        face = colour if wells["resting"][row] else light
        look: dict[str, Any] = {
            "markerfacecolor": face,
            "markeredgewidth": 1.8,
            "markersize": 7,
            "path_effects": halo(light),
        }
        axes.plot(*point[:, None], marker="o", color=colour, zorder=4.2, **look)


def halo(colour: Any) -> list[Any]:
    """A rim around a mark, which sets it off from the map."""
    return [withStroke(linewidth=3.2, foreground=colour)]


def placed(plane: Frame, points: Array, time: float) -> Array:
    """Where points of the fitted coordinates are in the plane: on an embedding amid the nearest cells.

    The median of them, which lies among most of them where an embedding tears neighbours apart.
    """
    if plane.fitted or not len(points):
        return points[:, plane.columns]
    rows = plane.around(time)
    cells = plane.cells.coordinates[rows].astype(np.float64)
    near = nearest(cells, points, min(NEAREST, len(rows)))[1]
    return np.asarray(np.median(plane.positions[rows[near]], axis=1))
