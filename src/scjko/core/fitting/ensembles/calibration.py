"""How the spread of members becomes the error of their mean: see :mod:`scjko.core.energy.spread`."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from ...energy.energy import Energy
from ...energy.spread import Radii, Spread, members_of
from ..halves import FEWEST
from ..heights import offsets
from ..problem import Course
from .regions import radii

logger = logging.getLogger("scjko")

Array = NDArray[np.float64]

#: Cells of a snapshot over which the spread is calibrated, at most.
MAX_CELLS = 300
#: The level of the bands that standard deviations are made for.
LEVEL = 0.9


class Calibration(NamedTuple):
    """How the deviation of members is turned into a standard deviation."""

    ratio: float
    """The variance of their mean over the mean square deviation of members from it."""
    freedom: float
    """Degrees of freedom of a mean square deviation at one point."""

    @property
    def factor(self) -> float:
        """What to multiply root mean square deviations by, for bands of Gaussian width that cover :data:`LEVEL`.

        Few members say little of their own spread: Student's t in place of the Gaussian.
        """
        quantile = (1 + LEVEL) / 2
        return float(np.sqrt(self.ratio) * stdtrit(self.freedom, quantile) / ndtri(quantile))


def calibrated(values: Array) -> Calibration:
    """The calibration of values of members (n_members, ...), two and two of which have no cell in common."""
    n = len(values) // 2
    pairs = values[: 2 * n].reshape(n, 2, -1)
    means = pairs.mean(axis=1)
    apart = np.mean((pairs[:, 0] - pairs[:, 1]) ** 2) / 4
    between = np.mean(np.var(means, axis=0, ddof=1)) if n > 1 else 0.0
    deviation = np.mean(np.var(values, axis=0))
    if not deviation > 0:
        return Calibration(1.0, float(n))
    # Members that have nothing in common but the truth are the least; a mean cannot be worse than two of its members.
    ratio = np.clip((apart - (1 - 1 / n) * between) / deviation, 1 / max(len(values) - 1, 1), 1.0)
    around = between * (n - 1) / n
    return Calibration(float(ratio), float((apart + around) ** 2 / (apart**2 / n + around**2 / max(n - 1, 1))))


def with_spread(energy: Energy, parts: Sequence[Course], course: Course) -> Energy:
    """The energy with the spread of its members, which were fitted to these parts, if it has members."""
    term = energy.potential_term
    models = members_of(term.model, term.weights)
    if len(models) % 2 or len(models) != len(parts):
        return energy
    if min(int(np.count_nonzero(weight)) for weight in course.weights) < FEWEST:
        logger.info("The smallest snapshot has fewer than %d cells, too few to resample: no standard errors.", FEWEST)
        return energy
    none = np.zeros((len(models), course.timeline.n_intervals, 2))
    n_intervals = course.timeline.n_intervals
    unknown = Radii(np.array([LEVEL]), np.full((n_intervals, 1), np.inf), np.ones(n_intervals))
    sure = replace(energy, spread=Spread(none, 1.0, 1.0, unknown))
    heights = [
        offsets(member.field, part.points, part.weights, None if part.growth is None else part.sources)
        for member, part in zip(sure.members, parts, strict=True)
    ]
    sure = replace(energy, spread=Spread(np.stack(heights), 1.0, 1.0, unknown))
    if not sure.has_std:
        return replace(energy, spread=Spread(np.stack(heights), 1.0, 1.0, radii(sure.members, parts, course)))
    x, t = _some_cells(course)
    potential = calibrated(np.stack([member.potential(x, t) for member in sure.members]))
    velocity = calibrated(np.stack([member.velocity(x, t) for member in sure.members]))
    factors = potential.factor, velocity.factor
    return replace(energy, spread=Spread(np.stack(heights), *factors, radii(sure.members, parts, course)))


def _some_cells(course: Course) -> tuple[Array, Array]:
    """Random cells of every snapshot, and their times."""
    rng = np.random.default_rng(0)
    chosen = [rng.permutation(np.flatnonzero(weight > 0))[:MAX_CELLS] for weight in course.weights]
    points = [x[own] for x, own in zip(course.points, chosen, strict=True)]
    times = [np.full(len(own), time) for own, time in zip(chosen, course.timeline.times, strict=True)]
    return np.concatenate(points), np.concatenate(times)
