from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from scipy.interpolate import PchipInterpolator

from ..core.timeline import time_text
from ..edge.checks import check_integer
from ..edge.fitted import FittedCells, fitted_cells
from ._canvas import Drawn, colour_bar, greys, ink, xy
from ._cells import draw_cells
from ._frame import frame
from ._marks import placed
from ._options import listed, merged
from ._page import open_page
from ._surface import fill, nice_levels, whole_course
from ._times import check_fitted_range, texts, times_with_cells


def trajectories(
    adata: AnnData,
    n_cells: int = 60,
    components: tuple[int, int] | str = (1, 2),
    *,
    basis: str | None = None,
    cells: bool = True,
    start: float | str | None = None,
    stop: float | str | None = None,
    key: str = "jko",
    random_state: int = 0,
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Simulated trajectories of cells, over the landscape of the whole course.

    The landscape is the potential of every observed cell at its own time, interpolated between cells. Cells are
    simulated from time point to time point, and a smooth curve that does not overshoot joins where they come to.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    n_cells
        The number of cells to follow, chosen at random.
    components
        The two components to draw, counted from one.
    basis
        An embedding to draw on, such as ``"umap"``, in place of the fitted coordinates. A simulated cell is drawn
        where its nearest measured cells of that time are.
    cells
        Whether to draw the measured cells, faintly.
    start
        The time point whose cells are followed; by default the first that has cells in ``adata``.
    stop
        The time until which they are followed; that of the last snapshot by default.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the choice of cells, and of the noise if the energy has any.
    ax
        Axes to draw on; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :class:`matplotlib.collections.LineCollection`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.pl.trajectories(adata, n_cells=10, show=False).get_title()
    'day 0 to day 7'
    """
    page = open_page(trajectories, (ax, show, return_fig), kwargs, LineCollection)
    seen = fitted_cells(adata, key)
    check_integer("n_cells", n_cells)
    check_integer("random_state", random_state, minimum=0)
    there, (first, last) = seen.energy.times, _span(seen, start, stop)
    plane = frame(seen, basis, components)
    knots = np.concatenate([[first], there[(there > first) & (there < last)], [last]])
    times = np.unique(np.concatenate([knots, np.linspace(first, last, 120)]))
    here = np.flatnonzero(seen.times == first)
    chosen = np.random.default_rng(random_state).choice(here, min(n_cells, len(here)), replace=False)
    moved = seen.energy.simulate(seen.coordinates[chosen], knots, random_state=random_state)
    at = np.stack([placed(plane, x, time) for x, time in zip(moved, knots, strict=True)])
    paths = PchipInterpolator(knots, at)(times)  # (time, cell, component)

    axes = page.single(size=(4.2, 3.3))
    surface = whole_course(plane)
    fill(axes, surface, nice_levels([surface], 16), fade=True, cmap=greys(axes))
    pieces = np.stack([paths[:-1], paths[1:]], axis=2)  # (time, cell, end, component)
    if cells:
        draw_cells(axes, plane, np.arange(adata.n_obs), None, {"alpha": 0.15})
    look: dict[str, Any] = {"cmap": "plasma", "linewidths": 0.9, "zorder": 2, "capstyle": "round"}
    lines = LineCollection(list(pieces.reshape(-1, 2, 2)), **merged(look, kwargs, LineCollection))
    lines.set_array(np.repeat((times[:-1] + times[1:]) / 2, len(chosen)))
    lines.set_clim(first, last)
    axes.add_collection(lines)
    axes.scatter(*xy(paths[-1]), s=7, color=ink(axes), linewidths=0, zorder=3)
    colour_bar(lines, [axes], seen.time_key, pad=0.02)
    title = f"{plane.title(first)} to {plane.title(last)}"
    plane.dress(axes, title)
    low, high = paths.min(axis=(0, 1)), paths.max(axis=(0, 1))
    (left, right), (bottom, top) = plane.limits
    axes.set(xlim=(min(left, low[0]), max(right, high[0])), ylim=(min(bottom, low[1]), max(top, high[1])))
    return page.finish([axes])


def _span(cells: FittedCells, start: Any, stop: Any) -> tuple[float, float]:
    """The time whose cells are followed, and that until which they are."""
    present = times_with_cells(cells)
    first = float(present[0]) if start is None else cells.time("start", start)
    last = float(cells.energy.times[-1]) if stop is None else cells.time("stop", stop)
    check_fitted_range(cells, "start", [first])
    check_fitted_range(cells, "stop", [last])
    if first not in present:
        raise ValueError(f"start={time_text(first)} is no time point with cells; adata has cells of {texts(present)}.")
    if first >= last:
        earlier = cells.energy.times[cells.energy.times < last]
        remedy = f"start at cells of {listed(map(time_text, earlier), 'or')}" if len(earlier) else "set a later stop"
        raise ValueError(
            f"start={time_text(first)} is not before stop={time_text(last)}: these cells have no later time to go to; "
            f"{remedy}. adata has cells of {texts(present)}."
        )
    return first, last
