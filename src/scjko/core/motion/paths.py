"""Moving cells by an energy: along the straight lines of its maps, with noise where it has any."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..schemes import stepping
from ..timeline import Segment
from .forecast import forecast
from .lines import advance

if TYPE_CHECKING:
    from ..energy.energy import Energy

Array = NDArray[np.float64]

#: Cells that come to stand further from the centre than this many times the farthest fitted cell have left the data.
FAR = 2.0
#: The log of a mass is kept within these bounds, so that masses can be compared.
MOST_GROWN = 600.0


class Step(NamedTuple):
    """Where cells went, and which of them can be trusted."""

    positions: Array
    converged: NDArray[np.bool_]
    """False where a step was not solved, or led out of the range of the data."""
    mass: Array
    """The factor by which the mass of each cell has grown."""


def move(energy: Energy, x: Array, t0: float, t1: float, scheme: str | None, random_state: int) -> Step:
    """Cells moved from ``t0`` to ``t1``."""
    times = np.array([_time("t0", t0), _time("t1", t1)])
    path, mass, trusted = _follow(energy, x, times, scheme, random_state)
    return Step(path[-1], trusted, mass[-1])


def simulate(
    energy: Energy, x: Array, times: ArrayLike, scheme: str | None, random_state: int
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Cells followed through all ``times`` (n_times, n, d), their masses, and whether each can be trusted."""
    wanted = np.asarray(times, dtype=np.float64)
    if wanted.ndim != 1 or len(wanted) == 0 or not np.isfinite(wanted).all():
        raise ValueError(f"times must be a list of finite times, at least one, not {times!r}.")
    if not ((np.diff(wanted) >= 0).all() or (np.diff(wanted) <= 0).all()):
        raise ValueError(f"times must go one way, forward or back, not {times!r}.")
    return _follow(energy, x, wanted, scheme, random_state)


def _follow(
    energy: Energy, x: Array, times: Array, scheme: str | None, random_state: int
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """Cells at each of the times, leg by leg: lines and noise within the measured range, a forecast beyond it.

    The mass of a cell grows on each leg at the rate that the growth field has where the leg starts.
    """
    rng, path, trusted = _noise(random_state), [x], np.ones(len(x), dtype=bool)
    log_mass = [np.zeros(len(x))]
    anchor = stepping(energy.scheme, scheme).anchor(float(times[0]), float(times[-1]))
    population = None
    for t0, t1 in zip(times[:-1], times[1:], strict=True):
        energy.timeline.check_path(float(t0), float(t1))
        position, gain = path[-1], log_mass[-1]
        for segment in energy.timeline.segments(float(t0), float(t1)):
            gain = gain + _gain(energy, position, segment)
            position, trusted = _leg(energy, position, trusted, segment, anchor, rng)
        beyond = max(float(t0), energy.times[-1]), float(t1)
        if beyond[1] > beyond[0]:
            last = energy.timeline.n_intervals - 1
            after = Segment(last, 1.0, 1.0 + (beyond[1] - beyond[0]) / energy.timeline.gaps[last])
            gain = gain + _gain(energy, position, after)
            moved, population = forecast(energy, position, *beyond, population, rng)
            position, trusted = _kept(energy, position, moved, trusted)
        path.append(position)
        log_mass.append(gain)
    return np.stack(path), np.exp(np.clip(log_mass, -MOST_GROWN, MOST_GROWN)), trusted


def _gain(energy: Energy, x: Array, segment: Segment) -> Array:
    """The log of the factor by which mass grows along a segment."""
    if energy.growth_field is None:
        return np.zeros(len(x))
    duration = (segment.stop - segment.start) * energy.timeline.gaps[segment.interval]
    return duration * energy.growth_field.over(x, segment.interval, segment.start)


def _leg(
    energy: Energy,
    x: Array,
    trusted: NDArray[np.bool_],
    segment: Segment,
    anchor: float,
    rng: np.random.Generator,
) -> tuple[Array, NDArray[np.bool_]]:
    """Cells at the end of one segment."""
    line = advance(energy, x, segment, anchor)
    duration = (segment.stop - segment.start) * energy.timeline.gaps[segment.interval]
    moved = line.positions
    if energy.internal_term is not None and duration > 0:
        moved = moved + np.sqrt(2 * energy.beta * duration) * rng.standard_normal(x.shape)
    return _kept(energy, x, moved, trusted & line.solved)


def _kept(energy: Energy, before: Array, after: Array, trusted: NDArray[np.bool_]) -> tuple[Array, NDArray[np.bool_]]:
    """Cells after a step: those that are nowhere stay where they were, and those far from all data are not trusted."""
    finite = np.asarray(np.isfinite(after).all(axis=1))
    after = np.where(finite[:, None], after, before)
    near = np.linalg.norm(after - energy.units.center, axis=1) <= FAR * energy.reach
    return after, trusted & finite & near


def _noise(random_state: int) -> np.random.Generator:
    """Random numbers of a stream of their own: not those of a user who drew the cells with the same seed."""
    return np.random.default_rng([random_state, *b"noise"])


def _time(name: str, value: Any) -> float:
    """One finite time."""
    if isinstance(value, bool) or not isinstance(value, (Real, np.generic)) or not np.isfinite(float(value)):
        raise ValueError(f"{name}={value!r} must be one finite time.")
    return float(value)
