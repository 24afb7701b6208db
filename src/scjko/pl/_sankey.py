from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from numpy.typing import NDArray

from ..edge.fates import CellChain, cell_chain
from ..edge.snapshots import obs_column
from ._canvas import Drawn
from ._frame import frame
from ._groups import groups
from ._options import merged
from ._page import open_page

#: Width of a bar and the gap between groups, of the room for a time and of the height of all.
BAR, GAP = 0.08, 0.02
#: Flows of less than this share of the population are not drawn, nor groups named that are smaller than the second.
LEAST, NAMED = 0.002, 0.02


def sankey(
    adata: AnnData,
    cluster_key: str,
    *,
    couplings: Mapping[tuple[Any, Any], Any] | None = None,
    n_representatives: int = 2000,
    key: str = "jko",
    random_state: int = 0,
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """What becomes of each group of cells from one time point to the next, as flows of mass.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    cluster_key
        Column of ``adata.obs`` with the groups; its colours are those of ``uns["<cluster_key>_colors"]``.
    couplings
        Couplings ``{(t0, t1): matrix}`` to use instead of entropic ones, as in :func:`scjko.tl.fates`.
    n_representatives
        Larger snapshots are coupled by as many cluster centres.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the choice of representatives.
    ax
        Axes to draw on; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :class:`matplotlib.patches.PathPatch`, the flows.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes. The height of a bar is the share
    of a group in its time point.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> axes = sj.pl.sankey(adata, "fate", show=False)
    >>> [label.get_text() for label in axes.get_xticklabels()]
    ['day 0', 'day 1', 'day 2', 'day 4', 'day 7']
    """
    page = open_page(sankey, (ax, show, return_fig), kwargs, PathPatch)
    obs_column(adata, "cluster_key", cluster_key)  # there, or an error
    made = cell_chain(adata, key, couplings=couplings, n_representatives=n_representatives, random_state=random_state)
    n_times = len(made.snapshots.times)
    axes = page.single(size=(1.6 * n_times + 1.4, 3.4))
    found = groups(adata, "cluster_key", cluster_key, axes, most=None)
    names, colours = found.names, list(found.colours.values())
    flows = _flows(made, found.labels.cat.set_categories(names))
    bars = [flow.sum(axis=1) for flow in flows] + [flows[-1].sum(axis=0)]
    for k, flow in enumerate(flows):
        _draw_flows(axes, k, flow, (bars[k], bars[k + 1]), colours, kwargs)
    for k, mass in enumerate(bars):
        for j, (bottom, height) in enumerate(zip(_stacked(mass), mass, strict=True)):
            if height > LEAST:
                axes.add_patch(Rectangle((k - BAR / 2, bottom), BAR, height, facecolor=colours[j], edgecolor="none"))
            if height >= NAMED and k in (0, n_times - 1):
                side = -1 if k == 0 else 1
                where = (k + side * (BAR / 2 + 0.03), bottom + height / 2)
                axes.text(*where, names[j], ha="right" if k == 0 else "left", va="center", fontsize=7)
    title = frame(made.cells, None, (1, 2)).title if made.cells.coordinates.shape[1] > 1 else str
    axes.set_xticks(range(n_times), [title(float(time)) for time in made.snapshots.times])
    axes.tick_params(length=0, labelsize=8)
    axes.set(yticks=[], xlim=(-0.75, n_times - 0.25), ylim=(-GAP, 1 + GAP * len(names)))
    for spine in axes.spines.values():
        spine.set_visible(False)
    return page.finish([axes])


def _flows(made: CellChain, labels: pd.Series) -> list[NDArray[np.float64]]:
    """For each interval the mass that goes from group to group, the groups' shares of a time in its columns' sums."""
    codes, n_groups = made.by_time(labels.cat.codes.to_numpy()), len(labels.cat.categories)
    found = []
    for k in range(len(codes) - 1):
        start = (codes[k][:, None] == np.arange(n_groups)) * made.snapshots.weights[k][:, None]
        arrived = made.chain.onward(k, start)
        mass = np.stack([arrived[codes[k + 1] == j].sum(axis=0) for j in range(n_groups)], axis=1)
        found.append(mass / max(mass.sum(), 1e-300))
    return found


def _stacked(mass: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where each group starts, one upon the other with gaps between those that are there."""
    shown = mass > LEAST
    return np.asarray(np.cumsum(mass) - mass + GAP * (np.cumsum(shown) - shown))


def _draw_flows(
    axes: Axes, k: int, flow: NDArray[Any], bars: tuple[Any, Any], colours: list[Any], options: dict[str, Any]
) -> None:
    """The flows of one interval, in the colour of where they start."""
    leaves, enters = (_stacked(mass) for mass in bars)
    x0, x1 = k + BAR / 2, k + 1 - BAR / 2
    half = (x0 + x1) / 2
    curve = [Path.MOVETO, *3 * [Path.CURVE4], Path.LINETO, *3 * [Path.CURVE4], Path.CLOSEPOLY]
    for i, j in np.ndindex(*flow.shape):
        height, y0, y1 = flow[i, j], leaves[i], enters[j]
        leaves[i] += height
        enters[j] += height
        if height <= LEAST:
            continue
        upper = [(x0, y0), (half, y0), (half, y1), (x1, y1)]
        lower = [(x1, y1 + height), (half, y1 + height), (half, y0 + height), (x0, y0 + height)]
        look = {"facecolor": colours[i], "alpha": 0.4, "linewidth": 0}
        axes.add_patch(PathPatch(Path([*upper, *lower, (x0, y0)], curve), **merged(look, options, PathPatch)))
