from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from anndata.utils import make_index_unique
from numpy.typing import NDArray

from .._checks import check_integer, check_option
from .._keys import Keys
from .._logging import logger
from .._snapshots import cell_times, representation
from .._storage import energy_from_uns, fitted, time_values_from_uns, whitening_from_uns
from .._times import read_time
from ..core.condition import SCHEMES
from ..core.energies import Energy, Step


def predict(
    adata: AnnData,
    time: float | str | None = None,
    *,
    source: float | str | None = None,
    scheme: str | None = None,
    n_samples: int = 1,
    key: str = "jko",
    random_state: int = 0,
) -> AnnData:
    """Cells as the fitted energy predicts them at another time.

    The cells may be those of the fit, or others with the same representation: copy ``uns["jko"]`` to them.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    time
        The time to predict, as a number or as a label of the time column. By default every cell is moved to the next
        snapshot, and those of the last one on by the length of the last interval.
    source
        The time point whose cells are moved. By default the last one before ``time``, or all.
    scheme
        How to step: ``"explicit"``, or ``"implicit"``, the proximal step. By default as it was fitted
        (``"both"`` steps explicitly).
    n_samples
        Number of times each cell is moved; copies differ only where the energy has noise.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the noise, if the energy has any.

    Returns
    -------
    A new AnnData of predicted cells with

    ``obsm["X_jko"]``
        Their coordinates.
    ``obs[time_key]``
        The time they are predicted at.
    ``obs["jko_source"]``, ``obs["jko_source_time"]``
        The cell that each started as, and when.
    ``obs["jko_forecast"]``
        Whether that time lies beyond the last snapshot of the fit.
    ``obs["jko_converged"]``
        Whether the step was solved.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", epochs=20, progress=False)
    >>> sj.tl.predict(adata, time=3).obs["jko_source_time"].unique()
    array([2.])
    """
    stored = fitted(adata, key)
    if scheme is not None:
        check_option("scheme", scheme, SCHEMES)
    check_integer("n_samples", n_samples)
    check_integer("random_state", random_state, minimum=0)
    energy, told = energy_from_uns(stored), time_values_from_uns(stored)
    time_key = str(stored["params"]["time_key"])
    start = cell_times(adata, time_key, told)
    x = _coordinates(adata, stored, key)
    to = None if time is None else read_time("time", time, told)
    from_ = None if source is None else read_time("source", source, told)
    chosen = _sources(start, to, from_, time_key)
    stop = _stops(energy, start[chosen], to)

    moved = _move(energy, x[chosen], start[chosen], stop, scheme)
    repeated = np.repeat(np.arange(len(chosen)), n_samples)
    return _predicted(adata.obs_names[chosen], start[chosen], stop, moved, energy, Keys(key), time_key, repeated)


def _coordinates(adata: AnnData, stored: Mapping[str, Any], key: str) -> NDArray[np.floating]:
    """The fitted coordinates, or for cells that were not fitted their representation, whitened as it was."""
    name = Keys(key).coordinates
    if name in adata.obsm:
        return representation(adata, name, None)[1]
    params, whitening = stored["params"], whitening_from_uns(stored)
    x = representation(adata, str(params["use_rep"]), int(params["n_pcs"]))[1]
    return x if whitening is None else whitening(x)


def _sources(start: NDArray[np.float64], time: float | None, source: float | None, time_key: str) -> NDArray[np.int64]:
    """Rows of the cells to move."""
    there = np.unique(start)
    if source is not None:
        if source not in there:
            listed = ", ".join(f"{t:g}" for t in there)
            raise ValueError(f"source={source:g} is no time point of obs[{time_key!r}], which has {listed}.")
        return np.flatnonzero(start == source)
    if time is None:
        return np.arange(len(start))
    if time <= there[0]:
        raise ValueError(
            f"time={time:g} is not after the first time point ({there[0]:g}), so there are no cells to predict it "
            "from; to go back in time name the source."
        )
    return np.flatnonzero(start == there[there < time][-1])


def _stops(energy: Energy, start: NDArray[np.float64], time: float | None) -> NDArray[np.float64]:
    """The time each cell is moved to: ``time``, or the next snapshot."""
    if time is not None:
        stop = np.full(len(start), time)
    else:
        times = np.append(energy.times, energy.times[-1] + energy.intervals.gaps[-1])
        stop = times[np.minimum(np.searchsorted(times, start, side="right"), len(times) - 1)]
    forecast = stop > energy.times[-1]
    if forecast.any():
        logger.info(
            "%d cells are forecast to %s, beyond the last snapshot (%g), with the energy of the last interval.",
            forecast.sum(),
            ", ".join(f"{t:g}" for t in np.unique(stop[forecast])),
            energy.times[-1],
        )
    return stop


def _move(
    energy: Energy,
    x: NDArray[np.floating],
    start: NDArray[np.float64],
    stop: NDArray[np.float64],
    scheme: str | None,
) -> Step:
    moved = Step(np.empty(x.shape), np.empty(len(x), dtype=bool))
    for t0, t1 in np.unique(np.stack([start, stop], axis=1), axis=0):
        rows = (start == t0) & (stop == t1)
        moved.positions[rows], moved.converged[rows] = energy.move(x[rows], t0, t1, scheme=scheme)
    failed = int((~moved.converged).sum())
    if failed:
        logger.warning("The step of %d of %d cells was not solved; they are marked in obs.", failed, len(x))
    return moved


def _predicted(
    names: pd.Index,
    start: NDArray[np.float64],
    stop: NDArray[np.float64],
    moved: Step,
    energy: Energy,
    keys: Keys,
    time_key: str,
    rows: NDArray[np.int64],
) -> AnnData:
    obs = pd.DataFrame(
        {
            time_key: stop,
            keys.source: names.astype(str),
            keys.source_time: start,
            keys.forecast: stop > energy.times[-1],
            keys.converged: moved.converged,
        },
        index=[f"{name}-{t:g}" for name, t in zip(names, stop, strict=True)],
    ).iloc[rows]
    obs.index = make_index_unique(obs.index)
    return AnnData(obs=obs, obsm={keys.coordinates: moved.positions[rows]})
