from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from anndata.utils import make_index_unique

from ..core.energy.energy import Energy
from ..core.motion.interpolation import Interpolated, best_strength, between, forecast_from, towards_observed
from ..core.timeline import time_text
from ..edge.checks import check_integer
from ..edge.diagnosis import warn_of_untrusted
from ..edge.fitted import fitted_cells
from ..edge.keys import Keys
from ..edge.snapshots import Snapshots
from ..edge.validation.folds import clouds


def interpolate(
    adata: AnnData,
    times: float | str | Iterable[float | str],
    *,
    density_prior: float | str | None = "auto",
    forecast: bool = True,
    key: str = "jko",
    random_state: int = 0,
) -> AnnData:
    """Cells at times that were not measured.

    Between two time points, the earlier cells are moved forward, the later cells back, and both are pooled. The nearer
    time point weighs more.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`, with ``scheme="both"`` or ``"implicit"``: an explicit
        fit has no step back.
    times
        One time or several, as numbers, or as labels of the time column where they are measured.
    density_prior
        Straight lines cut through regions without cells. A number from 0 to 1 moves every cell by that fraction towards
        a random one of its 30 nearest observed cells. ``"auto"`` chooses it by leaving out measured time points in
        turn, never using the requested time; with fewer than three of them it is 0. ``None`` is 0. Cells at measured
        times and forecasts are not pulled.
    forecast
        Whether times beyond the last time point are allowed. They are forecast by the field at the last one.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the neighbours, and of the noise if the energy has any.

    Returns
    -------
    A new AnnData of interpolated cells with

    ``obsm["X_jko"]``
        Their coordinates.
    ``obs[time_key]``
        The time they are interpolated at.
    ``obs["jko_weight"]``
        The weight of each cell; weights sum to one at each time.
    ``obs["jko_side"]``
        ``"before"`` or ``"after"``: whether the cell was observed before or after the requested time.
    ``obs["jko_source"]``, ``obs["jko_source_time"]``
        The observed cell that was moved, and its time.
    ``obs["jko_forecast"]``
        Whether the time lies beyond the last snapshot of the fit.
    ``obs["jko_converged"]``
        Whether the position can be trusted: the step was solved and stayed in the range of the data.

    ``uns["jko_interpolation"]`` holds the ``density_prior`` used.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> between = sj.tl.interpolate(adata, 3)
    >>> between.obs["jko_side"].unique().tolist()
    ['before', 'after']
    """
    cells = fitted_cells(adata, key)
    check_integer("random_state", random_state, minimum=0)
    wanted = list(dict.fromkeys(cells.asked_times(times)))  # a time that is named twice is one
    energy, snapshots = cells.energy, cells.snapshots
    _check_range(wanted, energy, forecast)
    if not np.array_equal(snapshots.times, energy.times):
        raise ValueError(
            f"adata has the time points {_listed(snapshots.times)}, and the fit those at {_listed(energy.times)}; "
            "interpolation needs the cells of every time point that was fitted."
        )
    strength = _strength(density_prior, snapshots, random_state)
    parts = [_at(energy, snapshots, time, strength, random_state) for time in wanted]
    made = _assemble(parts, wanted, snapshots, energy, adata.obs_names, cells.keys, cells.time_key)
    warn_of_untrusted(made.obs[cells.keys.converged].to_numpy(), cells.keys.converged)
    made.uns[f"{key}_interpolation"] = {"density_prior": strength}
    return made


def _check_range(times: list[float], energy: Energy, forecast: bool) -> None:
    first, last = energy.times[[0, -1]]
    early, late = [t for t in times if t < first], [t for t in times if t > last]
    if early:
        raise ValueError(
            f"times={_listed(early)} lie before the first time point ({time_text(first)}), where nothing is known."
        )
    if late and not forecast:
        raise ValueError(
            f"times={_listed(late)} lie beyond the last time point ({time_text(last)}); forecast=True would forecast "
            "them."
        )
    energy.announce_forecast(late)


def _listed(times: Iterable[float]) -> str:
    return ", ".join(map(time_text, times))


def _strength(density_prior: Any, snapshots: Snapshots, random_state: int) -> float:
    if density_prior is None:
        return 0.0
    if isinstance(density_prior, str) and density_prior == "auto":
        return best_strength(clouds(snapshots), snapshots.times, random_state)
    if not isinstance(density_prior, Real) or isinstance(density_prior, bool) or not 0 <= float(density_prior) <= 1:
        raise ValueError(f"density_prior={density_prior!r} must be a number from 0 to 1, 'auto' or None.")
    return float(density_prior)


def _at(energy: Energy, snapshots: Snapshots, time: float, strength: float, seed: int) -> Interpolated:
    known = clouds(snapshots)
    if time > energy.times[-1]:
        return forecast_from(energy, known[-1], energy.times[-1], time, seed)
    k = energy.timeline.containing(time)
    found = between(energy, known[k], known[k + 1], (energy.times[k], energy.times[k + 1]), time, seed)
    if strength > 0 and time not in energy.times:
        observed = snapshots.coordinates[snapshots.cell_weights > 0]
        pulled = towards_observed(found.cloud.points, observed, strength, seed)
        found = found._replace(cloud=found.cloud._replace(points=pulled))
    return found


def _assemble(
    parts: list[Interpolated],
    times: list[float],
    snapshots: Snapshots,
    energy: Energy,
    names: pd.Index,
    keys: Keys,
    time_key: str,
) -> AnnData:
    frames, points = [], []
    starts = np.cumsum(snapshots.sizes) - snapshots.sizes
    for found, time in zip(parts, times, strict=True):
        snapshot = np.where(
            time > energy.times[-1], len(energy.times) - 1, energy.timeline.containing(time) + found.side
        )
        kept = found.cloud.weight > 0  # at a measured time the other side has none
        frames.append(
            pd.DataFrame(
                {
                    time_key: time,
                    keys.source: names[snapshots.rows[starts[snapshot] + found.source]].astype(str),
                    keys.source_time: energy.times[snapshot],
                    keys.side: np.where(energy.times[snapshot] <= time, "before", "after"),
                    keys.weight: found.cloud.weight,
                    keys.forecast: time > energy.times[-1],
                    keys.converged: found.converged,
                }
            )[kept]
        )
        points.append(found.cloud.points[kept])
    obs = pd.concat(frames, ignore_index=True)
    labels = [f"{name}-{time_text(t)}" for name, t in zip(obs[keys.source], obs[time_key], strict=True)]
    obs.index = make_index_unique(pd.Index(labels))
    return AnnData(obs=obs, obsm={keys.coordinates: np.concatenate(points)})
