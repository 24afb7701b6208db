"""Figures and axes: made or taken from the user, and returned as scanpy does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import scanpy as sc
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

Drawn = Axes | list[Axes] | Figure | None
"""What a plotting function gives: nothing when shown, the figure if requested, else its axes, a list if several."""

# The palette of Okabe and Ito (2008), which readers of any colour vision distinguish; yellow is left out, which is hard
# to see on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
OBSERVED, PREDICTED, INTERPOLATED, FORECAST = PALETTE[2], PALETTE[1], PALETTE[0], PALETTE[3]
#: Of heights: light where cells are headed, so that dark dots stand out there; even steps for any colour vision.
HEIGHTS = "viridis_r"
#: The area of a dot in a legend.
KEY_DOT = 45.0
LINE_STYLES: tuple[Any, ...] = ("solid", (0, (4, 1.5)), (0, (1, 1.2)), (0, (7, 2, 1.5, 2)), (0, (2, 4)))


def panels(
    ax: Any, n_panels: int, *, size: tuple[float, float] = (2.1, 2.1), projection: str | None = None
) -> list[Axes]:
    """As many axes as there are panels: the user's, or those of a new figure, in rows of five at most."""
    if ax is not None:
        given: list[Any] = list(np.ravel(np.asarray(ax, dtype=object))) if isinstance(ax, Iterable) else [ax]
        if not all(isinstance(axes, Axes) for axes in given):
            raise TypeError(f"ax must be {n_panels} matplotlib Axes, one for each panel, not {ax!r}.")
        if len(given) != n_panels:
            raise ValueError(f"ax must be {n_panels} matplotlib Axes, one for each panel, not {len(given)}.")
        if projection is not None and any(axes.name != projection for axes in given):
            raise ValueError(f"ax must be made with projection={projection!r}: plt.subplots(subplot_kw=...).")
        return given
    n_columns = min(n_panels, 5)
    n_rows = -(-n_panels // n_columns)
    figure = plt.figure(figsize=(size[0] * n_columns + 0.6, size[1] * n_rows + 0.4), layout="constrained")
    return [figure.add_subplot(n_rows, n_columns, k + 1, projection=projection) for k in range(n_panels)]


def single(ax: Any, *, size: tuple[float, float] = (3.5, 3.0), projection: str | None = None) -> Axes:
    """One axes: the user's, or that of a new figure of one column's width."""
    return panels(ax, 1, size=(size[0] - 0.6, size[1] - 0.4), projection=projection)[0]


def finish(axes: Sequence[Axes], *, ours: bool, show: bool | None, return_fig: bool) -> Drawn:
    """What the user gets; shown by default unless the axes are theirs, as scanpy does it."""
    if return_fig:
        return figure_of(axes[0])
    if sc.settings.autoshow and ours if show is None else show:
        plt.show()
        return None
    return axes[0] if len(axes) == 1 else list(axes)


def figure_of(axes: Axes) -> Figure:
    """The figure that axes are part of."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def dress(axes: Axes, *, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Titles and labels at sizes that are legible in one column of a page."""
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(xlabel, fontsize=8)
    axes.set_ylabel(ylabel, fontsize=8)
    axes.tick_params(labelsize=7)


def colour_bar(mapped: Any, drawn: Sequence[Axes], label: str, **options: Any) -> None:
    """One colour bar for all of these axes, with small letters."""
    bar = figure_of(drawn[0]).colorbar(mapped, ax=list(drawn), **{"aspect": 25} | options)
    bar.set_label(label, fontsize=8)
    bar.ax.tick_params(labelsize=7)


def key_beside(axes: Axes, **options: Any) -> None:
    """A small legend where it covers no data, to the right of the axes."""
    made = axes.legend(
        **{"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False, "fontsize": 7.5, "borderaxespad": 0.0}
        | options
    )
    for handle in made.legend_handles:
        if isinstance(handle, PathCollection):  # dots of a size that can be seen, however small those of the cells
            handle.set_sizes([KEY_DOT])
            handle.set_alpha(1.0)


def time_colours(n_times: int) -> list[Any]:
    """A colour for each time, from dark to light, all of them visible on white."""
    return [plt.get_cmap("viridis")(value) for value in np.linspace(0, 0.88, n_times)]


def xy(points: Any) -> tuple[Any, Any]:
    """The two columns of points in a plane."""
    return points[:, 0], points[:, 1]
