from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from ..core.timeline import time_text
from ..edge.fitted import fitted_cells
from ..edge.keys import GROWTH_PRIOR
from ..edge.snapshots import obs_column
from ._canvas import PALETTE, Drawn, dress, finish, key_beside, single, time_colours
from ._options import check_options, merged

#: Area of a dot with few cells, and in all.
DOT, IN_ALL = 12.0, 20_000.0


def growth(
    adata: AnnData,
    groupby: str | None = None,
    *,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Growth rates before and after the fit: those expected of each cell against those of the growth field.

    Expected are the rates that the fit was given, or ``obs["jko_growth_prior"]``. Without either, the rates that the
    couplings have, chance included, are compared with the field, which is what halves of the cells agree on.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy` with ``growth``.
    groupby
        A column of ``obs`` with groups of cells to colour by, such as cell types; by default their times.
    key
        The ``key_added`` of the fit.
    ax
        Axes to draw on; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        Extra keywords go to :meth:`matplotlib.axes.Axes.scatter`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300, growth=(0.3, 0, -0.3))
    >>> model = sj.Neural(epochs=20)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", growth="auto", parametrization=model, progress=False)
    >>> sj.pl.growth(adata, "fate", show=False).get_ylabel()
    'fitted growth rate'
    """
    check_options(growth, kwargs, Axes.scatter, PathCollection)
    seen = fitted_cells(adata, key)
    if seen.energy.growth_field is None:
        raise ValueError(f"The fit at adata.uns[{key!r}] has no growth; fit with growth='auto' or a column of rates.")
    posterior = seen.energy.growth(seen.coordinates, seen.times)
    name = str(seen.params["growth"])
    if name not in adata.obs:
        name = GROWTH_PRIOR if GROWTH_PRIOR in adata.obs else seen.keys.growth_coupled
    prior = obs_column(adata, "growth", name).to_numpy(dtype=np.float64)
    if groupby is None:
        groups = pd.Series(seen.times, adata.obs_names).map(time_text)
        order = [time_text(time) for time in np.unique(seen.times)]
        colours: Any = time_colours(len(order))
    else:
        groups = obs_column(adata, "groupby", groupby).astype("category").cat.remove_unused_categories()
        order, colours = list(groups.cat.categories), adata.uns.get(f"{groupby}_colors", PALETTE)
    axes = single(ax, size=(4.4, 3.2))
    for k, group in enumerate(order):
        here = (groups == group).to_numpy() & np.isfinite(prior)
        if here.any():
            look = {
                "s": min(DOT, IN_ALL / len(prior)),
                "color": colours[k % len(colours)],
                "linewidths": 0,
                "alpha": 0.6,
            }
            look |= {"label": str(group), "rasterized": True}
            axes.scatter(prior[here], posterior[here], **merged(look, kwargs, PathCollection))
    axes.axline((0, 0), slope=1, color="0.6", linewidth=0.8, zorder=0)
    dress(axes, xlabel=f"growth rate in {name}", ylabel="fitted growth rate")
    key_beside(axes, title=groupby or seen.time_key, title_fontsize=8)
    return finish([axes], ours=ax is None, show=show, return_fig=return_fig)
