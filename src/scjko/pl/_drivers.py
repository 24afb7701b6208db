from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex

from ..edge.checks import check_fraction, check_integer, check_option
from ..edge.fitted import fitted_cells
from ._canvas import PALETTE, Drawn, dress, ink, shade
from ._options import merged
from ._page import open_page

KINDS = ("ranked", "volcano")
#: p-values below this are drawn at it.
SMALLEST = 1e-50
UP, DOWN = PALETTE[1], PALETTE[0]


def drivers(
    adata: AnnData,
    of: str | Iterable[str] | None = None,
    n_genes: int = 10,
    *,
    kind: Literal["ranked", "volcano"] = "ranked",
    alpha: float = 0.05,
    factors_only: bool = False,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Genes associated with fates: the strongest with their errors, or effect against p-value.

    Parameters
    ----------
    adata
        Annotated data with drivers by :func:`scjko.tl.drivers`.
    of
        The fates to draw, a panel each; by default all.
    n_genes
        Genes with the smallest p-values that are drawn or named: as many that rise with the fate and that fall.
    kind
        What is drawn:

        - ``"ranked"``: the effects of these genes, with bars of 1.96 standard errors.
        - ``"volcano"``: all genes, effect against p-value, those with q below ``alpha`` in colour.
    alpha
        The rate of false discoveries up to which genes are coloured.
    factors_only
        Whether to draw transcription factors only, where :func:`scjko.tl.drivers` was told which these are.
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

    Examples
    --------
    >>> import scanpy as sc
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(400, 200, n_drivers=5)
    >>> sc.pp.normalize_total(adata); sc.pp.log1p(adata); sc.pp.pca(adata)
    >>> sj.tl.fit_energy(adata, "day", n_pcs=5, parametrization="linear", progress=False)
    >>> sj.tl.fates(adata, "fate")
    >>> table = sj.tl.drivers(adata)
    >>> [panel.get_title() for panel in sj.pl.drivers(adata, kind="volcano", show=False)]
    ['fate 1', 'fate 2', 'fate 3']
    """
    check_option("kind", kind, KINDS)
    check_integer("n_genes", n_genes, minimum=1)
    check_fraction("alpha", alpha)
    page = open_page(drivers, (ax, show, return_fig), kwargs, Axes.scatter, PathCollection)
    cells = fitted_cells(adata, key)
    held = cells.keys.drivers
    if held not in adata.uns:
        raise KeyError(f"No adata.uns[{held!r}]; run sj.tl.drivers(adata, ..., key={key!r}) first.")
    table = adata.uns[held]
    if factors_only:
        if "factor" not in table:
            raise ValueError("factors_only=True needs to know them: run sj.tl.drivers(adata, ..., factors='mouse').")
        table = table[table["factor"].astype(bool)]
    known = list(dict.fromkeys(table["of"].astype(str)))
    chosen = known if of is None else [of] if isinstance(of, str) else list(of)
    for name in chosen:
        check_option("of", name, known)
    parts = [_best(table[table["of"] == name].dropna(subset=["p"]), n_genes) for name in chosen]
    if any(part.empty for _, part in parts):
        raise ValueError("No gene has a p-value; all of them are constant among the cells that count.")
    height = 2.4 if kind == "volcano" else 0.55 + 0.14 * max(len(part) for _, part in parts)
    drawn = page.panels(len(chosen), size=(2.6, height))
    for axes, name, (whole, best) in zip(drawn, chosen, parts, strict=True):
        (_volcano if kind == "volcano" else _ranked)(axes, whole, best, alpha, kwargs)
        dress(axes, title=name, xlabel="correlation", ylabel="−log₁₀ p" if kind == "volcano" else "")
        axes.axvline(0, color=shade(axes, 0.4), linewidth=0.8, zorder=0)
    if kind == "ranked":
        for axes in drawn:
            axes.tick_params(axis="y", labelsize=6.5)
    return page.finish(drawn)


def _best(table: pd.DataFrame, n_genes: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """All genes, and those to name: the first that rise and the first that fall."""
    ordered = table.assign(size=table["effect"].abs()).sort_values(["p", "size"], ascending=[True, False])
    rises = ordered["effect"] > 0
    best = pd.concat([ordered[rises].head(n_genes), ordered[~rises].head(n_genes)])
    return table, best.sort_values("effect")


def _colours(axes: Axes, table: pd.DataFrame, alpha: float) -> list[str]:
    """Those of genes that rise and fall, and of genes that chance explains."""
    sides = np.where(table["effect"].to_numpy() > 0, UP, DOWN)
    return [str(colour) for colour in np.where(table["q"].to_numpy() < alpha, sides, to_hex(shade(axes, 0.25)))]


def _ranked(axes: Axes, _: pd.DataFrame, best: pd.DataFrame, alpha: float, options: dict[str, Any]) -> None:
    place = np.arange(len(best))
    colours = _colours(axes, best, alpha)
    axes.errorbar(
        best["effect"], place, xerr=1.96 * best["error"], fmt="none", ecolor=shade(axes, 0.55), elinewidth=0.8, zorder=1
    )
    look = {"c": colours, "s": 16.0, "linewidths": 0, "zorder": 2}
    axes.scatter(best["effect"], place, **merged(look, options, PathCollection))
    axes.set_yticks(place, best["gene"].astype(str).tolist())
    axes.set_ylim(-0.7, len(best) - 0.3)


def _volcano(axes: Axes, whole: pd.DataFrame, best: pd.DataFrame, alpha: float, options: dict[str, Any]) -> None:
    height = -np.log10(np.maximum(whole["p"].to_numpy(dtype=np.float64), SMALLEST))
    look = {"c": _colours(axes, whole, alpha), "s": 5.0, "linewidths": 0, "rasterized": True}
    axes.scatter(whole["effect"], height, **merged(look, options, PathCollection))
    axes.margins(x=0.3, y=0.15)
    for side in (best.head(3), best.tail(3)):
        top = -np.inf
        for row in side.sort_values("p", ascending=False).to_dict("records"):  # from below, each above the one before
            y = -np.log10(max(float(row["p"]), SMALLEST))
            top = max(y, top + 0.07 * max(float(height.max()), 1.0))
            axes.annotate(
                str(row["gene"]),
                (row["effect"], y),
                (row["effect"], top),
                fontsize=6,
                color=ink(axes),
                ha="right" if row["effect"] < 0 else "left",
                va="bottom",
                arrowprops={"arrowstyle": "-", "color": shade(axes, 0.4), "linewidth": 0.4} if top > y else None,
            )
