"""The times of a plot: covered by the fit, and with cells in the AnnData that is drawn, which may be a part of it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.timeline import time_text
from ..edge.fitted import FittedCells
from ..edge.logging import logger
from ._options import listed

Array = NDArray[np.float64]


def times_with_cells(cells: FittedCells) -> Array:
    """The time points of the fit that have cells here; at least one."""
    fitted = cells.energy.times
    found = np.intersect1d(fitted, cells.times)
    if not len(found):
        raise ValueError(
            f"adata has no cells of the time points that were fitted, {texts(fitted)}: obs[{cells.time_key!r}] has "
            f"{texts(np.unique(cells.times))}. Pass the AnnData that was fitted, or a part of it."
        )
    return found


def drawn_times(cells: FittedCells, times: Any) -> list[float]:
    """The times requested, by default those of the snapshots, as far as there are cells at or around them."""
    if times is not None:
        return _requested(cells, "times", cells.asked_times(times))
    fitted = [float(t) for t in cells.energy.times]
    return keep_drawable(cells, fitted, np.isin(fitted, times_with_cells(cells)))


def drawn_time(cells: FittedCells, name: str, time: Any) -> float:
    """The one time that argument ``name`` requests, with cells at or around it."""
    return _requested(cells, name, [cells.time(name, time)])[0]


def keep_drawable(cells: FittedCells, times: list[float], drawable: Any, *, argument: str | None = None) -> list[float]:
    """The times with cells to draw; others are an error if an argument requests them, else a line in the log."""
    bare = [t for t, found in zip(times, drawable, strict=True) if not found]
    if bare and argument:
        raise ValueError(
            f"{_stated(argument, bare)}, but adata has no cells to draw there; it has cells of "
            f"{texts(times_with_cells(cells))}. Request times among these, or pass an AnnData with the other cells."
        )
    if bare:
        logger.info("adata has no cells of %s %s, left out of the plot.", cells.time_key, texts(bare))
    return [t for t in times if t not in bare]


def check_fitted_range(cells: FittedCells, argument: str, times: list[float]) -> None:
    """Raise unless the fit covers all of these times."""
    first, last = cells.energy.times[[0, -1]]
    outside = [t for t in times if not first <= t <= last]
    if outside:
        covered = f"from {time_text(first)} to {time_text(last)}"
        raise ValueError(f"{_stated(argument, outside)}, but the fit covers times {covered}; stay within these.")


def texts(times: Any) -> str:
    """Times as a sentence lists them."""
    return listed(map(time_text, times))


def _requested(cells: FittedCells, argument: str, times: list[float]) -> list[float]:
    """These times, if all are next to cells: no time point without cells stands between."""
    check_fitted_range(cells, argument, times)
    fitted, present = cells.energy.times, times_with_cells(cells)
    low = max(fitted[fitted < present[0]], default=-np.inf)
    high = min(fitted[fitted > present[-1]], default=np.inf)
    return keep_drawable(cells, times, [low < t < high for t in times], argument=argument)


def _stated(argument: str, times: list[float]) -> str:
    return f"{argument} has {texts(times)}" if argument == "times" else f"{argument}={texts(times)}"
