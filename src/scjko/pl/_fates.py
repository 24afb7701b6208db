from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import TwoSlopeNorm
from numpy.typing import NDArray

from ..core.timeline import time_text
from ..edge.checks import check_option
from ..edge.clones import clone_matrix, sisters
from ..edge.fitted import FittedCells, fitted_cells
from ._canvas import PALETTE, Drawn, colour_bar, dots, dress, key_beside, odds_map, seen_on, shade, shares, xy
from ._frame import frame
from ._options import merged
from ._page import open_page

KINDS = ("embedding", "log_odds", "triangle", "time", "clones")
#: Log-odds beyond this, some 99 to 1, have the last colour.
LARGEST = 5.0
#: Cells of one bin of predicted probability, at least; and bins.
FEWEST, BINS = 5, 10
#: Corners of the triangle of three fates.
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(3) / 2]])


def fates(
    adata: AnnData,
    basis: str | None = None,
    components: tuple[int, int] | str = (1, 2),
    *,
    kind: Literal["embedding", "log_odds", "triangle", "time", "clones"] = "embedding",
    names: Iterable[str] | None = None,
    clone_key: str | None = None,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Fate probabilities: on an embedding, as log-odds of two, in a triangle of three, over time, or against clones.

    Parameters
    ----------
    adata
        Annotated data with fates by :func:`scjko.tl.fates`.
    basis
        An embedding, such as ``"umap"``; by default the components that were fitted. For kinds "embedding" and
        "log_odds".
    components
        The two dimensions to draw, counted from one.
    kind
        What is drawn:

        - ``"embedding"``: the probability of each fate, a panel each.
        - ``"log_odds"``: the logarithm of the odds of two fates, on the embedding.
        - ``"triangle"``: cells between three fates, by time.
        - ``"time"``: the probability of their most probable fate, of the cells that have it, over time: mean and middle
          half.
        - ``"clones"``: predicted probabilities against the shares of fates among clonal sisters.
    names
        The fates to draw, by default all but "unassigned". "log_odds" takes two, "triangle" three.
    clone_key
        For kind "clones": labels of clones in ``adata.obs``, or a matrix in ``adata.obsm``.
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
        :meth:`matplotlib.axes.Axes.scatter`, of kind "time" to :meth:`matplotlib.axes.Axes.plot`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes, a list if there are several.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.tl.fates(adata, "fate")
    >>> axes = sj.pl.fates(adata, show=False)
    >>> [panel.get_title() for panel in axes]
    ['fate 1', 'fate 2', 'fate 3']
    """
    check_option("kind", kind, KINDS)
    page = open_page(
        fates, (ax, show, return_fig), kwargs, *((Axes.plot,) if kind == "time" else (Axes.scatter, PathCollection))
    )
    cells = fitted_cells(adata, key)
    table, colours = _table(cells)
    chosen = _chosen(table, names, kind)
    if kind in ("embedding", "log_odds"):
        plane = frame(cells, basis, components)
        drawn = page.panels(len(chosen) if kind == "embedding" else 1, size=(2.7, 2.4))
        if kind == "embedding":
            for axes, name in zip(drawn, chosen, strict=True):
                mapped = _dots(axes, plane.positions, table[name].to_numpy(), {"vmin": 0, "vmax": 1}, kwargs)
                plane.dress(axes, name)
            colour_bar(mapped, drawn, "probability", shrink=0.7)
        else:
            odds = _log_odds(table, chosen)
            scale = {"norm": TwoSlopeNorm(0, -LARGEST, LARGEST), "cmap": odds_map(drawn[0])}
            mapped = _dots(drawn[0], plane.positions, odds, scale, kwargs, by_size=True)
            plane.dress(drawn[0], "")
            colour_bar(mapped, drawn, f"log-odds of {chosen[0]} against {chosen[1]}")
    elif kind == "triangle":
        drawn = page.panels(1, size=(3.6, 3.0))
        _triangle(drawn[0], cells, table[chosen].to_numpy(), chosen, kwargs)
    elif kind == "time":
        drawn = page.panels(1, size=(3.8, 2.6))
        _over_time(drawn[0], cells, table, _of(colours, chosen, drawn[0]), kwargs)
    else:
        drawn = page.panels(1, size=(3.6, 2.8))
        _against_clones(drawn[0], cells, table, _of(colours, chosen, drawn[0]), clone_key, kwargs)
    return page.finish(drawn)


def _table(cells: FittedCells) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The probabilities, and the colour of each fate."""
    keys, adata = cells.keys, cells.adata
    if keys.fates not in adata.obsm or keys.fates not in adata.uns:
        raise KeyError(f"No adata.obsm[{keys.fates!r}]; run sj.tl.fates(adata, ..., key={keys.key!r}) first.")
    table = adata.obsm[keys.fates]
    held = [str(colour) for colour in adata.uns.get(f"{keys.fate}_colors", PALETTE)]
    return table, {str(name): held[j % len(held)] for j, name in enumerate(table.columns)}


def _of(colours: dict[str, Any], names: list[str], axes: Axes) -> dict[str, Any]:
    """The colours of some fates, as they are seen on a page."""
    return dict(zip(names, seen_on([colours[name] for name in names], axes), strict=True))


def _chosen(table: pd.DataFrame, names: Iterable[str] | None, kind: str) -> list[str]:
    """The fates to draw."""
    known = [str(name) for name in table.columns]
    real = [name for name in known if name != "unassigned"]
    chosen = real if names is None else [names] if isinstance(names, str) else [str(name) for name in names]
    for name in chosen:
        check_option("names", name, known)
    needed = {"log_odds": 2, "triangle": 3}.get(kind, len(chosen))
    if len(chosen) != needed or not chosen:
        raise ValueError(
            f"kind={kind!r} draws {needed} fates, not {len(chosen)}; choose them of {known} with names=..."
        )
    return chosen


def _dots(
    axes: Axes, points: Any, values: NDArray[Any], scale: dict[str, Any], options: dict[str, Any], by_size: bool = False
) -> Any:
    """Cells by value, the highest on top: those of small fates would be hidden."""
    order = np.argsort(np.abs(values) if by_size else values, kind="stable")
    look = dots(axes, len(values)) | {"cmap": shares(axes)}
    return axes.scatter(*xy(points[order]), c=values[order], **merged(look | scale, options, PathCollection))


def _log_odds(table: pd.DataFrame, names: list[str]) -> NDArray[np.float64]:
    """log p/q, within the limits of the colours; zero where neither fate is reached."""
    p, q = (table[name].to_numpy(dtype=np.float64) for name in names)
    tiny = np.exp(-LARGEST)
    neither = p + q <= 0
    odds = np.log(np.maximum(p, tiny * q) + neither) - np.log(np.maximum(q, tiny * p) + neither)
    return np.asarray(odds)


def _triangle(axes: Axes, cells: FittedCells, p: NDArray[Any], names: list[str], options: dict[str, Any]) -> None:
    total = p.sum(axis=1)
    known = total > 0
    points = (p[known] / total[known, None]) @ CORNERS
    outline = CORNERS[[0, 1, 2, 0]]
    axes.plot(*outline.T, color=shade(axes, 0.4), linewidth=0.8, zorder=1)
    look = dots(axes, len(points)) | {"alpha": 0.7, "cmap": "viridis"}
    mapped = axes.scatter(*xy(points), c=cells.times[known], zorder=2, **merged(look, options, PathCollection))
    for corner, name in zip(CORNERS, names, strict=True):
        low = corner[1] == 0
        axes.annotate(
            name,
            corner,
            (0, -5 if low else 5),
            textcoords="offset points",
            ha="center",
            va="top" if low else "bottom",
            fontsize=8,
        )
    axes.set(aspect="equal", xlim=(-0.12, 1.12), ylim=(-0.12, 1.0))
    axes.axis("off")
    colour_bar(mapped, [axes], cells.time_key)


def _over_time(
    axes: Axes, cells: FittedCells, table: pd.DataFrame, colours: dict[str, Any], options: dict[str, Any]
) -> None:
    times = np.unique(cells.times)
    first = table.columns[table.to_numpy().argmax(axis=1)]
    for name, colour in colours.items():
        values, ours = table[name].to_numpy(), first == name
        parts = {time: values[ours & (cells.times == time)] for time in times}
        parts = {time: part for time, part in parts.items() if len(part) >= FEWEST}
        if parts:
            low, high = (np.array([np.quantile(part, share) for part in parts.values()]) for share in (0.25, 0.75))
            axes.fill_between(list(parts), low, high, color=colour, alpha=0.12, linewidth=0)
            look = {"color": colour, "marker": "o", "markersize": 4, "label": name} | options
            axes.plot(list(parts), [part.mean() for part in parts.values()], **look)
    axes.set_xticks(times, list(map(time_text, times)))
    axes.set_ylim(0, 1.02)
    dress(axes, xlabel=cells.time_key, ylabel="probability of the fate headed for")
    key_beside(axes)


def _against_clones(
    axes: Axes,
    cells: FittedCells,
    table: pd.DataFrame,
    colours: dict[str, Any],
    clone_key: str | None,
    options: dict[str, Any],
) -> None:
    if clone_key is None:
        raise ValueError("kind='clones' needs clone_key, a column of obs with labels of clones or a matrix in obsm.")
    names = [name for name in table.columns if name in set(cells.adata.uns[cells.keys.fates]["names"])]
    member = np.stack([(cells.adata.obs[cells.keys.terminal] == name).to_numpy(dtype=float) for name in names], axis=1)
    truth = sisters(clone_matrix(cells.adata, clone_key), cells.times, member, clone_key)
    predicted = table[names].to_numpy()[truth.rows]
    axes.axline((0, 0), slope=1, color=shade(axes, 0.4), linewidth=0.8, zorder=0)
    for j, name in enumerate(names):
        if name not in colours:
            continue
        p, t = predicted[:, j], truth.shares[:, j]
        bins = np.minimum((p * BINS).astype(int), BINS - 1)
        count = np.bincount(bins, minlength=BINS)
        held = count >= FEWEST
        mean_p, mean_t = (np.bincount(bins, v, BINS)[held] / count[held] for v in (p, t))
        spread = np.sqrt(np.bincount(bins, t**2, BINS)[held] / count[held] - mean_t**2) / np.sqrt(count[held])
        axes.errorbar(mean_p, mean_t, yerr=spread, color=colours[name], linewidth=0.9, linestyle="none", zorder=1)
        look: dict[str, Any] = {
            "s": 8 + 60 * count[held] / count.max(),
            "color": colours[name],
            "label": name,
            "linewidths": 0,
        }
        axes.scatter(mean_p, mean_t, zorder=2, **merged(look, options, PathCollection))
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    dress(axes, xlabel="predicted probability", ylabel="share among clonal sisters")
    key_beside(axes)
