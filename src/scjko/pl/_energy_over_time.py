from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..edge.fitted import fitted_cells
from ._canvas import LINE_STYLES, PALETTE, Drawn, dress, key_beside, scale, seen_on
from ._groups import FEWEST, Groups, groups
from ._options import merged
from ._page import open_page

MARKERS = "os^DvP*X"


def energy_over_time(
    adata: AnnData,
    groupby: str | None = None,
    *,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """The potential of the cells of each type over time: medians, with the middle half as a band.

    At times with fewer than 20 cells of a type its cells are drawn as dots. Heights of one type at different times can
    be compared. Those of different types can be compared if the fit has growth or partial couplings; otherwise the
    title says that they cannot.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    groupby
        A column of ``obs`` with groups of cells, such as cell types; all cells together by default.
    key
        The ``key_added`` of the fit.
    ax
        Axes to draw on; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :meth:`matplotlib.axes.Axes.plot`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> len(sj.pl.energy_over_time(adata, groupby="fate", show=False).lines)
    3
    """
    page = open_page(energy_over_time, (ax, show, return_fig), kwargs, Axes.plot, Line2D)
    seen = fitted_cells(adata, key)
    potential = seen.energy.potential(seen.coordinates, seen.times)
    axes = page.single(size=(4.2, 2.8) if groupby else (3.5, 2.6))
    everyone = Groups(pd.Series("all cells", adata.obs_names), {"all cells": seen_on(PALETTE, axes)[0]})
    found = everyone if groupby is None else groups(adata, "groupby", groupby, axes)
    for k, (name, colour) in enumerate(found.colours.items()):
        here = found.rows(name)
        heights = pd.Series(potential[here]).groupby(seen.times[here])
        quartiles = heights.quantile(np.array([0.25, 0.5, 0.75])).unstack()
        many = heights.size() >= FEWEST
        # A reader who does not distinguish the colours has markers and line styles.
        style: dict[str, Any] = {
            "linestyle": LINE_STYLES[k // len(PALETTE) % len(LINE_STYLES)],
            "marker": MARKERS[k % len(MARKERS)],
        }
        look: dict[str, Any] = {"color": colour, "markersize": 4, "linewidth": 1.3, "label": name, **style}
        band = quartiles.where(many)
        axes.fill_between(quartiles.index, band[0.25], band[0.75], color=colour, alpha=0.15, linewidth=0)
        few = ~np.isin(seen.times[here], quartiles.index[many])
        axes.scatter(seen.times[here][few], potential[here][few], s=5, color=colour, alpha=0.6, linewidths=0)
        axes.plot(np.asarray(quartiles.index), band[0.5], **merged(look, kwargs, Line2D))
    doubt = "" if len(found.names) < 2 or seen.compares_groups else "types are not comparable: balanced couplings"
    dress(axes, title=doubt, xlabel=seen.time_key)
    scale(axes.yaxis, "potential", axes.get_ylim())
    if groupby is not None:
        key_beside(axes, title=groupby, title_fontsize=8)
    return page.finish([axes])
