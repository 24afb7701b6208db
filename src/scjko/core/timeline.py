"""The time axis: the times of the snapshots, the intervals between them, and where a time lies among them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: How often a forecast may repeat the last interval.
MAX_FORECAST = 100


class Segment(NamedTuple):
    """A stretch of time inside one interval, from fraction ``start`` of it to fraction ``stop``; back if smaller."""

    interval: int
    start: float
    stop: float


def time_text(time: float) -> str:
    """A time as users read it: to six digits, or in full where that would round whole days away (20200101)."""
    return f"{time:.15g}" if abs(time) >= 1e5 else f"{time:g}"


@dataclass(frozen=True, eq=False)
class Timeline:
    """Snapshots at increasing ``times``, and the intervals between them."""

    times: Array

    @property
    def gaps(self) -> Array:
        """The length Δ of each interval."""
        return np.diff(self.times)

    @property
    def n_intervals(self) -> int:
        """The number of intervals, one less than there are snapshots."""
        return len(self.times) - 1

    @property
    def following(self) -> Array:
        """For each snapshot the time of the next one; for the last, one more interval of the last length."""
        return np.append(self.times[1:], self.times[-1] + self.gaps[-1])

    @property
    def ranks(self) -> Array:
        """A label of each interval by its rank, evenly spaced in [−1, 1].

        Midpoints of very unequal intervals are almost the same number, which a network cannot distinguish; ranks are
        not.
        """
        return (2 * np.arange(self.n_intervals) + 1) / self.n_intervals - 1

    @property
    def midpoints(self) -> Array:
        """The midpoint of each interval, in units in which the measured range is [−1, 1]."""
        return self._relative((self.times[1:] + self.times[:-1]) / 2)

    @property
    def targets(self) -> Array:
        """The time that each interval leads to, in units in which the measured range is [−1, 1]."""
        return self._relative(self.times[1:])

    def _relative(self, marks: Array) -> Array:
        first, last = self.times[0], self.times[-1]
        return (2 * marks - first - last) / (last - first)

    def containing(self, t: float) -> int:
        """The number of the interval that :meth:`locate` finds for one time."""
        return int(self.locate([t])[0][0])

    def locate(self, t: ArrayLike) -> tuple[Index, Array]:
        """The interval that starts at or contains each time, and the fraction of it that has passed.

        Times outside the measured range use the nearest snapshot.
        """
        t = np.clip(np.asarray(t, dtype=np.float64), self.times[0], self.times[-1])
        interval = np.clip(np.searchsorted(self.times, t, side="right") - 1, 0, self.n_intervals - 1)
        return interval, (t - self.times[interval]) / self.gaps[interval]

    def segments(self, t0: float, t1: float) -> list[Segment]:
        """The path from ``t0`` to ``t1`` within the measured range, cut at every snapshot between them."""
        lower, upper = np.clip(sorted((t0, t1)), self.times[0], self.times[-1])
        inner = self.times[(self.times > lower) & (self.times < upper)]
        stops = [lower, *inner, upper]
        found = []
        for a, b in zip(stops[:-1], stops[1:], strict=True):
            if b > a:
                k = self.containing(a)
                found.append(
                    Segment(k, float((a - self.times[k]) / self.gaps[k]), float((b - self.times[k]) / self.gaps[k]))
                )
        return found if t1 >= t0 else [Segment(k, stop, start) for k, start, stop in reversed(found)]

    def check_path(self, t0: float, t1: float) -> None:
        """Raise unless cells can be moved from ``t0`` to ``t1``."""
        first, last = self.times[0], self.times[-1]
        if min(t0, t1) < first:
            raise ValueError(
                f"A step from {time_text(t0)} to {time_text(t1)} leaves the measured range: the first snapshot is at "
                f"{time_text(first)}."
            )
        if t1 < t0 and t0 > last:
            raise ValueError(f"A step back must start within the measured times; {time_text(t0)} > {time_text(last)}.")
        if t1 - last > MAX_FORECAST * self.gaps[-1]:
            raise ValueError(
                f"A forecast to {time_text(t1)} repeats the last interval (of length {time_text(self.gaps[-1])}) more "
                f"than {MAX_FORECAST} times after the last snapshot ({time_text(last)}); nothing is known of cells so "
                "late."
            )
