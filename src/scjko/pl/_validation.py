from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..core.timeline import time_text
from ..edge.checks import check_adata, check_name, check_option
from ._canvas import PALETTE, Drawn, dress, figure_of, key_beside, seen_on, shade
from ._options import merged
from ._page import open_page

COLUMNS = ("protocol", "split", "time", "method", "emd")
#: The colour and marker of each method, the same in every picture.
LOOKS = {
    "scjko": (PALETTE[0], "o"),
    "ot_neighbours_best": (PALETTE[1], "P"),
    "ot_neighbours": (PALETTE[1], "s"),
    "ot_midpoint": (PALETTE[1], "s"),
    "mean_shift": (PALETTE[1], "s"),
    "kernel_ridge": (PALETTE[2], "v"),
    "ot_midpoint_prior": (PALETTE[2], "v"),
    "ot_asynchronous": (PALETTE[6], "X"),
    "ot_nearest": (PALETTE[3], "^"),
    "mixture": (PALETTE[3], "^"),
    "linear_map": (PALETTE[5], "<"),
    "kantorovich": (PALETTE[6], "X"),
    "persistence": (PALETTE[4], "D"),
}
#: Inches that a panel is wide, at least and at most, those of its legend, and points that a marker takes at best.
WIDTHS, LEGEND, MARK = (3.8, 9.0), 1.7, 6.0
#: What each protocol predicts, in the order of the panels.
TITLES = {
    "cells": "held-out cells, one step ahead",
    "times": "time points left out",
    "last": "last time point, forecast",
}


def validation(
    adata: AnnData,
    *,
    protocol: Literal["cells", "times", "last"] | None = None,
    key: str = "jko_validation",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Errors on held-out cells by method and time, with the floor that two samples of one population reach.

    Parameters
    ----------
    adata
        Annotated data with the result of :func:`scjko.tl.validate`.
    protocol
        The protocol to draw. By default every one that was run has a panel.
    key
        The ``key_added`` of the validation.
    ax
        Axes to draw on, one for each panel. Defaults to those of a new figure.
    show
        Whether to show the figure. Defaults to True for a new figure.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :meth:`matplotlib.axes.Axes.errorbar`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes, a list if there are several.
    Markers are means over splits, bars their range.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> options = {"use_rep": "X_latent", "parametrization": sj.Neural(epochs=20), "progress": False}
    >>> frame = sj.tl.validate(adata, "day", n_splits=2, **options)
    >>> sj.pl.validation(adata, show=False).get_ylabel()
    "earth mover's distance"
    """
    page = open_page(validation, (ax, show, return_fig), kwargs, Axes.errorbar, Line2D)
    table = _table(adata, key)
    run = set(table["protocol"])
    names = [*(name for name in TITLES if name in run), *sorted(run - set(TITLES))]
    if protocol is not None:
        check_option("protocol", protocol, names)
        names = [protocol]
    marks = [table[table["protocol"] == name].groupby(["time", "method"]).ngroups for name in names]
    width = float(np.clip(LEGEND + MARK * max(marks) / 72, *WIDTHS))
    drawn = page.panels(len(names), size=(width, 2.5))
    for axes, name in zip(drawn, names, strict=True):
        _draw(axes, table[table["protocol"] == name], kwargs)
        dress(axes, title=TITLES.get(name, name), xlabel="time predicted", ylabel="earth mover's distance")
        key_beside(axes)
    return page.finish(drawn)


def _draw(axes: Axes, table: pd.DataFrame, options: dict[str, Any]) -> None:
    """The errors of one protocol."""
    times = np.sort(table["time"].unique())
    methods = [name for name in LOOKS if name in set(table["method"])]
    spread = np.linspace(-0.36, 0.36, max(len(methods), 2))
    at = np.arange(len(times))
    room = 72 * axes.get_position().width * figure_of(axes).get_figwidth() / (len(times) * (len(methods) + 1))
    by_time = table.groupby(["method", "time"])["emd"]
    mean, low, high = (getattr(by_time, what)().unstack("time")[times] for what in ("mean", "min", "max"))
    for name, shift in zip(methods, spread, strict=False):
        (colour,), marker = seen_on(LOOKS[name][:1], axes), LOOKS[name][1]
        bars = np.stack([mean.loc[name] - low.loc[name], high.loc[name] - mean.loc[name]])
        look: dict[str, Any] = {
            "color": colour,
            "marker": marker,
            "linestyle": "none",
            "markersize": min(4.5, 0.9 * room),
            "elinewidth": min(1.0, 0.2 * room),
            "markeredgewidth": 0.0,
        }
        axes.errorbar(at + shift, mean.loc[name].to_numpy(), yerr=bars, label=name, **merged(look, options, Line2D))
    if "floor" in mean.index:
        for k, height in enumerate(mean.loc["floor"]):
            label = "floor" if k == 0 else "_nolegend_"
            axes.hlines(
                height, k - 0.42, k + 0.42, color=shade(axes, 0.65), linewidth=1.2, linestyle=(0, (4, 2)), label=label
            )
    axes.set_xticks(at, list(map(time_text, times)))
    axes.set_xlim(-0.6, len(times) - 0.4)
    axes.set_ylim(0, None)


def _table(adata: AnnData, key: str) -> pd.DataFrame:
    check_adata(adata)
    check_name("key", key)
    if key not in adata.uns:
        raise KeyError(f"No validation at adata.uns[{key!r}]; run sj.tl.validate(adata, ..., key_added={key!r}).")
    table = adata.uns[key]
    if not isinstance(table, pd.DataFrame) or not set(COLUMNS) <= set(table.columns) or not len(table):
        raise ValueError(f"adata.uns[{key!r}] is not the result of sj.tl.validate; name the key_added of one.")
    table = table[table["emd"].notna()]  # fates judged by clones have no distance
    if not len(table):
        raise ValueError(
            f"adata.uns[{key!r}] has fates judged by clones only, which sj.pl.fates(adata, kind='clones') draws."
        )
    return table.astype({"protocol": str, "method": str})
