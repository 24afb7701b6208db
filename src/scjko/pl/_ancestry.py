from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection

from ..edge.fitted import fitted_cells
from ._canvas import Drawn, colour_bar, dots, shade, shares, xy
from ._frame import frame
from ._options import merged
from ._page import open_page

#: The quantile of shares that has the last colour: single cells would leave all others pale.
TOP = 0.99


def ancestry(
    adata: AnnData,
    basis: str | None = None,
    components: tuple[int, int] | str = (1, 2),
    *,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Ancestors and descendants of a set of cells, a panel for each time point.

    Parameters
    ----------
    adata
        Annotated data with the result of :func:`scjko.tl.ancestors` or :func:`scjko.tl.descendants`, or of both.
    basis
        An embedding, such as ``"umap"``; by default the components that were fitted.
    components
        The two dimensions to draw, counted from one.
    key
        The ``key_added`` of the fit.
    ax
        Axes to draw on, one for each panel; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :meth:`matplotlib.axes.Axes.scatter`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes, a list if there are several.
    Colours are shares relative to equal ones at the time.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.tl.ancestors(adata, adata.obs["fate"] == "fate 1", time=7)
    >>> len(sj.pl.ancestry(adata, show=False))
    5
    """
    page = open_page(ancestry, (ax, show, return_fig), kwargs, Axes.scatter, PathCollection)
    cells = fitted_cells(adata, key)
    plane = frame(cells, basis, components)
    chosen: dict[float, str] = {}
    sets = set()
    for name in (cells.keys.ancestors, cells.keys.descendants):
        if name in adata.obs and name in adata.uns:
            times = list(map(float, adata.uns[name]["times"]))
            chosen |= {time: name for time in times if time not in chosen}
            sets.add(times[-1] if name == cells.keys.ancestors else times[0])
    if not chosen:
        raise KeyError(
            f"No adata.obs[{cells.keys.ancestors!r}] or [{cells.keys.descendants!r}]; run sj.tl.ancestors or "
            "sj.tl.descendants first."
        )
    drawn, everywhere = page.panels(len(chosen)), plane.positions
    for axes, (time, name) in zip(drawn, sorted(chosen.items()), strict=True):
        here = np.flatnonzero(cells.times == time)
        share = adata.obs[name].to_numpy(dtype=np.float64)[here] * len(here)
        order = here[np.argsort(share, kind="stable")]
        top = max(float(np.quantile(share, TOP)), 1.0)
        axes.scatter(*xy(everywhere), color=[shade(axes, 0.12)], **dots(axes, len(everywhere)))
        scale = {"cmap": shares(axes), "vmin": 0.0, "vmax": top}
        look = dots(axes, len(here)) | scale
        mapped = axes.scatter(*xy(everywhere[order]), c=np.sort(share), **merged(look, kwargs, PathCollection))
        what = "ancestors" if name == cells.keys.ancestors else "descendants"
        plane.dress(axes, f"{'cells' if time in sets else what}, {plane.title(time)}")
        colour_bar(mapped, [axes], "", shrink=0.7)
    return page.finish(drawn)
