"""Time columns: what users write into them, read as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..core.timeline import time_text
from .logging import logger

_NUMBER = r"\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
_PLAIN = re.compile(rf"\s*[+-]?(?:{_NUMBER}|\.\d+)\s*")
# A word before, a number or a range of two, a unit behind: "day 6", "6.5h", "Day 00-03", "E8.5", "day -1".
_LABEL = re.compile(
    r"\s*(?P<before>[A-Za-z]*)(?P<dash>-(?=\d))?[_\s]*(?P<first>-?\d+(?:\.\d+)?)"
    r"(?:\s*(?:-|–|to)\s*(?P<last>\d+(?:\.\d+)?))?(?P<after>\D*)"
)


def read_times(column: pd.Series, time_values: Mapping[Any, float] | None = None) -> NDArray[np.float64]:
    """The time of every row of ``column`` as a finite number; the column itself is left alone.

    Numbers are taken as they are, durations in days, and labels as :func:`read_label` reads them unless
    ``time_values`` says outright what they stand for.
    """
    _check_present(column)
    if time_values is not None:
        return _look_up(column, time_values)
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(column.cat.categories.dtype)
    if pd.api.types.is_timedelta64_dtype(column.dtype):
        logger.info("obs[%r] holds durations; they are read in days.", column.name)
        return (column.to_numpy() / np.timedelta64(1, "D")).astype(np.float64)
    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_datetime64_any_dtype(column.dtype):
        raise ValueError(
            f"obs[{column.name!r}] is of type {column.dtype}, which does not read as a number; "
            "give a numeric column, or say the times with time_values={label: number}."
        )
    if pd.api.types.is_complex_dtype(column.dtype):
        raise ValueError(f"obs[{column.name!r}] is complex; times are real numbers.")
    if pd.api.types.is_numeric_dtype(column.dtype):
        times = _widened(column).to_numpy(dtype=np.float64)
    else:
        times = _read_labels(column)
    if not np.isfinite(times).all():
        bad = np.flatnonzero(~np.isfinite(times))
        raise ValueError(f"obs[{column.name!r}] holds infinite times ({len(bad)} cells, the first is row {bad[0]}).")
    return times


def read_time(name: str, value: Any, column: pd.Series, time_values: Mapping[Any, float] | None = None) -> float:
    """One time that a user hands in as argument ``name``: a number, or a label of the time column."""
    if isinstance(value, Real) and not isinstance(value, bool):
        if not np.isfinite(float(value)):
            raise ValueError(f"{name}={value!r} is not finite.")
        return float(value)
    told = by_text(time_values or {})
    if _text(value) in told:
        return told[_text(value)]
    labels = column.drop_duplicates()
    here = labels[[_text(label) == _text(value) for label in labels]]
    if len(here):
        return float(read_times(here, time_values)[0])
    raise ValueError(
        f"{name}={value!r} is neither a number nor a label in obs[{column.name!r}]; times between labels are "
        "passed as numbers."
    )


def read_label(label: str) -> tuple[float, str] | None:
    """The number in a time label (of a range its midpoint) and the unit around it; None if there is none to read."""
    if _PLAIN.fullmatch(label):  # not float(), which takes "12_15" for 1215
        return float(label), ""
    match = _LABEL.fullmatch(label)
    if match is None:
        return None
    first = float(match["first"])
    number = first if match["last"] is None else (first + float(match["last"])) / 2
    # "day", "Days" and "day_" are one unit; "E" and "P", "h" and "d" are not.
    unit = " ".join(part.strip(" _.").lower().rstrip("s") for part in (match["before"], match["after"])).strip()
    # "day-1" may be day 1 or the day before day 0: only where all labels are written like that is it the former.
    return number, unit + (match["dash"] or "" if match["before"] else "")


def _check_present(column: pd.Series) -> None:
    missing = np.flatnonzero(column.isna().to_numpy())
    if len(missing):
        raise ValueError(
            f"obs[{column.name!r}] is missing (NaN) for {len(missing)} of {len(column)} cells, the first is row "
            f"{missing[0]}; drop those cells or fill in their times."
        )


def by_text(time_values: Mapping[Any, float]) -> dict[str, float]:
    """``time_values`` by the text of the label, which is how files keep it."""
    if not isinstance(time_values, Mapping | pd.Series):
        raise TypeError(f"time_values must be a mapping {{label: number}}, not {type(time_values).__name__}.")
    told: dict[str, float] = {}
    for label, value in time_values.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(value):
            raise ValueError(f"time_values[{label!r}]={value!r} is not a finite number.")
        if told.setdefault(_text(label), float(value)) != value:
            both = f"{time_text(told[_text(label)])} and {time_text(value)}"
            raise ValueError(f"time_values says two things of {label!r}: {both}.")
    return told


def _text(label: Any) -> str:
    """A label as text; 1, 1.0 and "1" are the same label. Numbers in full: no two of them become one."""
    return f"{label:.0f}" if isinstance(label, Real) and float(label).is_integer() else str(label)


def _widened(column: pd.Series) -> pd.Series:
    """Numbers of few digits through text, so that 0.9 kept as float32 is 0.9 and not 0.89999998."""
    return column.astype(str).astype(np.float64) if column.dtype in (np.float16, np.float32) else column


def _look_up(column: pd.Series, time_values: Mapping[Any, float]) -> NDArray[np.float64]:
    told, column = by_text(time_values), _widened(column)
    labels = pd.unique(column.astype(object))
    unknown = [label for label in labels if _text(label) not in told]
    if unknown:
        raise ValueError(f"time_values says nothing of {_shown(unknown)}, which obs[{column.name!r}] holds.")
    times = {label: told[_text(label)] for label in labels}
    return column.astype(object).map(times).to_numpy(dtype=np.float64)


def _read_labels(column: pd.Series) -> NDArray[np.float64]:
    labels = pd.unique(column.astype(object))
    read = {label: read_label(str(label)) for label in labels}
    unread = [label for label, found in read.items() if found is None]
    hint = "say what they stand for with time_values={label: number}."
    if unread:
        raise ValueError(f"obs[{column.name!r}] holds labels that do not read as numbers: {_shown(unread)}; {hint}")
    units = sorted({found[1] for found in read.values() if found is not None})
    if len(units) > 1:
        raise ValueError(
            f"obs[{column.name!r}] mixes units ({', '.join(repr(unit) for unit in units)}) in {_shown(labels)}; {hint}"
        )
    times = {label: found[0] for label, found in read.items() if found is not None}
    if any(str(label) != time_text(time) for label, time in times.items()):
        told = ", ".join(
            f"{label!r} as {time_text(time)}" for label, time in sorted(times.items(), key=lambda item: item[1])
        )
        logger.info("obs[%r] is read as numbers: %s.", column.name, told)
    return column.astype(object).map(times).to_numpy(dtype=np.float64)


def _shown(labels: Any, most: int = 8) -> str:
    shown = ", ".join(repr(label) for label in list(labels)[:most])
    return shown + (f" and {len(labels) - most} more" if len(labels) > most else "")
