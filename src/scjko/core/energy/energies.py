"""The fitted energy: a function one can ask for its value, gradient and Hessian, and for where it moves cells."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..compute.blocks import in_blocks
from ..motion import motion
from ..motion.motion import Step
from ..timeline import Intervals, conditioning, time_text
from . import models
from .density import Mixture, scores
from .interactions import NO_LABEL, Population, interaction_gradients
from .models import Model, Weights

logger = logging.getLogger("scjko")

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class Energy:
    """An energy in the user's units: coordinates as in ``obsm["X_jko"]``, times as in the time column.

    Arrays go in and numpy arrays come out. Inside, coordinates are centred and divided by one length, and velocities
    by one speed, so that the network sees numbers of order one.
    """

    model: Model
    weights: Weights
    """The weights of each term: ``potential``, and ``interaction`` and ``internal`` where they were fitted."""
    intervals: Intervals
    scheme: str
    """Where the first-order condition was asked to hold: ``"both"``, ``"explicit"`` or ``"implicit"``."""
    mixing: str
    """How the potential varies in time, see :func:`scjko.core.timeline.conditioning`."""
    center: Array
    length: float
    speed: float
    offsets: Array
    """The constant added to the potential at the start and the end of each interval (n_intervals, 2)."""
    interaction_model: Model | None = None
    populations: tuple[Population, ...] = ()
    """Of each snapshot, the cells that others feel; empty without interaction."""
    mixtures: tuple[Mixture, ...] = ()
    """Of each snapshot, its density; empty without internal energy."""

    def __repr__(self) -> str:
        kind = "neural" if isinstance(self.model, models.NeuralPotential) else "linear"
        first, last = map(time_text, self.times[[0, -1]])
        return (
            f"Energy({kind} {', '.join(self.terms)}; {self.n_dims} dimensions, {len(self.times)} time points from "
            f"{first} to {last}, scheme={self.scheme!r})"
        )

    @property
    def times(self) -> Array:
        """The times of the snapshots that were fitted."""
        return self.intervals.times

    @property
    def n_dims(self) -> int:
        """The number of dimensions of the coordinates."""
        return len(self.center)

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms that were fitted."""
        return tuple(self.weights)

    @property
    def beta(self) -> float:
        """The strength β of the noise, in squared units of the coordinates per unit of time."""
        self._need("internal", "beta")
        return float(self.weights["internal"]["beta"]) * self.speed * self.length

    def interaction(self, z: ArrayLike) -> Array:
        """The interaction kernel U at differences ``z`` (n, d) of two cells, as an array (n,).

        At no difference it is zero, and flat: a slope there would push all cells alike, and counts as potential.
        """
        points = np.vstack([np.zeros((1, self.n_dims)), self.points(z)])
        value = self._kernel(models.potentials, points) * self.length * self.speed
        return value[1:] - value[0] - points[1:] @ self._common_push

    def interaction_gradient(self, z: ArrayLike) -> Array:
        """∇U at differences ``z`` (n, d), as an array (n, d): minus the push that the second cell gives the first."""
        return self._kernel(models.gradients, self.points(z)) * self.speed - self._common_push

    def potential(self, x: ArrayLike, t: ArrayLike) -> Array:
        """V at points ``x`` (n, d) and time ``t`` (a number, or one for each point), as an array (n,).

        Its constant is chosen so that the mean over the first snapshot is zero, and so that from one snapshot to the
        next the population loses potential only by moving.
        """
        return self.potential_at(*self._place(x, t))

    def potential_at(self, x: ArrayLike, interval: NDArray[np.int64], end: Array) -> Array:
        """V as :meth:`potential` gives it, at a place in an interval: 0 its start, 1 its end."""
        value = self._evaluate(models.potentials, self.points(x), interval, end) * self.length * self.speed
        value += (self.points(x) - self.center) @ self._common_push
        return value + self.offsets[interval, 0] * (1 - end) + self.offsets[interval, 1] * end

    def gradient(self, x: ArrayLike, t: ArrayLike) -> Array:
        """∇V at points ``x`` (n, d) and time ``t``, as an array (n, d).

        Times outside the measured range are answered by the first or the last snapshot.

        The interval that starts at or contains ``t`` is used; at the last snapshot, the last interval from its end.
        """
        return self.gradient_at(*self._place(x, t))

    def gradient_at(self, x: ArrayLike, interval: NDArray[np.int64], end: Array) -> Array:
        """∇V as :meth:`gradient` gives it, at a place in an interval: 0 its start, 1 its end."""
        return self._evaluate(models.gradients, self.points(x), interval, end) * self.speed + self._common_push

    def velocity(self, x: ArrayLike, t: ArrayLike) -> Array:
        """−∇J at points ``x`` (n, d) and time ``t``: −∇V, and −∫∇U dμ − β∇log ρ where those terms were fitted.

        The population μ and its density ρ are those of the nearer end of the interval.
        """
        return self.velocity_at(*self._place(x, t))

    def velocity_at(self, x: ArrayLike, interval: NDArray[np.int64], end: Array) -> Array:
        """−∇J as :meth:`velocity` gives it, at a place in an interval: 0 its start, 1 its end."""
        slope = self.drift_at(self.points(x), interval, end)
        if self.mixtures:
            slope = slope + self.beta / self.length * self._score(self.points(x), interval, end)
        return -slope

    def hessian(self, x: ArrayLike, t: ArrayLike) -> Array:
        """∇²V at points ``x`` (n, d) and time ``t``, as an array (n, d, d)."""
        return self._evaluate(models.hessians, *self._place(x, t)) * self.speed / self.length

    def step(self, x: ArrayLike, t0: float, t1: float, *, scheme: str | None = None, random_state: int = 0) -> Array:
        """Cells at ``x`` (n, d) moved from time ``t0`` to ``t1``, as an array (n, d).

        One step is taken per interval crossed, by the scheme of the fit unless another is asked for. A time inside an
        interval is reached part of the way along the straight line of the whole step; beyond the last snapshot the
        last interval's energy goes on; with ``t1 < t0`` the cells are moved back. An internal energy adds noise of size
        √(2βΔ) to each step forward, drawn with ``random_state``.
        """
        moved = self.move(x, t0, t1, scheme=scheme, random_state=random_state)
        failed = int((~moved.converged).sum())
        if failed:
            logger.warning(
                "The proximal step from %s to %s was not solved for %d of %d cells; their positions are not to be "
                "trusted. scheme='explicit' needs no solver.",
                time_text(t0),
                time_text(t1),
                failed,
                len(moved.converged),
            )
        return moved.positions

    def move(self, x: ArrayLike, t0: float, t1: float, *, scheme: str | None = None, random_state: int = 0) -> Step:
        """As :meth:`step`, with a flag for each cell that says whether its steps were solved."""
        return motion.move(self, self.points(x), t0, t1, scheme, random_state)

    def simulate(self, x: ArrayLike, times: ArrayLike, *, scheme: str | None = None, random_state: int = 0) -> Array:
        """Cells at ``x`` (n, d) and ``times[0]``, followed through all ``times``: an array (n_times, n, d).

        One step is taken per interval, whatever times are asked for; those inside an interval are read off on the way.
        """
        return motion.simulate(self, self.points(x), times, scheme, random_state)

    def _evaluate(self, function: Callable[..., Any], x: Array, interval: NDArray[np.int64], end: Array) -> Array:
        weights = self.weights["potential"]
        (values,) = in_blocks(
            lambda *block: (function(self.model, weights, *block),), self.inner(x), self.labels(interval, end)
        )
        return values

    def drift_at(self, x: Array, interval: NDArray[np.int64], end: Array) -> Array:
        """∇V + ∫∇U dμ, with μ the snapshot at the nearer end of the interval."""
        slope = self.gradient_at(x, interval, end)
        if self.interaction_model is None:
            return slope
        z, nearer = self.inner(x), interval + np.rint(end).astype(np.int64)
        felt = partial(interaction_gradients, self.interaction_model, self.weights["interaction"])
        for k in np.unique(nearer):
            among = self.populations[k].filled
            (pushed,) = in_blocks(lambda block, among=among: (felt(block, *among),), z[nearer == k], largest=512)
            slope[nearer == k] += pushed * self.speed - self._common_push
        return slope

    @cached_property
    def _common_push(self) -> Array:
        """∇U at no difference: the part of the fitted kernel that pushes all cells alike; zero without interaction."""
        if self.interaction_model is None:
            return np.zeros(self.n_dims)
        return self._kernel(models.gradients, np.zeros((1, self.n_dims)))[0] * self.speed

    def _score(self, x: Array, interval: NDArray[np.int64], end: Array) -> Array:
        """∇log ρ in the units of the fit, with ρ the density of the snapshot at the nearer end of the interval."""
        z, nearer = (x - self.center) / self.length, interval + np.rint(end).astype(np.int64)
        return scores(self.mixtures, z, nearer)

    def _kernel(self, function: Callable[..., Any], z: Array) -> Array:
        self._need("interaction", "interaction")
        labels = np.tile(NO_LABEL, (len(z), 1))
        (values,) = in_blocks(
            lambda *block: (function(self.interaction_model, self.weights["interaction"], *block),),
            (z / self.length).astype(np.float32),
            labels,
        )
        return values

    def _need(self, term: str, asked: str) -> None:
        if term not in self.weights:
            raise ValueError(
                f"This energy has no {asked}: it was fitted with terms={self.terms}. Fit with {term!r} among the terms."
            )

    def labels(self, interval: NDArray[np.int64], end: Array) -> NDArray[np.float32]:
        """What the model is told of the interval: its label and, fitted at both ends, which end."""
        return conditioning(self.intervals, interval, end, self.scheme, self.mixing)

    def _place(self, x: ArrayLike, t: ArrayLike) -> tuple[Array, NDArray[np.int64], Array]:
        x = self.points(x)
        times = np.asarray(t, dtype=np.float64)
        if times.shape not in ((), (len(x),)):
            raise ValueError(f"t must be one time, or one for each of the {len(x)} points, not {times.shape}.")
        if not np.isfinite(times).all():
            raise ValueError(f"t must be finite, not {times[~np.isfinite(times)].flat[0]}.")
        return x, *self.intervals.locate(np.broadcast_to(times, len(x)))

    def points(self, x: ArrayLike) -> Array:
        """``x`` as float64 coordinates, if they are ones that this energy takes."""
        points = np.asarray(x, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != self.n_dims:
            raise ValueError(f"x has shape {points.shape}; this energy takes points of shape (n, {self.n_dims}).")
        if not np.isfinite(points).all():
            raise ValueError("x holds NaN or infinite coordinates.")
        return points

    def inner(self, x: Array) -> NDArray[np.float32]:
        """Coordinates as the models take them."""
        return ((x - self.center) / self.length).astype(np.float32)
