from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes

from ..core.timeline import time_text
from ..edge.checks import check_adata, check_name
from ._canvas import PALETTE, Drawn, dress, finish, key_beside, single

COLUMNS = ("protocol", "split", "time", "method", "emd")
#: The colour and marker of each method, the same in every picture.
LOOKS = {
    "scjko": (PALETTE[0], "o"),
    "ot_neighbours": (PALETTE[1], "s"),
    "ot_midpoint": (PALETTE[1], "s"),
    "ot_nearest": (PALETTE[3], "^"),
    "mixture": (PALETTE[3], "^"),
    "persistence": (PALETTE[4], "D"),
}


def validation(
    adata: AnnData,
    *,
    key: str = "jko_validation",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Errors on held-out cells by method and time, with the floor that samples of one population reach.

    Parameters
    ----------
    adata
        Annotated data with the result of :func:`scjko.tl.validate`.
    key
        The ``key_added`` of the validation.
    ax
        Axes to draw on; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        Further options of :meth:`matplotlib.axes.Axes.errorbar`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes. Markers are means over splits,
    bars their range.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> options = {"use_rep": "X_latent", "n_splits": 2, "epochs": 20, "progress": False}
    >>> frame = sj.tl.validate(adata, "day", **options)
    >>> sj.pl.validation(adata, show=False).get_ylabel()
    "earth mover's distance"
    """
    table = _table(adata, key)
    axes = single(ax, size=(4.4, 2.9))
    times = np.sort(table["time"].unique())
    methods = [name for name in LOOKS if name in set(table["method"])]
    spread = np.linspace(-0.3, 0.3, max(len(methods), 2))
    at = np.arange(len(times))
    by_time = table.groupby(["method", "time"])["emd"]
    mean, low, high = (getattr(by_time, what)().unstack("time")[times] for what in ("mean", "min", "max"))
    for name, shift in zip(methods, spread, strict=False):
        colour, marker = LOOKS[name]
        bars = np.stack([mean.loc[name] - low.loc[name], high.loc[name] - mean.loc[name]])
        look: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "linestyle": "none",
            "markersize": 4.5,
            "elinewidth": 1,
        }
        axes.errorbar(at + shift, mean.loc[name].to_numpy(), yerr=bars, label=name, **look | kwargs)
    if "floor" in mean.index:
        for k, height in enumerate(mean.loc["floor"]):
            label = "floor" if k == 0 else "_nolegend_"
            axes.hlines(height, k - 0.42, k + 0.42, color="0.35", linewidth=1.2, linestyle=(0, (4, 2)), label=label)
    axes.set_xticks(at, list(map(time_text, times)))
    axes.set_ylim(0, None)
    protocol = str(table["protocol"].iloc[0])
    what = {"cells": "held-out cells, one step ahead", "times": "time points left out"}.get(protocol, protocol)
    dress(axes, title=what, xlabel="time predicted", ylabel="earth mover's distance")
    key_beside(axes)
    return finish([axes], ours=ax is None, show=show, return_fig=return_fig)


def _table(adata: AnnData, key: str) -> pd.DataFrame:
    check_adata(adata)
    check_name("key", key)
    if key not in adata.uns:
        raise KeyError(f"No validation at adata.uns[{key!r}]; run sj.tl.validate(adata, ..., key_added={key!r}).")
    table = adata.uns[key]
    if not isinstance(table, pd.DataFrame) or not set(COLUMNS) <= set(table.columns) or not len(table):
        raise ValueError(f"adata.uns[{key!r}] is not the result of sj.tl.validate; name the key_added of one.")
    return table
