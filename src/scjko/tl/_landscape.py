from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.landscape.action import STEPS, least_action
from ..core.landscape.chart import chart
from ..core.landscape.tracks import tracked
from ..core.timeline import time_text
from ..edge.checks import check_bool, check_fraction, check_integer, check_writable
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.landscape import (
    Charted,
    cells_around,
    names_of,
    relief_of,
    say_how_heights_compare,
    tested,
)
from ..edge.logging import logger
from ..edge.observed import compared, observed_velocity
from ..edge.snapshots import obs_column
from ..edge.storage.fields import write_fields


def landscape(
    adata: AnnData,
    time: float | str | Iterable[float | str] | None = None,
    *,
    cluster_key: str | None = None,
    support: float = 0.99,
    min_barrier: float = 0.1,
    paths: bool = True,
    test_gradient: bool = False,
    velocity_key: str | None = None,
    key: str = "jko",
    random_state: int = 0,
    copy: bool = False,
) -> AnnData | None:
    """Wells of the fitted potential, the saddles and barriers between them, and the basin of every cell.

    At each time the steepest slope from cell to cell leads down to the lowest cell of a basin, from which Newton's
    method finds the well. Between two basins that touch, the string method finds the path of least energy, and Newton's
    method the saddle on it. The barrier of a pair of wells is the lowest pass between them, whatever lies in between.
    Wells are followed from time to time, so that one knows when they appear, split, merge and vanish.

    Heights of wells of one time can be compared with a default fit, which leaves out what proportions of fates differ
    by chance, and with ``growth="auto"``. How much deeper one well is than another needs ``time_varying=False``. A log
    line says how far heights are from the dual potentials of the couplings, an independent estimate.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    time
        The time of the landscape, or several, measured or between. Defaults to all time points with cells.
    cluster_key
        Column of ``adata.obs`` with cell types. A well gets the name of the type of most of its cells.
    support
        Where the landscape is trusted: within the distance to the fifth neighbour that this fraction of the cells has.
        Saddles and barriers elsewhere are marked.
    min_barrier
        Wells divided by less than this fraction of the range of V over the cells (2 to 98 %) are merged. Without noise,
        0.01 is enough.
    paths
        Whether to find, for the last of the times, the path of least action to each well from the mean of the first
        snapshot.
    test_gradient
        Whether to test if one potential explains the motion, against 19 courses simulated by its flow, of at most 200
        cells a time point. A potential cannot explain cells that rotate.
    velocity_key
        Field of ``adata.obsm`` with an observed velocity of every cell, such as RNA velocity, in the representation
        that was fitted. It is compared with the fitted velocity, and with the best potential.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of both comparisons.
    copy
        Whether to return a copy instead of writing into ``adata``.

    Returns
    -------
    ``None``, or with ``copy=True`` the AnnData, with these fields (for ``key="jko"``):

    ``obs["jko_basin"]``
        The well that each cell rolls into at its own time (categorical; missing if its basin has very few cells, or
        if its time was not requested).
    ``uns["jko_landscape"]``
        Columns of equal length in groups, ``position`` in units of ``X_jko`` and ``height`` in units of the potential.
        ``error`` is the standard deviation over the members of the energy, NaN if it has none.

        - ``wells``: ``time``, ``track`` (one number for a well at all times), ``name``, ``position``, ``height``,
          ``error``, ``curvature`` (eigenvalues of the Hessian), ``solved`` (whether the slope is zero there; elsewhere
          it is a cell that 5 % of the basin are below), ``resting`` (whether cells come to rest there; elsewhere V
          falls on beyond the last cell, and the well is where cells are headed), ``n_cells``.
        - ``saddles``: ``time``, ``wells`` (the two rows of ``wells``), ``position``, ``height``, ``error``,
          ``curvature``, ``supported`` (whether cells are there), ``solved`` (whether the slope is zero; elsewhere it is
          the highest point of the path), ``path`` (from the first well to the second).
        - ``barriers``: for ordered pairs of wells of one time ``time``, ``from`` and ``to`` (rows of ``wells``),
          ``height`` above the first of them, ``error``, ``supported``.
        - ``events``: ``kind`` (``"appears"``, ``"splits"``, ``"merges"``, ``"vanishes"``), ``well``, the ``other``
          well of a split or merger, and the times that it lies between, ``after`` and ``before``.
        - ``actions``: ``well`` (row of ``wells``), ``action`` (½ ∫ ‖ẋ + ∇V‖² dt, zero for cells that follow −∇V),
          ``time`` and ``path``.
        - ``gradient``, if it was tested: ``explained``, the fraction of the squared displacement that one potential for
          all times explains; ``expected``, the same for simulated courses; their ``noise`` (β); ``p_value``; and
          ``follows``, the verdict.
        - ``velocity``, with ``velocity_key``: for each ``time`` with 40 cells or more the mean ``cosine`` of fitted and
          observed velocities, the same ``shuffled`` among cells, the fraction of observed velocities ``explained`` by
          those of neighbours, and ``curl``, the fraction of that which no potential has.
        - ``times`` and ``params``.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.tl.landscape(adata, time=7)
    >>> sorted(adata.uns["jko_landscape"])
    ['actions', 'barriers', 'events', 'params', 'saddles', 'times', 'wells']
    """
    check_writable(adata, copy)
    check_fraction("support", support)
    check_fraction("min_barrier", min_barrier)
    check_bool("paths", paths)
    check_bool("test_gradient", test_gradient)
    check_integer("random_state", random_state, minimum=0)
    check_bool("copy", copy)
    cells = fitted_cells(adata, key)
    groups = None if cluster_key is None else obs_column(adata, "cluster_key", cluster_key)
    times = _times(cells, time)
    velocity = None if velocity_key is None else observed_velocity(cells, velocity_key)
    _say_what_is_shown(cells)
    say_how_heights_compare(cells)
    gradient = tested(cells, random_state) if test_gradient else None
    against = None if velocity is None else compared(cells, times, velocity, random_state)
    rows = [_rows(cells, t) for t in times]
    found = [cells.coordinates[own].astype(np.float64) for own in rows]
    reliefs = [relief_of(cells.energy, t, x) for t, x in zip(times, found, strict=True)]
    options = {"support": support, "shallow": min_barrier}
    charts = [chart(relief, x, **options) for relief, x in zip(reliefs, found, strict=True)]
    charted = Charted(cells.energy, np.array(times), charts, rows, tracked(charts))
    names = names_of(charted, adata, groups)
    stored = charted.to_uns(names)
    stored["actions"] = _actions(cells, charted, paths)
    if gradient is not None:
        stored["gradient"] = gradient
    if against is not None:
        stored["velocity"] = against
    named = {"cluster_key": cluster_key, "velocity_key": velocity_key}
    told = {name: value for name, value in named.items() if value is not None}
    stored["params"] = {"support": support, "min_barrier": min_barrier, **told}
    _report(charted)
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    fields = {cells.keys.basin: _basins(cells, charted, names)}
    write_fields(adata, obs=fields, uns={cells.keys.landscape: stored})
    return adata if copy else None


