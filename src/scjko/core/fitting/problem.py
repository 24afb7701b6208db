"""What is fitted: the first-order conditions in units of order one, with all that their slopes are made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..condition import Conditions, anchored, conditions
from ..energy.density import Mixture, fit_mixture, scores
from ..energy.interactions import Population, population
from ..energy.models import Model, Weights
from ..energy.terms import Units
from ..growth.estimate import Growth
from ..schemes import Scheme
from ..timeline import Timeline
from ..transport import Coupling, OperatorCoupling, grown
from ..variation import Variation
from .closed_form import Solution

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Displacements below this fraction of the population's spread are rounding: such cells do not move.
STILL = 1e-12


@dataclass(frozen=True, eq=False)
class Course:
    """Coupled snapshots: what an energy is fitted to."""

    points: Sequence[Array]
    weights: Sequence[Array]
    couplings: Sequence[Coupling | OperatorCoupling]
    timeline: Timeline
    growth: Growth | None = None
    """How mass grows from one snapshot to the next; None if it does not."""

    @property
    def sources(self) -> list[Array]:
        """For each interval the weights of its source cells once they have grown."""
        if self.growth is None:
            return list(self.weights[:-1])
        return [grown(*pair) for pair in zip(self.weights[:-1], self.growth.gains, strict=True)]

    def at(self, place: float) -> tuple[Array, Array]:
        """The cells at a place and their weights: snapshot k, or at k + ½ the middle of interval k."""
        k, anchor = int(place), place % 1
        if anchor == 0:
            return self.points[k], self.weights[k]
        z, _, weight = anchored(self.points[k], self.points[k + 1], self.couplings[k], anchor)
        return z, weight

    def places(self, scheme: Scheme) -> list[float]:
        """The snapshots, and the places between them where the condition holds."""
        inner = {k + a for k in range(self.timeline.n_intervals) for a in scheme.anchors}
        return sorted({*map(float, range(len(self.points))), *inner})


def units_of(course: Course, rows: Conditions, variation: Variation) -> Units:
    """The centre of all cells, their root-mean-square spread, and the unit of velocities in each interval.

    Snapshots weigh as much as they have cells of any weight. If intervals share coefficients they share the unit of
    velocities, otherwise that of displacements: then short and long intervals are fitted alike. Units are one where
    nothing spreads or moves.
    """
    cells, sizes = np.concatenate(course.points), [np.count_nonzero(w) for w in course.weights]
    weight = np.concatenate([w * size for w, size in zip(course.weights, sizes, strict=True)]) / sum(sizes)
    if np.ptp(weight) <= 1e-12 * weight.max():  # then means are more exact
        center = cells.mean(axis=0)
        length = float(np.sqrt(np.mean((cells - center) ** 2)))
    else:
        center = weight @ cells
        length = float(np.sqrt(weight @ np.mean((cells - center) ** 2, axis=1)))
    gaps = course.timeline.gaps
    if variation.shared:
        speed = np.full(len(gaps), _root_mean_square(rows.velocity, rows.importance))
    else:
        speed = _root_mean_square(rows.velocity * rows.gap[:, None], rows.weight) / gaps
    # Cells that only seem to move, by rounding, do not set the unit.
    still = float((speed * gaps).max()) <= STILL * length
    return Units(center, length or 1.0, np.ones(len(gaps)) if still else speed)


def _root_mean_square(values: Array, weight: Array) -> float:
    return float(np.sqrt(relative(weight) @ np.mean(values**2, axis=1) / len(weight)))


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows of conditions, ready for a model: points, inputs, velocities, weights, and the terms that are active."""

    z: NDArray[np.float32]
    inputs: NDArray[np.float32]
    """What the model is told of each point's place."""
    velocity: Array
    weight: Array
    """Weights of mean one."""
    interval: Index
    anchor: Array
    pace: Array
    """The unit of velocities that all intervals have in common, over that of each row's interval."""
    populations: Mapping[float, Population] = field(default_factory=dict)
    """The cells that others feel, by place; empty without interaction."""
    even: bool = False
    """Whether the interaction kernel is even."""
    score: Array = field(default_factory=lambda: np.zeros((0, 0, 0)))
    """∇ log ρ at each point (n, 1, d), or (n, 0, d) without internal energy, in the units of the row."""
    mixtures: Mapping[float, Mixture] = field(default_factory=dict)
    """Densities by place; empty without internal energy."""
    beta: float = 0.0
    """The strength of the noise in the units of the fit. It is known, and velocities are those without it."""

    @property
    def place(self) -> Array:
        """The population that each point belongs to."""
        return self.interval + self.anchor

    @property
    def n_dims(self) -> int:
        """The number of dimensions."""
        return self.z.shape[1]

    def rows(self, chosen: Index) -> Problem:
        """The same problem with some of its rows."""
        names = ("z", "inputs", "velocity", "weight", "interval", "anchor", "pace", "score")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})


