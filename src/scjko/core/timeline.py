"""The time axis: snapshots' times, the intervals between them, and the way from one time to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

TIME_LABELS = ("interval", "target")
#: How often a forecast may repeat the last interval.
MAX_FORECAST = 100


class Segment(NamedTuple):
    """A stretch of time inside one interval, walked from ``start`` to ``stop`` (backward if ``stop < start``)."""

    start: float
    stop: float
    interval: int
    end: float
    """Where in the interval ``start`` lies: 0 at its beginning, 1 at its end."""


def time_text(time: float) -> str:
    """A time as users read it: to six digits, or in full where that would round whole days away (20200101)."""
    return f"{time:.15g}" if abs(time) >= 1e5 else f"{time:g}"


@dataclass(frozen=True)
class Intervals:
    """The intervals between snapshots at increasing ``times``, and how an energy is told of them.

    ``time_label`` is ``"interval"`` (an interval goes by its midpoint) or ``"target"`` (by the time it leads to, as
    in the paper).
    """

    times: Array
    time_label: str = "interval"

    @property
    def gaps(self) -> Array:
        """The length Δ of each interval."""
        return np.diff(self.times)

    @property
    def following(self) -> Array:
        """For each snapshot the time of the next one; for the last, one more interval of the last length."""
        return np.append(self.times[1:], self.times[-1] + self.gaps[-1])

    @property
    def labels(self) -> Array:
        """The label of each interval, in units in which the measured range is [−1, 1]."""
        marks = self.times[1:] if self.time_label == "target" else (self.times[1:] + self.times[:-1]) / 2
        first, last = self.times[0], self.times[-1]
        return (2 * marks - first - last) / (last - first)

    def containing(self, t: float) -> int:
        """The number of the interval that :meth:`locate` finds for one time."""
        return int(self.locate([t])[0][0])

    def locate(self, t: ArrayLike) -> tuple[NDArray[np.int64], Array]:
        """The interval that starts at or contains each time, and where in it the time lies (0 start, 1 end).

        Times before the first snapshot are read at the first, those after the last at the last.
        """
        t = np.clip(np.asarray(t, dtype=np.float64), self.times[0], self.times[-1])
        interval = np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 2)
        return interval, (t - self.times[interval]) / self.gaps[interval]

    def segments(self, t0: float, t1: float) -> list[Segment]:
        """The way from ``t0`` to ``t1``, cut at every snapshot between them.

        Beyond the last snapshot the last interval repeats itself: forecasts are cut at its length.
        """
        if t0 < self.times[0] or t1 < self.times[0]:
            raise ValueError(
                f"A step from {time_text(t0)} to {time_text(t1)} leaves the measured range: the first snapshot is at "
                f"{time_text(self.times[0])}."
            )
        if t1 < t0:
            if t0 > self.times[-1]:
                raise ValueError(
                    f"A step back must start within the measured times; {time_text(t0)} > {time_text(self.times[-1])}."
                )
            return self._backward(t0, t1)
        if t1 - self.times[-1] > MAX_FORECAST * self.gaps[-1]:
            raise ValueError(
                f"A forecast to {time_text(t1)} repeats the last interval (of length {time_text(self.gaps[-1])}) over "
                f"{MAX_FORECAST} times after the last snapshot ({time_text(self.times[-1])}); nothing is known of "
                "cells so late."
            )
        forecasts = max(1, int(np.ceil((t1 - self.times[-1]) / self.gaps[-1])))
        cuts = np.concatenate([self.times[:-1], self.times[-1] + self.gaps[-1] * np.arange(forecasts)])
        stops = [t0, *cuts[(cuts > t0) & (cuts < t1)], t1]
        pairs = [(a, b) for a, b in zip(stops[:-1], stops[1:], strict=True) if b > a]
        return [Segment(float(a), float(b), int(k), float(end)) for a, b in pairs for k, end in [self.locate(a)]]

    def _backward(self, t0: float, t1: float) -> list[Segment]:
        between = self.times[(self.times > t1) & (self.times < t0)][::-1]
        stops = [t0, *between, t1]
        found = []
        for a, b in zip(stops[:-1], stops[1:], strict=True):
            interval, _ = self.locate(b)
            end = (a - self.times[interval]) / self.gaps[interval]
            found.append(Segment(float(a), float(b), int(interval), float(end)))
        return found


def conditioning(
    intervals: Intervals, interval: NDArray[np.int64], end: Array, scheme: str, mixing: str
) -> NDArray[np.float32]:
    """What a model is told of each point's interval, one row for each point.

    - ``"constant"``: a one; the potential does not vary in time.
    - ``"label"``: the interval's label and, if both ends are fitted, which end the point stands at (−1 start, 1 end).
    - ``"interval"``: an indicator of the interval and, if both ends are fitted, of the end.
    - ``"smooth"``: powers of the label up to the second and, if both ends are fitted, their products with the end.
    """
    n = len(end)
    label = intervals.labels[interval]
    ends = np.stack([1 - end, end], axis=1) if scheme == "both" else np.ones((n, 1))
    if mixing == "constant":
        columns = np.ones((n, 1))
    elif mixing == "label":
        columns = np.stack([label, 2 * end - 1], axis=1) if scheme == "both" else label[:, None]
    else:
        time = np.eye(len(intervals.gaps))[interval] if mixing == "interval" else label[:, None] ** np.arange(3)
        columns = (time[:, :, None] * ends[:, None, :]).reshape(n, -1)
    return columns.astype(np.float32)
