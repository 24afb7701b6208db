from __future__ import annotations

from collections.abc import Iterable
from numbers import Real
from typing import Any, Literal

import numpy as np
import pandas as pd
from anndata import AnnData
from anndata.utils import make_index_unique
from numpy.typing import NDArray

from ..core.energy.energy import Energy
from ..core.motion.interpolation import Interpolated, Rule, best_rule, between, forecast_from, towards_observed
from ..core.timeline import time_text
from ..edge.checks import check_integer
from ..edge.diagnosis import warn_of_untrusted
from ..edge.fitted import fitted_cells
from ..edge.keys import Keys
from ..edge.predicted import described
from ..edge.snapshots import Snapshots
from ..edge.validation.folds import clouds


def interpolate(
    adata: AnnData,
    times: float | str | Iterable[float | str],
    *,
    density_prior: float | Literal["auto"] | None = "auto",
    asynchrony: float | Literal["auto"] | None = "auto",
    forecast: bool = True,
    genes: bool | None = None,
    key: str = "jko",
    random_state: int = 0,
) -> AnnData:
    """Cells at times that were not measured.

    Between two time points, the earlier cells are moved forward, the later cells back, and both are pooled. The nearer
    time point weighs more, and so does the one with more cells.

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
    asynchrony
        How far cells are ahead or behind along their paths: 0 if all have come equally far, 1 if each is where one of
        the two time points saw it. The fraction of the path follows a beta distribution around that of the time, whose
        variance is this fraction of the largest. ``"auto"`` chooses it as the density prior; with fewer than three time
        points it is 0.2. ``None`` is 0.
    forecast
        Whether times beyond the last time point are allowed. They are forecast by the field at the last one.
    genes
        Whether the cells come with genes, dense in ``X``, through the loadings of the PCA. By default they do where
        there are loadings and ``X`` would have at most 20 million numbers.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the neighbours, and of the noise if the energy has any.

    Returns
    -------
    A new AnnData of interpolated cells, with the columns of ``obs`` that their source cells have, and

    ``obsm["X_jko"]``
        Their coordinates.
    ``X``, ``uns["jko"]``
        With ``genes``: the expression of each gene, in units of the ``X`` that the PCA was computed from, and the fit,
        so that :func:`scjko.tl.project_genes` and :func:`scjko.get.energy` take these cells too.
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

    ``uns["jko_interpolation"]`` holds the ``density_prior`` and the ``asynchrony`` used.

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
    rule = _rule(density_prior, asynchrony, snapshots, random_state)
    parts = [_at(energy, snapshots, time, rule, random_state) for time in wanted]
    obs, points, rows = _assemble(parts, wanted, snapshots, energy, adata.obs_names, cells.keys, cells.time_key)
    made = described(obs, points, rows, cells, genes)
    warn_of_untrusted(made.obs[cells.keys.converged].to_numpy(), cells.keys.converged)
    made.uns[f"{key}_interpolation"] = {"density_prior": rule.strength, "asynchrony": rule.asynchrony}
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


def _rule(density_prior: Any, asynchrony: Any, snapshots: Snapshots, random_state: int) -> Rule:
    """The rule as requested, with what is ``"auto"`` chosen by leaving out time points."""
    given = {"density_prior": density_prior, "asynchrony": asynchrony}
    values = {name: _checked(name, value) for name, value in given.items()}
    best = Rule()
    if None in values.values():
        best = best_rule(clouds(snapshots), snapshots.times, random_state)
    strength, spread = values.values()
    return Rule(best.strength if strength is None else strength, best.asynchrony if spread is None else spread)


def _checked(name: str, value: Any) -> float | None:
    """A number from 0 to 1, or ``None`` if it is to be chosen."""
    if value is None:
        return 0.0
    if isinstance(value, str) and value == "auto":
        return None
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 <= float(value) <= 1:
        raise ValueError(f"{name}={value!r} must be a number from 0 to 1, 'auto' or None.")
    return float(value)


def _at(energy: Energy, snapshots: Snapshots, time: float, rule: Rule, seed: int) -> Interpolated:
    known = clouds(snapshots)
    if time > energy.times[-1]:
        return forecast_from(energy, known[-1], energy.times[-1], time, seed)
    k = energy.timeline.containing(time)
    ends = energy.times[k], energy.times[k + 1]
    found = between(energy, known[k], known[k + 1], ends, time, seed, asynchrony=rule.asynchrony)
    if rule.strength > 0 and time not in energy.times:
        observed = snapshots.coordinates[snapshots.cell_weights > 0]
        pulled = towards_observed(found.cloud.points, observed, rule.strength, seed)
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
) -> tuple[pd.DataFrame, NDArray[np.float64], NDArray[np.int64]]:
    frames, points, sources = [], [], []
    starts = np.cumsum(snapshots.sizes) - snapshots.sizes
    for found, time in zip(parts, times, strict=True):
        snapshot = np.where(
            time > energy.times[-1], len(energy.times) - 1, energy.timeline.containing(time) + found.side
        )
        kept = found.cloud.weight > 0  # at a measured time the other side has none
        rows = snapshots.rows[starts[snapshot] + found.source]
        sources.append(rows[kept])
        frames.append(
            pd.DataFrame(
                {
                    time_key: time,
                    keys.source: names[rows].astype(str),
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
    return obs, np.concatenate(points), np.concatenate(sources)
