from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from ..core.timeline import time_text
from ..core.transport import Coupling
from ..edge.checks import check_integer
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.fitting import EXACT
from ._canvas import OBSERVED, PREDICTED, Drawn, dots, key_beside, shade, xy
from ._frame import frame
from ._options import merged
from ._page import open_page
from ._times import texts, times_with_cells

#: Cells of a snapshot that are coupled for a picture, which shows some hundred pairs: that takes a second.
MOST = 1000


def couplings(
    adata: AnnData,
    times: float | str | Iterable[float | str] | None = None,
    components: tuple[int, int] | str = (1, 2),
    *,
    n_pairs: int = 200,
    key: str = "jko",
    random_state: int = 0,
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Which cells the transport plans of a fit couple, one panel for each interval.

    A fit keeps a summary of its couplings only; they are solved anew, by the same solver and seed. Those that are not
    exact say how far above the optimum their cost can be at most, and partial ones how much of the mass has no partner.
    Snapshots of more than 1000 cells are thinned to as many cells drawn at random before they are coupled; the panel
    says so.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    times
        The time points at which the intervals to draw start; all by default.
    components
        The two fitted components to draw, counted from one.
    n_pairs
        Coupled pairs to draw in each panel, chosen at random by their weight.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of that choice.
    ax
        Axes to draw on, one for each panel; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :class:`matplotlib.collections.LineCollection`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes, a list if there are several.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> axes = sj.pl.couplings(adata, times=1, show=False)
    >>> axes.get_title()
    'day 1 to day 2'
    """
    page = open_page(couplings, (ax, show, return_fig), kwargs, LineCollection)
    seen = fitted_cells(adata, key)
    check_integer("n_pairs", n_pairs)
    check_integer("random_state", random_state, minimum=0)
    _check_whole(seen)
    plane, points = frame(seen, None, components), seen.snapshots.points
    chosen = _intervals(seen, times)
    solved = [seen.thinned_coupling(k, MOST, random_state) for k in chosen]
    rng = np.random.default_rng(random_state)
    drawn = page.panels(len(chosen))
    for axes, k, (coupling, rows) in zip(drawn, chosen, solved, strict=True):
        weight = np.asarray(coupling.weight, dtype=np.float64)
        n_drawn = min(n_pairs, int(np.sum(weight > 0)))
        pairs = rng.choice(len(weight), n_drawn, replace=False, p=weight / weight.sum())
        before, after = (p[:, plane.columns] for p in (points[k], points[k + 1]))
        ends = before[rows[0][coupling.source[pairs]]], after[rows[1][coupling.target[pairs]]]
        lines = np.stack(ends, axis=1)
        look: dict[str, Any] = {"colors": [shade(axes, 0.6)], "linewidths": 0.5, "alpha": 0.7, "zorder": 2}
        size = dots(axes, 2 * (len(before) + len(after)))
        axes.scatter(*xy(before), color=OBSERVED, label="from", zorder=1, **size)
        axes.scatter(*xy(after), color=PREDICTED, label="to", zorder=1, **size)
        axes.add_collection(LineCollection(list(lines), **merged(look, kwargs, LineCollection)))
        title = " to ".join(plane.title(t) for t in seen.energy.times[k : k + 2])
        plane.dress(axes, title)
        small: dict[str, Any] = {"ha": "center", "va": "top", "fontsize": 6.5, "color": shade(axes, 0.7)}
        if note := _note(
            coupling, max(len(before), len(after)) > MOST
        ):  # below the label of the axis, where no cells are
            axes.annotate(note, (0.5, -0.2), xycoords=axes.xaxis.label, **small)
    key_beside(drawn[-1])
    return page.finish(drawn)


def _note(coupling: Coupling, thinned: bool) -> str:
    """What is to be known of a coupling, a line each."""
    lines = [f"plan of {MOST} cells of each time"] if thinned else []
    if coupling.dropped > 0:
        lines.append(f"{100 * coupling.dropped:.2g} % uncoupled")
    if coupling.bound is not None and coupling.bound > EXACT:
        lines.append(f"at most {100 * coupling.bound:.2g} % above the optimum")
    return "\n".join(lines)


def _check_whole(cells: FittedCells) -> None:
    """Raise unless there are cells of every time point: couplings are solved anew, from all cells of the fit."""
    missing = np.setdiff1d(cells.energy.times, times_with_cells(cells))
    if len(missing):
        raise ValueError(
            f"adata has no cells of {texts(missing)}, which were fitted; couplings are those of all fitted cells. Pass "
            "the whole AnnData, and choose the intervals with times=..."
        )


def _intervals(cells: FittedCells, times: Any) -> list[int]:
    """The intervals that start at these time points."""
    starts = cells.energy.times[:-1]
    if times is None:
        return list(range(len(starts)))
    wanted = cells.asked_times(times)
    if any(t not in starts for t in wanted):
        raise ValueError(
            f"times={times!r} must name time points at which an interval starts: {', '.join(map(time_text, starts))}."
        )
    return [int(np.flatnonzero(starts == t)[0]) for t in wanted]
