from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from numpy.typing import NDArray

from ..edge.checks import check_option
from ..edge.fitted import FittedCells, fitted_cells
from ..tl import interpolate
from ._canvas import (
    FORECAST,
    INTERPOLATED,
    OBSERVED,
    PREDICTED,
    Drawn,
    dots,
    key_beside,
    time_colours,
    xy,
)
from ._frame import Frame, frame
from ._options import merged
from ._page import open_page
from ._times import keep_drawable, times_with_cells

KINDS = ("both", "observed", "predicted")


def predictions(
    adata: AnnData,
    times: float | str | Iterable[float | str] | None = None,
    components: tuple[int, int] | str = (1, 2),
    *,
    kind: str = "both",
    superimpose: bool = False,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    r"""Observed cells and those the energy predicts, one panel for each time.

    At a measured time the prediction is that of the cells measured before it, one step ahead. At a time between two
    measured ones there are interpolated cells only (:func:`scjko.tl.interpolate`), and beyond the last a forecast.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    times
        The times to draw; by default those of the snapshots for which ``adata`` has cells to draw.
    components
        The two fitted components to draw, counted from one.
    kind
        What to draw at measured times: ``"observed"`` or ``"predicted"`` cells, or ``"both"``.
    superimpose
        Whether to draw all times into one panel, in a colour for each time: dots are observed, crosses predicted.
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
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> panels = sj.pl.predictions(adata, times=[2, 3, 4], show=False)
    >>> [axes.get_title() for axes in panels]
    ['day 2', 'day 3\ninterpolated', 'day 4']
    """
    page = open_page(
        predictions, (ax, show, return_fig), kwargs, Axes.scatter, PathCollection, but=("norm", "vmin", "vmax")
    )
    cmap = _of_times(kwargs, superimpose)
    seen = fitted_cells(adata, key)
    check_option("kind", kind, KINDS)
    times_with_cells(seen)  # some, or an error
    wanted = seen.asked_times(seen.energy.times if times is None else times)
    plane = frame(seen, None, components)
    made = _between(seen, [time for time in wanted if time not in seen.energy.times], plane.columns)
    found = {time: made[time] if time in made else _measured(seen, time, kind, plane.columns) for time in wanted}
    wanted = keep_drawable(seen, wanted, [found[t] for t in wanted], argument=None if times is None else "times")
    clouds = [found[time] for time in wanted]
    drawn = [page.single(size=(4.4, 3.2))] if superimpose else page.panels(len(wanted))
    at = drawn * len(wanted) if superimpose else drawn
    colours = time_colours(len(wanted), drawn[0], cmap) if superimpose else [None] * len(wanted)
    for axes, time, cloud, colour in zip(at, wanted, clouds, colours, strict=True):
        for name, points in cloud.items():
            _dots(axes, name, points, colour, plane.title(time) if superimpose else None, kwargs)
        title = _title(plane, time, cloud)
        plane.dress(axes, "" if superimpose else title)
    low, high = _limits(plane, [points for cloud in clouds for points in cloud.values()])
    for axes in drawn:
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]))
    if superimpose:
        key_beside(drawn[0], fontsize=7)
    elif any(len(cloud) > 1 for cloud in clouds):
        # Beside the last panel, with a handle for each kind of cells there is.
        handles = {h.get_label(): h for axes in drawn for h in axes.collections}
        key_beside(drawn[-1], handles=list(handles.values()))
    return page.finish(drawn)


Clouds = dict[str, NDArray[np.floating]]
"""The cells to draw at one time, by what they are."""


def _between(cells: FittedCells, times: list[float], columns: tuple[int, int]) -> dict[float, Clouds]:
    """Cells at times that were not measured."""
    if not times:
        return {}
    made = interpolate(cells.adata, times, genes=False, key=cells.keys.key)
    when, points = made.obs[cells.time_key].to_numpy(), made.obsm[cells.keys.coordinates][:, columns]
    names = {time: "forecast" if time > cells.energy.times[-1] else "interpolated" for time in times}
    return {time: {name: points[when == time]} for time, name in names.items()}


def _measured(cells: FittedCells, time: float, kind: str, columns: tuple[int, int]) -> Clouds:
    """Cells at a time that was measured, and those of the time before moved there; nothing where there are none."""
    earlier = cells.energy.times[cells.energy.times < time]
    found = {"observed": cells.coordinates[cells.times == time][:, columns]}
    if np.isin(earlier[-1:], cells.times).any():
        moved = cells.energy.step(cells.coordinates[cells.times == earlier[-1]], earlier[-1], time)
        found["predicted"] = moved[:, columns]
    # At the first time nothing can be predicted: the cells that were observed stand in.
    kinds = KINDS if kind == "both" or not len(earlier) else (kind,)
    return {name: points for name, points in found.items() if name in kinds and len(points)}


def _of_times(options: dict[str, Any], superimpose: bool) -> Any:
    """The colour map of times, which only one panel for all has."""
    if "cmap" in options and not superimpose:
        raise ValueError("cmap is that of times in one panel, superimpose=True; here color sets the colour of cells.")
    return options.pop("cmap", None) or "viridis"


def _dots(
    axes: Axes, name: str, points: NDArray[np.floating], colour: Any, when: str | None, options: dict[str, Any]
) -> None:
    of_kind = {"observed": OBSERVED, "predicted": PREDICTED, "interpolated": INTERPOLATED, "forecast": FORECAST}
    crosses = name != "observed"
    look: dict[str, Any] = {
        **dots(axes, len(points)),
        "color": colour or of_kind[name],
        "marker": "x" if crosses and colour else "o",
        "linewidths": 0.5 if crosses and colour else 0,
        "alpha": 0.6,
        "label": name if when is None else f"{when}, {name}",
    }
    axes.scatter(*xy(points), **merged(look, options, PathCollection))


def _title(plane: Frame, time: float, cloud: dict[str, Any]) -> str:
    (first, *_) = cloud
    return plane.title(time) if first in ("observed", "predicted") else f"{plane.title(time)}\n{first}"


def _limits(plane: Frame, clouds: list[NDArray[np.floating]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The range of the cells, and of what is drawn where it leaves it."""
    (left, right), (bottom, top) = plane.limits
    everything = np.concatenate(clouds)
    low = np.minimum(everything.min(axis=0), (left, bottom))
    return low, np.maximum(everything.max(axis=0), (right, top))
