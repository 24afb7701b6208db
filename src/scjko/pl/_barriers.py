from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from ..edge.fitted import FittedCells, fitted_cells
from ..edge.landscape import stored_landscape
from ._canvas import PALETTE, Drawn, dress, ink, paper, scale, seen_on
from ._options import merged
from ._page import open_page

Array = NDArray[np.float64]


def barriers(
    adata: AnnData,
    time: float | str | None = None,
    *,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Wells and the passes between them as a tree: each well hangs at its height, and joins others at their pass.

    Error bars have one standard deviation over the members of the energy, if it has any. Passes where no cell is are
    dashed: their height is an extrapolation. Open circles are wells in which cells do not come to rest.

    Parameters
    ----------
    adata
        Annotated data with a landscape by :func:`scjko.tl.landscape`.
    time
        The time to draw, one of those of the landscape. Defaults to the last.
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
        :class:`matplotlib.lines.Line2D`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.tl.landscape(adata, time=7)
    >>> sj.pl.barriers(adata, show=False).get_ylabel()
    'potential'
    """
    page = open_page(barriers, (ax, show, return_fig), kwargs, Axes.plot, Line2D)
    cells = fitted_cells(adata, key)
    found = stored_landscape(cells)
    at = _time(cells, found, time)
    wells, saddles = found["wells"], found["saddles"]
    rows = np.flatnonzero(wells["time"] == at)
    if not len(rows):
        raise ValueError(f"The landscape at {cells.time_key} {at:g} has no well to draw; name another time.")
    here = saddles["time"] == at
    between, heights = saddles["wells"][here] - rows[0], saddles["height"][here]
    supported = saddles["supported"][here].astype(bool)
    low = np.asarray(wells["height"][rows], dtype=np.float64)
    axes = page.single(size=(1.2 + 0.85 * max(len(rows), 2), 3.2))
    look = merged({"color": ink(axes), "linewidth": 1.2}, kwargs, Line2D)
    place = _draw_tree(axes, low, between, heights, supported, look)
    for k, row in enumerate(rows):
        (colour,) = seen_on([PALETTE[int(wells["track"][row]) % len(PALETTE)]], axes)
        error = wells["error"][row]
        if np.isfinite(error):
            axes.errorbar(place[k], low[k], error, color=colour, capsize=3, linewidth=1)
        face = colour if wells["resting"][row] else paper(axes)
        axes.plot(place[k], low[k], "o", color=colour, markerfacecolor=face, markersize=7, zorder=3)
    names = [f"{wells['name'][row]}\n{wells['n_cells'][row]} cells" for row in rows]
    dress(axes, title=f"{cells.time_key} {at:g}", ylabel="potential")
    axes.set_xticks(place, names, rotation=0 if len(rows) <= 5 else 90, fontsize=7)
    axes.set_xlim(-0.6, len(rows) - 0.4)
    axes.margins(y=0.1)
    scale(axes.yaxis, "potential", axes.get_ylim())
    return page.finish([axes])


def _time(cells: FittedCells, found: Any, time: Any) -> float:
    times = np.asarray(found["times"], dtype=np.float64)
    at = float(times[-1]) if time is None else cells.time("time", time)
    if at not in times:
        known = ", ".join(f"{t:g}" for t in times)
        raise ValueError(f"time={time!r} is not one of the landscape, which has {known}; run sj.tl.landscape for it.")
    return at


def _draw_tree(
    axes: Axes,
    low: Array,
    between: NDArray[np.int64],
    heights: Array,
    supported: NDArray[np.bool_],
    look: dict[str, Any],
) -> Array:
    """The tree that wells form as passes are flooded from the lowest up; gives the place of each well along x."""
    groups: dict[int, list[int]] = {k: [k] for k in range(len(low))}
    joins: list[tuple[list[int], list[int], float, bool]] = []
    member = np.arange(len(low))
    for row in np.argsort(heights, kind="stable"):
        a, b = (int(member[k]) for k in between[row])
        if a != b:
            joins.append((groups[a], groups[b], float(heights[row]), bool(supported[row])))
            groups[a] = groups[a] + groups.pop(b)
            member[groups[a]] = a
    order = [k for group in groups.values() for k in group]
    place = np.empty(len(low))
    place[order] = np.arange(len(low))
    stem: dict[tuple[int, ...], tuple[float, float]] = {(k,): (float(place[k]), float(low[k])) for k in range(len(low))}
    for one, other, height, sure in joins:
        (x0, y0), (x1, y1) = stem[tuple(one)], stem[tuple(other)]
        axes.plot([x0, x0, x1, x1], [y0, height, height, y1], **{**look, "linestyle": "-" if sure else "--"})
        stem[tuple(one + other)] = ((x0 + x1) / 2, height)
    return place
