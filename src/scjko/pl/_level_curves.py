from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import scanpy as sc
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.lines import Line2D

from ..edge.checks import check_integer
from ..edge.fitted import fitted_cells
from ..edge.landscape import stored_landscape
from ._canvas import (
    LINE_STYLES,
    Drawn,
    colour_bar,
    figure_of,
    finish,
    key_beside,
    panels,
    single,
    time_colours,
)
from ._cells import check_color, draw_cells, range_key, shared_range
from ._frame import Frame, frame
from ._marks import mark
from ._options import check_options
from ._surface import Surface, fill, nice_levels, note, surfaces
from ._times import drawn_times

#: Keywords of scatter that scanpy gives it already.
SET_BY_SCANPY = ("c", "rasterized", "edgecolors")


def level_curves(
    adata: AnnData,
    times: float | str | Iterable[float | str] | None = None,
    components: tuple[int, int] | str = (1, 2),
    *,
    basis: str | None = None,
    others: str = "mean",
    superimpose: bool = False,
    color: str | None = None,
    n_levels: int | None = None,
    cells: bool = True,
    fade: bool = True,
    wells: bool = False,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """The fitted potential as a map, one panel for each time: cells go downhill.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    times
        The times to draw, measured or between; by default those of the snapshots that have cells in ``adata``.
    components
        The two components to draw, counted from one.
    basis
        An embedding to draw on, such as ``"umap"``, in place of the fitted coordinates. The potential is not defined
        there: the values at the cells are interpolated, and the title says so.
    others
        Where the components that are not drawn are held; the title says it:

        - ``"mean"``: at the mean of the cells of that time.
        - ``"cells"``: as in the 15 nearest cells, over which the potential is averaged.
    superimpose
        Whether to draw all times into one panel: the same few heights, seen from the mean of the cells of each time, in
        its own line style and colour.
    color
        A column of ``obs`` or a gene to colour the cells by; black by default.
    n_levels
        The most heights to draw; 24 by default, and 3 if superimposed.
    cells
        Whether to draw the cells.
    fade
        Whether to fade the map where there are no cells, as a potential there is an extrapolation, and where its
        standard deviation exceeds the differences of height among cells.
    wells
        Whether to mark the wells (circles, open if cells do not rest there), the saddles (crosses) and the paths of
        least energy between them (dashed where no cell is) that :func:`scjko.tl.landscape` found at these times.
    key
        The ``key_added`` of the fit.
    ax
        Axes to draw on, one for each panel; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        Extra keywords go to :func:`scanpy.pl.embedding`, which draws the cells.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes, a list if there are several.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> panels = sj.pl.level_curves(adata, times=[0, 3.5, 7], show=False)
    >>> [axes.get_title() for axes in panels]
    ['day 0', 'day 3.5', 'day 7']
    """
    check_options(level_curves, kwargs, sc.pl.embedding, Axes.scatter, PathCollection, but=SET_BY_SCANPY)
    seen, color = fitted_cells(adata, key), check_color(adata, color)
    if "color_map" in kwargs:  # scanpy's other name for it
        kwargs["cmap"] = kwargs.pop("color_map")
    wanted, plane = drawn_times(seen, times), frame(seen, basis, components)
    landscape = stored_landscape(seen) if wells else None
    if wells and superimpose:
        raise ValueError("wells=True marks the panel of each time; with superimpose=True there is one for all.")
    found = surfaces(plane, wanted, others)
    n_levels = check_integer("n_levels", n_levels if n_levels is not None else 3 if superimpose else 24)
    told = note(plane, others)
    if superimpose:
        axes = single(ax, size=(4.0, 3.0))
        if cells:
            draw_cells(axes, plane, np.arange(adata.n_obs), color, {"na_color": "#d0d0d0", **kwargs})
        _superimpose(axes, plane, wanted, found, n_levels, fade)
        plane.dress(axes, told)
        return finish([axes], ours=ax is None, show=show, return_fig=return_fig)
    levels = nice_levels(found, n_levels)
    drawn = panels(ax, len(wanted))
    shared = shared_range(adata, color)
    for axes, time, surface in zip(drawn, wanted, found, strict=True):
        # Colours of cells are lost on a coloured map.
        filled = fill(axes, surface, levels, fade, **{} if color is None else {"cmap": "Greys", "alpha": 0.55})
        if cells:
            draw_cells(axes, plane, plane.around(time), color, shared | kwargs, legend=axes is drawn[-1] and not shared)
        if landscape is not None:
            mark(axes, plane, landscape, time)
        title = plane.title(time)
        # On a figure of ours it stands above all panels; theirs may be narrow.
        brief = told.replace("other components", "others")
        plane.dress(axes, title if ax is None or not told else f"{title}\n{brief}")
    if ax is None:
        height_key(drawn, filled, told)
        if cells and shared:
            range_key(drawn, str(color), shared | kwargs)
    return finish(drawn, ours=ax is None, show=show, return_fig=return_fig)


def _superimpose(axes: Axes, plane: Frame, times: list[float], found: list[Surface], n_levels: int, fade: bool) -> None:
    """Draw the same heights of each surface, seen from the mean of its cells, with a key that says which."""
    drawn = [s.believed if fade else s.heights for s in found]
    relative = [heights - s.level for heights, s in zip(drawn, found, strict=True)]
    low, high = (np.median([f(heights) for heights in relative]) for f in (np.nanmin, np.nanmax))
    heights = np.linspace(low, high, n_levels + 2)[1:-1]
    unit = 10 ** np.floor(np.log10(max(high - low, 1e-300) / (n_levels + 1))) / 2
    heights = np.unique(np.round(heights / unit) * unit)  # round numbers
    handles = []
    for k, (time, colour) in enumerate(zip(times, time_colours(len(times)), strict=True)):
        style = LINE_STYLES[k % len(LINE_STYLES)]
        with warnings.catch_warnings():  # of a time whose heights do not come near these
            warnings.filterwarnings("ignore", "No contour levels were found")
            axes.contour(found[k].x, found[k].y, relative[k], levels=heights, colors=[colour], linestyles=[style])
        handles.append(Line2D([], [], color=colour, linestyle=style, label=plane.title(time)))
    told = ", ".join(f"{height:+.4g}" for height in heights)
    key_beside(axes, handles=handles, handlelength=2.8, title=f"V − mean:\n{told}", title_fontsize=7)


def height_key(drawn: list[Axes], filled: Any, told: str) -> None:
    """One colour bar for all panels, and above them what a reader has to know of dimensions that are not drawn."""
    if told:
        figure_of(drawn[0]).suptitle(told, fontsize=8)
    colour_bar(filled, drawn, "potential", shrink=0.85, pad=0.01)
