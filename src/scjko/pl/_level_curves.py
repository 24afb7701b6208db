from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import scanpy as sc
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex
from matplotlib.lines import Line2D

from ..edge.checks import check_integer
from ..edge.fitted import fitted_cells
from ..edge.landscape import stored_landscape
from ._canvas import (
    HEIGHTS,
    LINE_STYLES,
    Drawn,
    colour_bar,
    figure_of,
    greys,
    key_beside,
    shade,
    time_colours,
)
from ._cells import check_color, draw_cells, group_key, range_key, shared_range
from ._frame import Frame, frame
from ._marks import mark
from ._page import Page, open_page
from ._surface import SCALES, Surface, fill, levels_by_panel, note, surfaces
from ._times import drawn_times

#: Keywords of scatter that scanpy gives it already.
SET_BY_SCANPY = ("c", "rasterized", "edgecolors")

#: Inches for a key of groups.
BESIDE = 1.2


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
    scale: Literal["shared", "panel"] = "shared",
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
    scale
        ``"shared"``: one scale of heights and one colour bar for all panels. ``"panel"``: each panel has its own, which
        shows the shape of flat landscapes beside steep ones.
    key
        The ``key_added`` of the fit.
    ax
        Axes to draw on, one for each panel; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to :func:`scanpy.pl.embedding`,
        which draws the cells.

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
    drawers = sc.pl.embedding, Axes.scatter, PathCollection
    page = open_page(level_curves, (ax, show, return_fig), kwargs, *drawers, but=SET_BY_SCANPY)
    seen, color = fitted_cells(adata, key), check_color(adata, color)
    # A colour map is that of what has a colour bar: the cells if they are coloured by numbers, else the heights.
    cmap = kwargs.pop("color_map", kwargs.pop("cmap", None))
    wanted, plane = drawn_times(seen, times), frame(seen, basis, components)
    landscape = stored_landscape(seen) if wells else None
    if wells and superimpose:
        raise ValueError("wells=True marks the panel of each time; with superimpose=True there is one for all.")
    found = surfaces(plane, wanted, others)
    n_levels = check_integer("n_levels", n_levels if n_levels is not None else 3 if superimpose else 24)
    levels, told = levels_by_panel(found, n_levels, scale), note(plane, others)
    if superimpose:
        axes = page.single(size=(4.0, 3.0))
        if cells:
            pale = {"na_color": to_hex(shade(axes, 0.25)), "alpha": 0.8}
            draw_cells(axes, plane, np.arange(adata.n_obs), color, pale | kwargs)
        _superimpose(axes, plane, wanted, found, n_levels, fade, cmap or "viridis")
        plane.dress(axes, told)
        return page.finish([axes])
    shared = shared_range(adata, color)
    beside = 0.0 if color is None or shared else BESIDE
    drawn = page.panels(len(wanted), size=(2.1 + 0.4 * (scale != SCALES[0]), 2.1), beside=beside)
    shared |= {} if color is None or cmap is None else {"cmap": cmap}
    filled = []
    for axes, time, surface, heights in zip(drawn, wanted, found, levels, strict=True):
        # Colours of cells are lost on a coloured map.
        filled.append(fill(axes, surface, heights, fade, cmap=(cmap or HEIGHTS) if color is None else greys(axes)))
        if cells:
            draw_cells(axes, plane, plane.around(time), color, shared | kwargs)
        if landscape is not None:
            mark(axes, plane, landscape, time)
        title = plane.title(time)
        # On a figure of ours it stands above all panels; theirs may be narrow.
        brief = told.replace("other components", "others")
        plane.dress(axes, title if ax is None or not told else f"{title}\n{brief}")
    _keys(page, drawn, filled, told, scale)
    if cells and color is not None:
        range_key(drawn, color, shared) if "vmin" in shared else group_key(drawn[-1], adata, color)
    return page.finish(drawn)


def _keys(page: Page, drawn: list[Axes], filled: list[Any], told: str, scale: str) -> None:
    """The scale of heights, one or one for each panel, and what a reader has to know of dimensions not drawn."""
    if told and page.ax is None:
        figure_of(drawn[0]).suptitle(told, fontsize=8)
    if scale == SCALES[0]:
        colour_bar(filled[-1], drawn, "potential", shrink=0.85, pad=0.01)
        return
    for axes, mapped in zip(drawn, filled, strict=True):
        colour_bar(mapped, [axes], "potential" if axes is drawn[-1] else "", shrink=0.85, pad=0.02)


def _superimpose(
    axes: Axes, plane: Frame, times: list[float], found: list[Surface], n_levels: int, fade: bool, cmap: Any
) -> None:
    """Draw the same heights of each surface, seen from the mean of its cells, with a key that says which."""
    drawn = [s.believed if fade else s.heights for s in found]
    relative = [heights - s.level for heights, s in zip(drawn, found, strict=True)]
    low, high = (np.median([f(heights) for heights in relative]) for f in (np.nanmin, np.nanmax))
    heights = np.linspace(low, high, n_levels + 2)[1:-1]
    unit = 10 ** np.floor(np.log10(max(high - low, 1e-300) / (n_levels + 1))) / 2
    heights = np.unique(np.round(heights / unit) * unit)  # round numbers
    handles = []
    for k, (time, colour) in enumerate(zip(times, time_colours(len(times), axes, cmap), strict=True)):
        style = LINE_STYLES[k % len(LINE_STYLES)]
        with warnings.catch_warnings():  # of a time whose heights do not come near these
            warnings.filterwarnings("ignore", "No contour levels were found")
            axes.contour(found[k].x, found[k].y, relative[k], levels=heights, colors=[colour], linestyles=[style])
        handles.append(Line2D([], [], color=colour, linestyle=style, label=plane.title(time)))
    told = ", ".join(f"{height:+.4g}" for height in heights)
    key_beside(axes, handles=handles, handlelength=2.8, title=f"V − mean:\n{told}", title_fontsize=7)
