"""Growth of cells at the edge: rates read from ``obs``, and growth as the options of a fit have it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.growth.estimate import Growth, estimated_growth, known_growth, read_growth
from ..core.timeline import Timeline, time_text
from ..core.transport import Coupling, OperatorCoupling
from .keys import GROWTH_PRIOR
from .logging import logger
from .options import AUTO, FitOptions
from .snapshots import Snapshots, obs_column

#: Largest change of the log of a mass over one interval: beyond it a cell would stand for all others, or for none.
LARGEST_GAIN = 50.0


def cell_rates(adata: AnnData, growth: str | None) -> NDArray[np.float64] | None:
    """The growth rate of every cell: as given, or as expected where it is to be estimated; None if none is known."""
    if growth is None or (growth == AUTO and GROWTH_PRIOR not in adata.obs):
        return None
    name = GROWTH_PRIOR if growth == AUTO else growth
    if growth == AUTO:
        logger.info("Growth is estimated around the rates expected in obs[%r].", name)
    column = obs_column(adata, "growth", name)
    if not pd.api.types.is_numeric_dtype(column.dtype) or pd.api.types.is_bool_dtype(column.dtype):
        raise ValueError(f"obs[{name!r}] is of type {column.dtype}; growth rates must be numbers.")
    rates = column.to_numpy(dtype=np.float64)
    bad = ~np.isfinite(rates)
    if bad.any():
        raise ValueError(
            f"obs[{name!r}] has NaN or infinite rates for {bad.sum()} of {len(rates)} cells, the first is row "
            f"{np.argmax(bad)}; growth rates are finite numbers per unit of time."
        )
    return rates


def growth_of(snapshots: Snapshots, options: FitOptions) -> Growth | None:
    """The growth of all intervals, before these are coupled; None if there is none, or the couplings have it."""
    if options.growth is None or options.couplings is not None:
        return None
    rates, timeline = snapshots.rates, Timeline(snapshots.times)
    if rates is not None:
        _check_gains(rates, timeline)
    course = snapshots.points, snapshots.weights, timeline
    if options.growth != AUTO:
        assert rates is not None
        return known_growth(*course, rates)
    logger.info("Estimating growth by unbalanced transport.")
    return estimated_growth(*course, rates)


def growth_in(couplings: Sequence[Coupling | OperatorCoupling], snapshots: Snapshots) -> Growth:
    """The growth that ready-made couplings have: the masses of their rows."""
    return read_growth(snapshots.points, snapshots.weights, couplings, Timeline(snapshots.times))


def coupled_rates(growth: Growth, snapshots: Snapshots) -> NDArray[np.float64]:
    """The rate of each cell that its coupling has, in the order of rows in the AnnData; NaN in the last snapshot."""
    gaps = np.diff(snapshots.times)
    parts = [gain / gap for gain, gap in zip(growth.gains, gaps, strict=True)]
    return snapshots.to_rows(np.concatenate([*parts, np.full(snapshots.sizes[-1], np.nan)]))


def gains_of(adata: AnnData, name: str, snapshots: Snapshots) -> list[NDArray[np.float64]] | None:
    """The gains that couplings were solved with, from the column that a fit wrote; None if that is missing."""
    if name not in adata.obs:
        raise KeyError(f"No obs[{name!r}], the growth rates that the couplings of this fit have; fit again.")
    rates = adata.obs[name].to_numpy(dtype=np.float64)[snapshots.rows]
    parts = np.split(rates, np.cumsum(snapshots.sizes)[:-1])
    return [part * gap for part, gap in zip(parts[:-1], np.diff(snapshots.times), strict=True)]


def compared(snapshots: Snapshots, fitted: NDArray[np.float64]) -> dict[str, Any]:
    """For each snapshot the mean and the standard deviation of rates that were expected, and of those fitted."""
    rows = {"time": snapshots.times, **_moments("", np.split(fitted, np.cumsum(snapshots.sizes)[:-1]))}
    return rows if snapshots.rates is None else {**rows, **_moments("prior_", snapshots.rates)}


def _moments(prefix: str, parts: Sequence[NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]:
    return {f"{prefix}mean": np.array([p.mean() for p in parts]), f"{prefix}sd": np.array([p.std() for p in parts])}


def _check_gains(rates: Sequence[NDArray[np.float64]], timeline: Timeline) -> None:
    for k, gap in enumerate(timeline.gaps):
        largest = float(np.ptp(rates[k]) * gap)
        if largest > LARGEST_GAIN:
            t0, t1 = map(time_text, timeline.times[k : k + 2])
            raise ValueError(
                f"Growth rates at time {t0} differ by {np.ptp(rates[k]):.3g} per unit of time, so that masses at "
                f"{t1} differ by a factor of e^{largest:.0f}; rates are per unit of the time column: check the units."
            )