def _times(cells: FittedCells, time: Any) -> list[float]:
    """The times requested in increasing order, by default all with cells."""
    if time is None:
        return [float(t) for t in np.intersect1d(cells.energy.times, cells.times)]
    first, last = cells.energy.times[[0, -1]]
    asked = sorted(set(cells.asked_times(time)))
    outside = [t for t in asked if not first <= t <= last]
    if outside:
        raise ValueError(
            f"time has {', '.join(map(time_text, outside))}, but the fit covers {time_text(first)} to "
            f"{time_text(last)}; stay within these."
        )
    return asked


def _rows(cells: FittedCells, time: float) -> NDArray[np.int64]:
    """The cells around a time, if there are enough to find wells among them."""
    rows = cells_around(cells, time)
    n_dims = cells.energy.n_dims
    if len(rows) <= n_dims:
        raise ValueError(
            f"There are {len(rows)} cells around time {time_text(time)} and {n_dims} dimensions; wells are not "
            "determined by fewer cells than dimensions. Fit fewer components (n_pcs), or name another time."
        )
    return rows


def _say_what_is_shown(cells: FittedCells) -> None:
    others = [term for term in cells.energy.terms if term != "potential"]
    if "interaction" in others:
        logger.warning(
            "This energy has an interaction: cells also move by each other, and what they move in changes with the "
            "population. Wells and barriers are those of the potential V alone."
        )


def _actions(cells: FittedCells, charted: Charted, wanted: bool) -> dict[str, Any]:
    """The paths of least action from the first snapshot to the wells of the last time."""
    energy, t0, t1 = cells.energy, float(cells.energy.times[0]), float(charted.times[-1])
    wells = charted.charts[-1].wells.points if wanted and t1 > t0 else np.zeros((0, energy.n_dims))
    start = cells.coordinates[cells_around(cells, t0)].mean(axis=0).astype(np.float64)
    found = [least_action(energy.gradient, energy.hessian, start, well, t0, t1) for well in wells]
    first = sum(len(chart.wells.heights) for chart in charted.charts[:-1])
    return {
        "well": first + np.arange(len(found)),
        "action": np.array([own.action for own in found]),
        "time": found[0].times if found else np.zeros(0),
        "path": np.array([own.points for own in found]).reshape(len(found), STEPS + 1, energy.n_dims),
    }


def _basins(cells: FittedCells, charted: Charted, names: list[str]) -> pd.Categorical:
    code = np.full(len(cells.times), -1)
    for own, time, rows, track in zip(charted.charts, charted.times, charted.rows, charted.tracks.numbers, strict=True):
        here = cells.times[rows] == time
        code[rows[here]] = np.where(own.basin >= 0, np.append(track, -1)[own.basin], -1)[here]
    return pd.Categorical.from_codes(code.tolist(), categories=pd.Index(names, dtype=object))


def _report(charted: Charted) -> None:
    """Say how many wells there are, and what is not known of them."""
    for time, own in zip(charted.times, charted.charts, strict=True):
        n, at = len(own.wells.heights), time_text(time)
        if n == 0:
            logger.warning("The landscape at %s has no well: no basin has more than a few cells.", at)
            continue
        bare = int((~own.saddles.supported).sum())
        found = f"{n} wells; {bare} of {len(own.saddles.heights)} saddles are where no cell is"
        logger.info("The landscape at %s has %s.", at, "one well, and no barrier" if n == 1 else found)
        if not own.wells.resting.any():
            logger.info(
                "Cells do not rest in any well at %s: V falls on beyond the last cell of every basin. Wells are where "
                "cells are headed, and as deep as cells have come.",
                at,
            )
