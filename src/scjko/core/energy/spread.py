"""How sure an energy is: the spread of its members, as large as the error of their mean.

Members are what one procedure gives on resampled cells that are coupled anew: halves of the cells, two by two all of
them. The two members of a pair have no cell in common. Over repeats of the experiment they are independent, so that
half of their squared difference is, on average, the variance of a single member. With D the mean square of half the
difference of the two members of a pair, and P the variance of the means of K pairs,

    variance of the mean of all members = D − (1 − 1/K) P,

whatever the procedure is: nothing is assumed but that cells are independent. At a single point this is a difference of
two noisy numbers. Its ratio to the mean square deviation of members from their mean is estimated over many cells
instead (:mod:`scjko.core.fitting.ensembles.calibration`), and the deviation at each point is multiplied by its root.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, cast

import jax
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..timeline import time_text
from .envelopes import KantorovichPotential, MeanPotential
from .models import MEMBERS, EnsemblePotential, Model, Weights

if TYPE_CHECKING:
    from .energy import Energy
    from .terms import InteractionTerm

Array = NDArray[np.float64]


class Std(NamedTuple):
    """Standard deviations at many points: ±1.645 of them are bands that cover 90 %."""

    potential: Array
    """Of V (n,), its constants included."""
    velocity: Array
    """Of each component of the velocity (n, d)."""


class Region(NamedTuple):
    """Balls in which cells are found at a later time."""

    center: Array
    """Where the energy moves each cell (n, d)."""
    radius: Array
    """The radius of the ball around it (n,)."""


@dataclass(frozen=True, eq=False)
class Radii:
    """How far cells are found from where they were predicted, by the fraction of cells that are nearer."""

    levels: Array
    """Fractions, increasing."""
    radius: Array
    """The distance of each interval and level (n_intervals, n_levels), among as many cells as were fitted."""
    n_cells: Array
    """How many these are: the mean of both snapshots of each interval."""

    def at(self, interval: int, level: float, n_dims: int, n_cells: float | None = None) -> float:
        """The distance of one interval and any level in range, between those that are known by interpolation.

        Among ``n_cells`` of a snapshot, coupled by themselves: most of the distance is the noise of their coupling.
        """
        if not self.levels[0] <= level <= self.levels[-1]:
            raise ValueError(f"level={level!r} must be from {self.levels[0]:.2g} to {self.levels[-1]:.2g}.")
        known = float(self.n_cells[interval])
        return float(np.interp(level, self.levels, self.radius[interval])) * shrinkage(known, n_cells or known, n_dims)


@dataclass(frozen=True, eq=False)
class Spread:
    """What turns the deviations of members from their mean into the error of the mean."""

    offsets: Array
    """The constants of each member at the start and the end of each interval (n_members, n_intervals, 2)."""
    potential: float
    """The standard deviation of potentials over the root mean square deviation of members."""
    velocity: float
    """The same of velocities."""
    radii: Radii
    """Of prediction regions."""


class Uncertain:
    """An energy that may be the mean of members."""

    spread: Spread | None

    @cached_property
    def members(self) -> tuple[Energy, ...]:
        """The energies of resampled cells that this one is the mean of; empty if it was fitted once."""
        if self.spread is None:
            return ()
        energy = cast("Energy", self)
        term, kernel = energy.potential_term, energy.interaction_term
        kernels: list[InteractionTerm | None] = [None] * len(self.spread.offsets)
        if kernel is not None:
            kernels = [
                replace(kernel, model=model, weights=own) for model, own in members_of(kernel.model, kernel.weights)
            ]
        return tuple(
            replace(
                energy,
                potential_term=replace(term, model=model, weights=own, offsets=offsets),
                interaction_term=felt,
                spread=None,
            )
            for (model, own), offsets, felt in zip(
                members_of(term.model, term.weights), self.spread.offsets, kernels, strict=True
            )
        )

    @cached_property
    def has_std(self) -> bool:
        """Whether members have fields of their own: those beside one network share its."""
        if self.spread is None:
            return False
        field = cast("Energy", self).field.potential_term
        return len(members_of(field.model, field.weights)) > 1

    def std(self, x: ArrayLike, t: ArrayLike) -> Std:
        """Standard deviations of :meth:`potential` and :meth:`velocity` at points ``x`` (n, d) and time ``t``.

        They are errors of the procedure on cells like these: how far its result would be from its own mean if the
        experiment were repeated. A bias that all repeats share is not in them.
        """
        if self.spread is None or not self.has_std:
            raise self._single("standard deviations")
        points = cast("Energy", self).points(x)
        potential = deviation(np.stack([member.potential(points, t) for member in self.members]))
        velocity = deviation(np.stack([member.velocity(points, t) for member in self.members]))
        return Std(self.spread.potential * potential, self.spread.velocity * velocity)

    def region(self, x: ArrayLike, t0: float, t1: float, level: float = 0.9) -> Region:
        """Balls that hold cells at ``x`` (n, d) and ``t0`` at the next time point ``t1``, with probability ``level``.

        Their radius is that of the interval, by conformal prediction: so far are cells that were held out, and coupled
        apart from the others, from where members move them. It holds the noise of single cells, and that of couplings
        of as many cells as were fitted.
        """
        if self.spread is None:
            raise self._single("prediction regions")
        energy = cast("Energy", self)
        before = np.flatnonzero(energy.times[:-1] == t0)
        if not len(before) or energy.times[before[0] + 1] != t1:
            listed = ", ".join(map(time_text, energy.times))
            raise ValueError(
                f"Prediction regions lead from a time point to the next, of {listed}; not from {time_text(t0)} to "
                f"{time_text(t1)}."
            )
        center = energy.step(x, t0, t1)
        return Region(center, np.full(len(center), self.spread.radii.at(int(before[0]), level, energy.n_dims)))

    def _single(self, lacking: str) -> ValueError:
        return ValueError(
            f"This energy has no {lacking}: what they are read off was fitted once, and not to resampled cells. "
            "Fit with parametrization=sj.Neural(n_members=8), sj.Linear(n_members=8), sj.Kantorovich(n_members=8) or "
            "sj.Stacked(network=sj.Neural(n_members=8))."
        )


def shrinkage(n: float, m: float, n_dims: int) -> float:
    """The noise of couplings of ``m`` cells a snapshot, as a distance, over that of ``n``: it falls like n^(−1/d).

    Like n^(−1/2) in up to two dimensions (Fournier and Guillin 2015).
    """
    return float((n / m) ** (1 / max(n_dims, 2)))


def deviation(values: Array) -> Array:
    """The root mean square deviation of the rows of an array from their mean."""
    return np.asarray(np.sqrt(np.mean((values - values.mean(axis=0)) ** 2, axis=0)))


def members_of(model: Model, weights: Weights) -> list[tuple[Model, Weights]]:
    """The functions that a model is the mean of, with their weights; itself if there is but one.

    Of the mean of two potentials the members of one of them stand beside the other, if that has none.
    """
    if isinstance(model, EnsemblePotential):
        n = len(jax.tree.leaves(weights)[0])
        return [(model.member, jax.tree.map(lambda array, m=m: array[m], weights)) for m in range(n)]
    if MEMBERS in weights:
        own = {name: array for name, array in weights.items() if name != MEMBERS}
        return [(model, {**own, "theta": theta}) for theta in weights[MEMBERS]]
    if isinstance(model, KantorovichPotential):
        n = max(len(place["heights"]) for place in weights.values())
        return [(model, {name: _one(place, m) for name, place in weights.items()}) for m in range(n)]
    if isinstance(model, MeanPotential):
        names = [f"part{k}" for k in range(len(model.parts))]
        parts = [members_of(part, weights[name]) for name, part in zip(names, model.parts, strict=True)]
        n = max(map(len, parts))
        each = [[part[m % len(part)] for part in parts] for m in range(n)]
        return [
            (replace(model, parts=tuple(own for own, _ in row)), dict(zip(names, (w for _, w in row), strict=True)))
            for row in each
        ]
    return [(model, weights)]


def _one(place: Weights, m: int) -> Weights:
    """The weights at a place with the parabolas of one member."""
    return {**place, "points": place["points"][m : m + 1], "heights": place["heights"][m : m + 1]}
