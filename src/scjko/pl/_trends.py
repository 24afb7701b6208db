from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..edge.checks import check_option
from ..edge.fitted import FittedCells, fitted_cells
from ._canvas import PALETTE, Drawn, colour_bar, dress, key_beside
from ._options import merged
from ._page import open_page

KINDS = ("lines", "heatmap")
#: Genes more than this are not named beside a heat map.
NAMED = 60


def trends(
    adata: AnnData,
    genes: str | Iterable[str] | None = None,
    fates: str | Iterable[str] | None = None,
    *,
    kind: Literal["lines", "heatmap"] = "lines",
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Expression along the trajectories to fates: lines with bands, or a cascade of genes by when they peak.

    Parameters
    ----------
    adata
        Annotated data with trends by :func:`scjko.tl.trends`.
    genes
        The genes to draw, by default all that there are trends of.
    fates
        The fates to draw, by default all.
    kind
        What is drawn:

        - ``"lines"``: a panel for each gene, with a line and its 95 % band for each fate.
        - ``"heatmap"``: a panel for each fate, with a row for each gene from its least to its most over all panels.
          Genes are grouped by the fate on whose trajectory they are highest, in the order in which they are expressed
          there.
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
        :meth:`matplotlib.axes.Axes.plot`, of kind "heatmap" to :meth:`matplotlib.axes.Axes.imshow`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes, a list if there are several.

    Examples
    --------
    >>> import scanpy as sc
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(400, 200, n_drivers=5)
    >>> sc.pp.normalize_total(adata); sc.pp.log1p(adata); sc.pp.pca(adata)
    >>> sj.tl.fit_energy(adata, "day", n_pcs=5, parametrization="linear", progress=False)
    >>> sj.tl.fates(adata, "fate")
    >>> table = sj.tl.trends(adata, ["gene 0", "gene 5"])
    >>> [panel.get_title() for panel in sj.pl.trends(adata, show=False)]
    ['gene 0', 'gene 5']
    """
    check_option("kind", kind, KINDS)
    drawers = (Axes.plot, Line2D) if kind == "lines" else (Axes.imshow,)
    page = open_page(trends, (ax, show, return_fig), kwargs, *drawers)
    cells = fitted_cells(adata, key)
    held = cells.keys.trends
    if held not in adata.uns:
        raise KeyError(f"No adata.uns[{held!r}]; run sj.tl.trends(adata, genes, key={key!r}) first.")
    table = adata.uns[held]
    names, shown = _chosen(table, "gene", genes, "genes"), _chosen(table, "fate", fates, "fates")
    along = str(table["along"].iloc[0])
    label = "pseudo-time (share of cells above)" if along == "potential" else along
    if kind == "lines":
        drawn = page.panels(len(names), size=(2.2, 1.9))
        colours = _colours(cells, shown)
        for axes, gene in zip(drawn, names, strict=True):
            _lines(axes, table[table["gene"] == gene], colours, kwargs)
            dress(axes, title=gene, xlabel=label, ylabel="expression" if axes is drawn[0] else "")
        key_beside(drawn[-1])
    else:
        drawn = page.panels(len(shown), size=(2.4, 0.9 + min(5.0, 0.12 * len(names))))
        _heatmap(drawn, table, names, shown, label, kwargs)
    return page.finish(drawn)


def _chosen(table: pd.DataFrame, column: str, wanted: str | Iterable[str] | None, argument: str) -> list[str]:
    known = list(dict.fromkeys(table[column].astype(str)))
    chosen = known if wanted is None else [wanted] if isinstance(wanted, str) else [str(name) for name in wanted]
    for name in chosen:
        check_option(argument, name, known)
    if not chosen:
        raise ValueError(f"{argument} is empty; name at least one, or leave it out for all.")
    return chosen


def _colours(cells: FittedCells, shown: list[str]) -> dict[str, Any]:
    """The colour of each fate as other plots have it."""
    held = cells.adata.uns.get(cells.keys.fates, {}).get("names", shown)
    names = [str(name) for name in held]
    kept = [str(colour) for colour in cells.adata.uns.get(f"{cells.keys.fate}_colors", PALETTE)]
    return {name: kept[names.index(name) % len(kept)] if name in names else PALETTE[0] for name in shown}


def _lines(axes: Axes, table: pd.DataFrame, colours: dict[str, Any], options: dict[str, Any]) -> None:
    for name, colour in colours.items():
        part = table[table["fate"] == name]
        axes.fill_between(part["at"], part["low"], part["high"], color=colour, alpha=0.2, linewidth=0)
        look = {"color": colour, "linewidth": 1.4, "label": name}
        axes.plot(part["at"], part["mean"], **merged(look, options, Line2D))


def _heatmap(
    drawn: list[Axes], table: pd.DataFrame, names: list[str], shown: list[str], label: str, options: dict[str, Any]
) -> None:
    means = {name: table[table["fate"] == name] for name in shown}
    each = {name: part.pivot(index="gene", columns="at", values="mean").loc[names] for name, part in means.items()}
    both = np.concatenate([part.to_numpy() for part in each.values()], axis=1)
    low, high = both.min(axis=1, keepdims=True), both.max(axis=1, keepdims=True)
    scaled = {name: (part.to_numpy() - low) / np.maximum(high - low, 1e-12) for name, part in each.items()}
    order = _cascade(np.stack([scaled[name] for name in shown]))
    for axes, name in zip(drawn, shown, strict=True):
        at = each[name].columns.to_numpy(dtype=np.float64)
        box = (at[0], at[-1], len(names) - 0.5, -0.5)
        look: dict[str, Any] = {"aspect": "auto", "cmap": "magma", "vmin": 0, "vmax": 1, "interpolation": "nearest"}
        mapped = axes.imshow(scaled[name][order], extent=box, **look | options)
        dress(axes, title=name, xlabel=label)
        first = axes is drawn[0] and len(names) <= NAMED
        axes.set_yticks(np.arange(len(names)) if first else [], [names[g] for g in order] if first else [])
        axes.tick_params(axis="y", labelsize=6, length=0)
    colour_bar(mapped, drawn, "expression, from least to most")


def _cascade(scaled: Any) -> Any:
    """Genes by the fate of their highest mean, and by when they are expressed there: the centre of what is above it."""
    group = scaled.mean(axis=2).argmax(axis=0)
    own = scaled[group, np.arange(len(group))]
    above = np.maximum(own - own.mean(axis=1, keepdims=True), 0.0)
    centre = (above @ np.arange(own.shape[1])) / np.maximum(above.sum(axis=1), 1e-12)
    return np.lexsort((centre, group))
