"""The fitted energy: a function one can ask for its value, gradient and Hessian, and for where it moves cells."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import models
from .condition import SCHEMES
from .intervals import Intervals, Segment
from .models import NeuralPotential, Weights
from .steps import proximal

logger = logging.getLogger("scjko")

Array = NDArray[np.float64]

#: Points are evaluated in blocks padded to one of these sizes: memory is bounded whatever the number of cells, and few
#: programs are compiled.
BLOCKS = (64, 512, 4096)


class Step(NamedTuple):
    """Where cells went, and for which of them the step was solved."""

    positions: Array
    converged: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Energy:
    """An energy in the user's units: coordinates as in ``obsm["X_jko"]``, times as in the time column.

    Arrays go in and numpy arrays come out. Inside, coordinates are centred and divided by one length, and velocities
    by one speed, so that the network sees numbers of order one.
    """

    model: NeuralPotential
    weights: Weights
    intervals: Intervals
    scheme: str
    time_varying: bool
    center: Array
    length: float
    speed: float
    offsets: Array
    """The constant added to the potential at the start and the end of each interval (n_intervals, 2)."""

    @property
    def times(self) -> Array:
        """The times of the snapshots that were fitted."""
        return self.intervals.times

    @property
    def n_dims(self) -> int:
        """The number of dimensions of the coordinates."""
        return len(self.center)

    def potential(self, x: ArrayLike, t: ArrayLike) -> Array:
        """V at points ``x`` (n, d) and time ``t`` (a number, or one for each point), as an array (n,).

        Its constant is chosen so that the mean over the first snapshot is zero, and so that from one snapshot to the
        next the population loses potential only by moving.
        """
        return self.potential_at(*self._place(x, t))

    def potential_at(self, x: ArrayLike, interval: NDArray[np.int64], end: Array) -> Array:
        """V as :meth:`potential` gives it, at a place in an interval: 0 its start, 1 its end."""
        value = self._evaluate(models.potentials, self._points(x), interval, end) * self.length * self.speed
        return value + self.offsets[interval, 0] * (1 - end) + self.offsets[interval, 1] * end

    def gradient(self, x: ArrayLike, t: ArrayLike) -> Array:
        """∇V at points ``x`` (n, d) and time ``t``, as an array (n, d); minus the velocity of the cells there.

        The interval that starts at or contains ``t`` is used; at the last snapshot, the last interval from its end.
        """
        return self.gradient_at(*self._place(x, t))

    def gradient_at(self, x: ArrayLike, interval: NDArray[np.int64], end: Array) -> Array:
        """∇V as :meth:`gradient` gives it, at a place in an interval: 0 its start, 1 its end."""
        return self._evaluate(models.gradients, self._points(x), interval, end) * self.speed

    def hessian(self, x: ArrayLike, t: ArrayLike) -> Array:
        """∇²V at points ``x`` (n, d) and time ``t``, as an array (n, d, d)."""
        return self._evaluate(models.hessians, *self._place(x, t)) * self.speed / self.length

    def step(self, x: ArrayLike, t0: float, t1: float, *, scheme: str | None = None) -> Array:
        """Cells at ``x`` (n, d) moved from time ``t0`` to ``t1``, as an array (n, d).

        One step is taken per interval crossed, by the scheme of the fit unless another is asked for. A time inside an
        interval is reached part of the way along the straight line of the whole step; beyond the last snapshot the
        last interval's energy goes on; with ``t1 < t0`` the cells are moved back.
        """
        moved = self.move(x, t0, t1, scheme=scheme)
        failed = int((~moved.converged).sum())
        if failed:
            logger.warning(
                "The proximal step from %g to %g was not solved for %d of %d cells; their positions are not to be "
                "trusted. scheme='explicit' needs no solver.",
                t0,
                t1,
                failed,
                len(moved.converged),
            )
        return moved.positions

    def move(self, x: ArrayLike, t0: float, t1: float, *, scheme: str | None = None) -> Step:
        """As :meth:`step`, with a flag for each cell that says whether its steps were solved."""
        scheme = self.scheme if scheme is None else scheme
        if scheme not in SCHEMES:
            raise ValueError(f"scheme={scheme!r} is not an option; choose one of {', '.join(map(repr, SCHEMES))}.")
        x = self._points(x)
        if t1 < t0 and self.scheme == "explicit":
            raise ValueError(
                f"A step back from {t0:g} to {t1:g} needs an energy that knows where cells came from; "
                "fit with scheme='both' or 'implicit'."
            )
        step = Step(x, np.ones(len(x), dtype=bool))
        for segment in self.intervals.segments(float(t0), float(t1)):
            if scheme == "implicit" and t1 > t0:
                moved = self._proximal_step(step.positions, segment)
            else:
                moved = self._straight_step(step.positions, segment)
            step = Step(moved.positions, step.converged & moved.converged)
        return step

    def simulate(self, x: ArrayLike, times: ArrayLike, *, scheme: str | None = None) -> Array:
        """Cells at ``x`` (n, d) and ``times[0]``, followed through all ``times``: an array (n_times, n, d)."""
        times = np.asarray(times, dtype=np.float64)
        if times.ndim != 1 or len(times) == 0:
            raise ValueError(f"times must be a list of at least one time, not {times!r}.")
        path = [self._points(x)]
        for t0, t1 in zip(times[:-1], times[1:], strict=True):
            path.append(self.step(path[-1], float(t0), float(t1), scheme=scheme))
        return np.stack(path)

    def _straight_step(self, x: Array, segment: Segment) -> Step:
        """x − (t1 − t0) ∇V(x): forward from the start of an interval, or back from its end."""
        slope = self.gradient_at(x, np.full(len(x), segment.interval), np.full(len(x), segment.end))
        return Step(x - (segment.stop - segment.start) * slope, np.ones(len(x), dtype=bool))

    def _proximal_step(self, x: Array, segment: Segment) -> Step:
        """The JKO step over the whole interval, and as much of the way there as the segment covers."""
        gap = self.intervals.gaps[segment.interval]
        rate = np.float32(gap * self.speed / self.length)
        z = self._inner(x)
        interval, end = np.full(len(x), segment.interval), np.ones(len(x))
        target, converged = self._blocks(
            lambda *block: proximal(self.model, self.weights, *block, rate), z, self._labels(interval, end)
        )
        way = (segment.stop - segment.start) / gap
        return Step(x + way * (target - z) * self.length, converged.astype(bool))

    def _evaluate(self, function: Callable[..., Any], x: Array, interval: NDArray[np.int64], end: Array) -> Array:
        (values,) = self._blocks(
            lambda *block: (function(self.model, self.weights, *block),), self._inner(x), self._labels(interval, end)
        )
        return values

    def _labels(self, interval: NDArray[np.int64], end: Array) -> NDArray[np.float32]:
        """What the model is told of the interval: its label and, fitted at both ends, which end."""
        return conditioning(self.intervals, interval, end, self.scheme, self.time_varying)

    def _place(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, NDArray[np.int64], Array]:
        x = self._points(x)
        times = np.asarray(t, dtype=np.float64)
        if times.shape not in ((), (len(x),)) or not np.isfinite(times).all():
            raise ValueError(f"t must be one finite time, or one for each of the {len(x)} points; got {t!r}.")
        return x, *self.intervals.locate(np.broadcast_to(times, len(x)))

    def _points(self, x: ArrayLike) -> Array:
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.n_dims:
            raise ValueError(f"x has shape {points.shape}; this energy takes points of shape (n, {self.n_dims}).")
        if not np.isfinite(points).all():
            raise ValueError("x holds NaN or infinite coordinates.")
        return points

    def _inner(self, x: Array) -> NDArray[np.float32]:
        return ((x - self.center) / self.length).astype(np.float32)

    @staticmethod
    def _blocks(function: Callable[..., tuple[Any, ...]], *arrays: NDArray[Any]) -> list[Array]:
        """``function`` over blocks of rows, its results put together again."""
        parts = []
        for start in range(0, max(len(arrays[0]), 1), BLOCKS[-1]):
            block = [array[start : start + BLOCKS[-1]] for array in arrays]
            rows = len(block[0])
            padded = next(size for size in BLOCKS if size >= rows)
            results = function(*(np.pad(values, ((0, padded - rows), (0, 0))) for values in block))
            parts.append([np.asarray(result, dtype=np.float64)[:rows] for result in results])
        return [np.concatenate(columns) for columns in zip(*parts, strict=True)]


def conditioning(
    intervals: Intervals, interval: NDArray[np.int64], end: Array, scheme: str, time_varying: bool
) -> NDArray[np.float32]:
    """What a model is told of each point's interval (n, 0 to 2).

    Nothing if the energy does not vary in time; otherwise the interval's label and, if both ends are fitted, which end
    the point stands at (−1 start, 1 end).
    """
    columns: list[Array] = []
    if time_varying:
        columns.append(intervals.labels[interval])
        if scheme == "both":
            columns.append(2 * end - 1)
    return np.stack(columns, axis=1).astype(np.float32) if columns else np.zeros((len(end), 0), np.float32)
