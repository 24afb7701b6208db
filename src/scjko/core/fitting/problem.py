"""What is fitted: the first-order conditions in units of order one, with all that their slopes are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..condition import Conditions
from ..energy.density import Mixture, fit_mixture, scores
from ..energy.interactions import Population, population
from ..timeline import Intervals, conditioning

Array = NDArray[np.float64]

TERMS = ("potential", "interaction", "internal")
#: Displacements below this fraction of the population's spread are rounding: such cells do not move.
STILL = 1e-12


@dataclass(frozen=True)
class Scales:
    """The units of a fit: coordinates are centred and divided by ``length``, velocities divided by ``speed``."""

    center: Array
    length: float
    speed: float

    @classmethod
    def of(cls, points: Sequence[Array], weights: Sequence[Array], rows: Conditions, gap: float) -> Scales:
        """The centre of all cells, their root-mean-square spread, and that of the velocities; one where that is zero.

        Snapshots weigh as much as they have cells of any weight; ``gap`` is the longest time between two of them.
        """
        cells, sizes = np.concatenate(points), [np.count_nonzero(w) for w in weights]
        weight = np.concatenate([w * size for w, size in zip(weights, sizes, strict=True)]) / sum(sizes)
        if np.ptp(weight) <= 1e-12 * weight.max():  # then means are more exact
            center = cells.mean(axis=0)
            length = float(np.sqrt(np.mean((cells - center) ** 2)))
        else:
            center = weight @ cells
            length = float(np.sqrt(weight @ np.mean((cells - center) ** 2, axis=1)))
        speed = float(np.sqrt(relative(rows.importance) @ np.mean(rows.velocity**2, axis=1) / len(rows.weight)))
        # Cells that only seem to move, by rounding, do not set the unit.
        still = speed * gap <= STILL * length
        return cls(center, length or 1.0, 1.0 if still else speed)

    def inner(self, x: Array) -> Array:
        """Coordinates in the units of the fit."""
        return (x - self.center) / self.length


@dataclass(frozen=True)
class Problem:
    """Rows of conditions, ready for a model: points, labels, velocities, weights, and the terms that are active."""

    z: NDArray[np.float32]
    labels: NDArray[np.float32]
    velocity: Array
    weight: Array
    """Weights of mean one."""
    interval: NDArray[np.int64]
    end: Array
    """Which interval each point stands in, and at which end of it."""
    populations: tuple[Population, ...]
    """Of each snapshot, the cells that others feel; empty without interaction."""
    mixtures: tuple[Mixture, ...]
    """Of each snapshot, its density; empty without internal energy."""
    score: Array
    """∇ log ρ at each point (n, 1, d), or (n, 0, d) without internal energy."""

    @property
    def snapshot(self) -> NDArray[np.int64]:
        """The snapshot that each point belongs to."""
        return self.interval + self.end.astype(np.int64)

    @property
    def n_dims(self) -> int:
        """The number of dimensions."""
        return self.z.shape[1]


def make_problem(
    points: Sequence[Array],
    point_weights: Sequence[Array],
    rows: Conditions,
    scales: Scales,
    intervals: Intervals,
    *,
    terms: Sequence[str],
    scheme: str,
    mixing: str,
    n_components: int,
    random_state: int,
) -> Problem:
    """The problem that these conditions pose to an energy of these terms."""
    z = scales.inner(rows.points)
    snapshot = rows.interval + rows.end.astype(np.int64)
    inner = [scales.inner(x) for x in points]
    populations: tuple[Population, ...] = ()
    mixtures: tuple[Mixture, ...] = ()
    score = np.zeros((len(z), 0, z.shape[1]))
    if "interaction" in terms:
        populations = tuple(population(x, w, random_state) for x, w in zip(inner, point_weights, strict=True))
    if "internal" in terms:
        mixtures = tuple(
            fit_mixture(x, w, n_components, random_state) for x, w in zip(inner, point_weights, strict=True)
        )
        score = scores(mixtures, z, snapshot)[:, None, :]
    return Problem(
        z.astype(np.float32),
        conditioning(intervals, rows.interval, rows.end, scheme, mixing),
        rows.velocity / scales.speed,
        relative(rows.importance),
        rows.interval,
        rows.end,
        populations,
        mixtures,
        score,
    )


def relative(weight: Array) -> Array:
    """Weights of mean one."""
    return weight * (len(weight) / weight.sum())
