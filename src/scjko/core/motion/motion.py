"""Moving cells by an energy: steps forward and back, and simulations."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..compute.blocks import in_blocks
from ..condition import SCHEMES
from ..energy.interactions import WithInteraction
from ..timeline import Segment, time_text
from .proximal import proximal

if TYPE_CHECKING:
    from ..energy.energies import Energy

Array = NDArray[np.float64]


class Step(NamedTuple):
    """Where cells went, and for which of them the step was solved."""

    positions: Array
    converged: NDArray[np.bool_]


def move(energy: Energy, x: Array, t0: float, t1: float, scheme: str | None, random_state: int) -> Step:
    """Cells moved from ``t0`` to ``t1``, one step per interval crossed."""
    step = Step(x, np.ones(len(x), dtype=bool))
    rng = _noise(random_state)
    for segment in _way(energy, _time("t0", t0), _time("t1", t1), scheme):
        drift, noise, solved = _advance(energy, step.positions, segment, scheme, rng)
        step = Step(step.positions + drift + noise, step.converged & solved)
    return step


def simulate(energy: Energy, x: Array, times: ArrayLike, scheme: str | None, random_state: int) -> Array:
    """Cells followed through all ``times`` (n_times, n, d): one step per interval, other times read off on the way."""
    asked = np.asarray(times, dtype=np.float64)
    if asked.ndim != 1 or len(asked) == 0 or not np.isfinite(asked).all():
        raise ValueError(f"times must be a list of finite times, at least one, not {times!r}.")
    if not ((np.diff(asked) >= 0).all() or (np.diff(asked) <= 0).all()):
        raise ValueError(f"times must go one way, forward or back, not {times!r}.")
    rng = _noise(random_state)
    path = np.repeat(x[None], len(asked), axis=0)
    for segment in _way(energy, float(asked[0]), float(asked[-1]), scheme):
        start = path[-1].copy()
        drift, noise, _ = _advance(energy, start, segment, scheme, rng)
        # Later times are where the segment ends until a later segment moves them on.
        way = np.clip((asked - segment.start) / (segment.stop - segment.start), 0.0, 1.0)
        for k in np.flatnonzero(way > 0):
            path[k] = start + way[k] * drift + np.sqrt(way[k]) * noise
    return path


def _way(energy: Energy, t0: float, t1: float, scheme: str | None) -> list[Segment]:
    """The segments from ``t0`` to ``t1``, if this energy can go there by this scheme."""
    if scheme is not None and scheme not in SCHEMES:
        raise ValueError(f"scheme={scheme!r} is not an option; choose one of {', '.join(map(repr, SCHEMES))}.")
    if t1 < t0 and energy.scheme == "explicit":
        raise ValueError(
            f"A step back from {time_text(t0)} to {time_text(t1)} needs an energy that knows where cells came from; "
            "fit with scheme='both' or 'implicit'."
        )
    return energy.intervals.segments(t0, t1)


def _advance(
    energy: Energy, x: Array, segment: Segment, scheme: str | None, rng: np.random.Generator
) -> tuple[Array, Array, NDArray[np.bool_]]:
    """How far a segment carries each cell, the noise it adds on the way, and for which cells it was solved."""
    duration = segment.stop - segment.start
    solved = np.ones(len(x), dtype=bool)
    noise = np.zeros((1, 1))
    place = x, np.full(len(x), segment.interval), np.full(len(x), segment.end)
    if duration < 0:
        return duration * energy.velocity_at(*place), noise, solved
    if (scheme or energy.scheme) == "implicit":
        drift, solved = _proximal(energy, x, segment)
    else:
        drift = -duration * energy.drift_at(*place)
    if energy.mixtures:
        noise = np.sqrt(2 * energy.beta * duration) * rng.standard_normal(x.shape)
    return drift, noise, solved


def _proximal(energy: Energy, x: Array, segment: Segment) -> tuple[Array, NDArray[np.bool_]]:
    """The JKO step over the whole interval, as much of it as the segment covers, and where it was solved."""
    gap = energy.intervals.gaps[segment.interval]
    rate = np.float32(gap * energy.speed / energy.length)
    z = energy.inner(x)
    interval, end = np.full(len(x), segment.interval), np.ones(len(x))
    model, weights = energy.model, energy.weights["potential"]
    if energy.interaction_model is not None:
        model = WithInteraction(energy.model, energy.interaction_model)
        among = energy.populations[segment.interval + 1].filled._asdict()
        weights = {"potential": weights, "interaction": energy.weights["interaction"], "population": among}
    target, converged = in_blocks(
        lambda *block: proximal(model, weights, *block, rate), z, energy.labels(interval, end)
    )
    return (segment.stop - segment.start) / gap * (target - z) * energy.length, converged.astype(bool)


def _noise(random_state: int) -> np.random.Generator:
    """Random numbers of a stream of their own: not those of a user who drew the cells with the same seed."""
    return np.random.default_rng([random_state, *b"noise"])


def _time(name: str, value: Any) -> float:
    """One finite time."""
    if isinstance(value, bool) or not isinstance(value, (Real, np.generic)) or not np.isfinite(float(value)):
        raise ValueError(f"{name}={value!r} must be one finite time.")
    return float(value)
