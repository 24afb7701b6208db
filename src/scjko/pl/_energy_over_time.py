from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..edge.fitted import fitted_cells
from ..edge.snapshots import obs_column
from ._canvas import LINE_STYLES, PALETTE, Drawn, dress, finish, key_beside, single
from ._options import check_options, merged

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
        Extra keywords go to :meth:`matplotlib.axes.Axes.plot`.

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
    check_options(energy_over_time, kwargs, Axes.plot, Line2D)
    seen = fitted_cells(adata, key)
    potential = seen.energy.potential(seen.coordinates, seen.times)
    column = pd.Series("all cells", adata.obs_names) if groupby is None else obs_column(adata, "groupby", groupby)
    groups = column.astype("category").cat.remove_unused_categories()
    if len(groups.cat.categories) > 30:
        raise ValueError(
            f"obs[{groupby!r}] has {len(groups.cat.categories)} groups; more than 30 cannot be distinguished."
        )
    colours = adata.uns.get(f"{groupby}_colors", PALETTE)
    axes = single(ax, size=(4.2, 2.8) if groupby else (3.5, 2.6))
    for k, name in enumerate(groups.cat.categories):
        here = (groups == name).to_numpy()
        quartiles = pd.Series(potential[here]).groupby(seen.times[here]).quantile(np.array([0.25, 0.5, 0.75])).unstack()
        colour = colours[k % len(colours)]
        # A colour comes round again after seven groups; a line style and a marker of its own do not.
        style: dict[str, Any] = {
            "linestyle": LINE_STYLES[k // len(colours) % len(LINE_STYLES)],
            "marker": MARKERS[k % len(MARKERS)],
        }
        look: dict[str, Any] = {"color": colour, "markersize": 4, "linewidth": 1.3, "label": str(name), **style}
        axes.fill_between(quartiles.index, quartiles[0.25], quartiles[0.75], color=colour, alpha=0.15, linewidth=0)
        axes.plot(np.asarray(quartiles.index), quartiles[0.5], **merged(look, kwargs, Line2D))
    dress(axes, xlabel=seen.time_key, ylabel="potential")
    if groupby is not None:
        key_beside(axes, title=groupby, title_fontsize=8)
    return finish([axes], ours=ax is None, show=show, return_fig=return_fig)
