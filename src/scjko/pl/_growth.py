from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_rgba

from ..core.timeline import time_text
from ..edge.fitted import fitted_cells
from ..edge.keys import GROWTH_PRIOR
from ..edge.snapshots import obs_column
from ._canvas import Drawn, dots, dress, key_beside, shade, time_colours
from ._groups import Groups, groups
from ._options import merged
from ._page import open_page


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
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :meth:`matplotlib.axes.Axes.scatter`.

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
    page = open_page(growth, (ax, show, return_fig), kwargs, Axes.scatter, PathCollection)
    seen = fitted_cells(adata, key)
    if seen.energy.growth_field is None:
        raise ValueError(f"The fit at adata.uns[{key!r}] has no growth; fit with growth='auto' or a column of rates.")
    posterior = seen.energy.growth(seen.coordinates, seen.times)
    name = str(seen.params["growth"])
    if name not in adata.obs:
        name = GROWTH_PRIOR if GROWTH_PRIOR in adata.obs else seen.keys.growth_coupled
    prior = obs_column(adata, "growth", name).to_numpy(dtype=np.float64)
    axes = page.single(size=(4.4, 3.2))
    if groupby is None:
        times = np.unique(seen.times)
        texts = list(map(time_text, times))
        labels = pd.Series(pd.Categorical.from_codes(np.searchsorted(times, seen.times), pd.Index(texts)))
        found = Groups(labels, dict(zip(texts, time_colours(len(times), axes), strict=True)))
    else:
        found = groups(adata, "groupby", groupby, axes)
    colours = np.array([to_rgba(colour) for colour in found.colours.values()])
    code = found.labels.cat.set_categories(found.names).cat.codes.to_numpy()
    rows = np.flatnonzero(np.isfinite(prior) & (code >= 0))
    rows = np.random.default_rng(0).permutation(rows)  # no group lies on top of another
    look = dots(axes, len(rows)) | {"c": colours[code[rows]], "alpha": 0.6}
    axes.scatter(prior[rows], posterior[rows], **merged(look, kwargs, PathCollection))
    shown = {found.names[k] for k in np.unique(code[rows])}
    handles = [
        axes.scatter([], [], color=[colour], label=name, linewidths=0)
        for name, colour in found.colours.items()
        if name in shown
    ]
    axes.axline((0, 0), slope=1, color=shade(axes, 0.4), linewidth=0.8, zorder=0)
    dress(axes, xlabel=f"growth rate in {name}", ylabel="fitted growth rate")
    key_beside(axes, handles=handles, title=groupby or seen.time_key, title_fontsize=8)
    return page.finish([axes])
