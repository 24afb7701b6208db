"""Growth fields to and from ``uns``: plain arrays and numbers, checked before they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from ...core.growth.field import GrowthField, Rate
from ...core.timeline import Timeline
from .parts import Unreadable, mapping, numbers

#: What is stored of each rate.
RATE = ("points", "heights", "width", "mean")


def growth_to_uns(field: GrowthField) -> dict[str, Any]:
    """The rates at the start and the end of every interval, by their number."""
    return {"field": {str(k): asdict(rate) for k, rate in enumerate(field.rates)}}


def growth_from_uns(stored: Mapping[str, Any], timeline: Timeline) -> GrowthField:
    """The field kept in ``uns[key]["growth"]``."""
    rates = [_rate(stored["field"][str(k)]) for k in range(2 * timeline.n_intervals)]
    return GrowthField(timeline, tuple(rates))


def _rate(kept: Mapping[str, Any]) -> Rate:
    points, heights = (np.array(kept[name], np.float64) for name in ("points", "heights"))
    return Rate(points, heights, float(kept["width"]), float(kept["mean"]))


def check_growth(stored: Any, n_dims: int, n_intervals: int) -> None:
    """Raise unless this is a growth field of as many intervals and dimensions."""
    names = [str(k) for k in range(2 * n_intervals)]
    field = mapping(mapping(stored, "growth", ("field",))["field"], "growth/field", names, only=True)
    for name in names:
        rate, where = mapping(field[name], f"growth/field/{name}", RATE, only=True), f"growth/field/{name}"
        n = len(numbers(rate["heights"], f"{where}/heights", (None,)))
        numbers(rate["points"], f"{where}/points", (n, n_dims))
        numbers(rate["mean"], f"{where}/mean", ())
        if not numbers(rate["width"], f"{where}/width", ()) > 0:
            raise Unreadable(f"{where}/width is not above zero")