class Solved(NamedTuple):
    """The models that solve a problem, and how they were found."""

    weights: Weights
    """Of the potential, and of the interaction kernel if there is one."""
    model: Model
    kernel: Model | None
    losses: Array | None = None
    """Of networks: the mean loss of each epoch, relative to a zero energy."""
    solution: Solution | None = None
    """Of features: how well their coefficients are determined."""
    parts: Sequence[Course] = ()
    """Of a mean over members: the cells that each of them was fitted to."""


@dataclass(frozen=True, eq=False)
class Formulation:
    """How snapshots are posed as a problem: where conditions hold, what a model is told of that, and in which units."""

    timeline: Timeline
    scheme: Scheme
    variation: Variation
    units: Units

    @classmethod
    def of(cls, course: Course, scheme: Scheme, variation: Variation) -> Formulation:
        """That of a course, in units in which its cells and velocities are of order one."""
        rows = conditions(course.points, course.couplings, course.timeline, scheme)
        return cls(course.timeline, scheme, variation, units_of(course, rows, variation))

    def conditions(self, course: Course) -> Conditions:
        """The conditions of these snapshots, or of a part of their cells."""
        return conditions(course.points, course.couplings, self.timeline, self.scheme)

    def problem(
        self,
        rows: Conditions,
        populations: Mapping[float, Population] | None = None,
        mixtures: Mapping[float, Mixture] | None = None,
        even: bool = False,
        beta: float = 0.0,
    ) -> Problem:
        """The problem that conditions pose, once β is known."""
        units = self.units
        z, speed = (rows.points - units.center) / units.length, units.speed[rows.interval]
        pace = common_speed(units) / speed
        score, velocity = np.zeros((len(z), 0, z.shape[1])), rows.velocity / speed[:, None]
        if mixtures:
            score = pace[:, None, None] * scores(mixtures, z, rows.place)[:, None, :]
            velocity = velocity + beta * score[:, 0]
        return Problem(
            z.astype(np.float32),
            self.variation.inputs(self.timeline, rows.interval, rows.anchor, self.scheme.anchors),
            velocity,
            relative(rows.importance * speed**2),
            rows.interval,
            rows.anchor,
            pace,
            populations or {},
            even,
            score,
            mixtures or {},
            beta,
        )

    def populations(self, course: Course, random_state: int) -> dict[float, Population]:
        """The cells that others feel, at every place."""
        return {place: population(*self._at(course, place), random_state) for place in course.places(self.scheme)}

    def densities(self, course: Course, n_components: int, random_state: int) -> dict[float, Mixture]:
        """The density at every place, in the units of the fit."""
        places = course.places(self.scheme)
        return {place: fit_mixture(*self._at(course, place), n_components, random_state) for place in places}

    def _at(self, course: Course, place: float) -> tuple[Array, Array]:
        """The cells at a place in the units of the fit, and their weights."""
        x, weight = course.at(place)
        return (x - self.units.center) / self.units.length, weight


def common_speed(units: Units) -> float:
    """The unit of velocities of terms that do not vary in time: that of the slowest interval."""
    return float(units.speed.min())


def relative(weight: Array) -> Array:
    """Weights of mean one."""
    return weight * (len(weight) / weight.sum())
