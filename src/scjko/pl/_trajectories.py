from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from ..core.timeline import time_text
from ..edge.checks import check_integer
from ..edge.fitted import fitted_cells
from ._canvas import Drawn, colour_bar, finish, single, xy
from ._frame import asked_times, frame
from ._surface import fill, nice_levels, whole_course


def trajectories(
    adata: AnnData,
    n_cells: int = 60,
    components: tuple[int, int] | str = (1, 2),
    *,
    start: float | str | None = None,
    stop: float | str | None = None,
    key: str = "jko",
    random_state: int = 0,
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Simulated ways of cells through time, over the landscape of the whole course.

    The landscape is the potential of every observed cell at its own time, interpolated between cells. Cells move along
    straight lines from one time point to the next.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    n_cells
        The number of cells to follow, chosen at random.
    components
        The two fitted components to draw, counted from one.
    start
        The time point whose cells are followed; the first by default.
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
        Further options of :class:`matplotlib.collections.LineCollection`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", epochs=20, progress=False)
    >>> sj.pl.trajectories(adata, n_cells=10, show=False).get_title()
    'day 0 to day 7'
    """
    seen = fitted_cells(adata, key)
    check_integer("n_cells", n_cells)
    there = seen.energy.times
    first, last = asked_times(seen, [there[0] if start is None else start, there[-1] if stop is None else stop])
    if first not in there or first >= last:
        raise ValueError(
            f"start={time_text(first)} must be a time point with cells, and before stop={time_text(last)}."
        )
    plane = frame(seen, None, components)
    times = np.unique(np.concatenate([there[(there > first) & (there < last)], np.linspace(first, last, 50)]))
    here = np.flatnonzero(seen.times == first)
    chosen = np.random.default_rng(random_state).choice(here, min(n_cells, len(here)), replace=False)
    paths = seen.energy.simulate(seen.coordinates[chosen], times, random_state=random_state)[..., plane.columns]

    axes = single(ax, size=(4.2, 3.3))
    surface = whole_course(plane)
    fill(axes, surface, nice_levels([surface], 16), fade=True, cmap="Greys_r", alpha=0.5)
    pieces = np.stack([paths[:-1], paths[1:]], axis=2)  # (time, cell, end, component)
    look: dict[str, Any] = {"cmap": "plasma", "linewidths": 0.9, "zorder": 2}
    lines = LineCollection(list(pieces.reshape(-1, 2, 2)), **look | kwargs)
    lines.set_array(np.repeat((times[:-1] + times[1:]) / 2, len(chosen)))
    lines.set_clim(first, last)
    axes.add_collection(lines)
    axes.scatter(*xy(paths[-1]), s=7, color="black", linewidths=0, zorder=3)
    colour_bar(lines, [axes], seen.time_key, pad=0.02)
    title = f"{plane.title(first)} to {plane.title(last)}"
    plane.dress(axes, title)
    low, high = paths.min(axis=(0, 1)), paths.max(axis=(0, 1))
    (left, right), (bottom, top) = plane.limits
    axes.set(xlim=(min(left, low[0]), max(right, high[0])), ylim=(min(bottom, low[1]), max(top, high[1])))
    return finish([axes], ours=ax is None, show=show, return_fig=return_fig)
