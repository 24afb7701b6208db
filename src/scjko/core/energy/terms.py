"""The terms of an energy: J(μ) = ∫V dμ + ∬U(x − y) dμdμ + β∫ρ log ρ, each with its slope at a point of a population.

Terms take coordinates in the user's units and give values in them. What is fitted is of order one: coordinates are
centred and divided by a length, velocities by a speed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..compute.blocks import in_blocks
from ..schemes import Scheme
from ..timeline import Timeline
from ..variation import Joined, Variation
from . import models
from .density import Mixture
from .envelopes import MeanPotential, evaluated
from .interactions import NO_INPUT, Population, interaction_gradients
from .models import Model, Weights

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Rows that feel a whole population at a time.
FELT_ROWS = 512
#: The largest coordinate that models take, in units of the population's spread.
LARGEST = 1e30


@dataclass(frozen=True, eq=False)
class Units:
    """The units of a fit: coordinates are centred and divided by ``length``, velocities divided by ``speed``."""

    center: Array
    length: float
    speed: Array
    """One for each interval."""

    def inner(self, x: Array) -> NDArray[np.float32]:
        """Coordinates as models take them; those of cells that ran away are cut, so that they fit into float32."""
        z = x - self.center
        z /= self.length  # in place: of many cells every copy counts
        return np.clip(z, -LARGEST, LARGEST, out=z).astype(np.float32)


@dataclass(frozen=True, eq=False)
class PotentialTerm:
    """V at the anchors of intervals: where cells go on their own."""

    model: Model
    weights: Weights
    units: Units
    timeline: Timeline
    scheme: Scheme
    variation: Variation
    offsets: Array
    """The constant added at the start and the end of each interval (n_intervals, 2)."""

    @property
    def field(self) -> PotentialTerm:
        """What the field is read off: of a mean its smooth part, the network, of others the potential itself."""
        if not isinstance(self.model, MeanPotential):
            return self
        assert isinstance(self.variation, Joined)
        smooth, weights = self.model.smooth(self.weights)
        return replace(self, model=smooth, weights=weights, variation=self.variation.parts[0])

    def inputs(self, interval: Index, anchor: Array) -> NDArray[np.float32]:
        """What the model is told of each place."""
        return self.variation.inputs(self.timeline, interval, anchor, self.scheme.anchors)

    def value(self, x: Array, interval: Index, anchor: Array) -> Array:
        """V at points (n, d), as an array (n,)."""
        value = self._evaluate(models.potentials, x, interval, anchor) * self.units.length * self.units.speed[interval]
        return value + self.offsets[interval, 0] * (1 - anchor) + self.offsets[interval, 1] * anchor

    def gradient(self, x: Array, interval: Index, anchor: Array) -> Array:
        """∇V at points (n, d), as an array (n, d)."""
        return self._evaluate(models.gradients, x, interval, anchor) * self.units.speed[interval, None]

    def hessian(self, x: Array, interval: Index, anchor: Array) -> Array:
        """∇²V at points (n, d), as an array (n, d, d)."""
        scale = self.units.speed[interval, None, None] / self.units.length
        return self._evaluate(models.hessians, x, interval, anchor) * scale

    def placed(self, interval: int, anchor: float) -> Weights:
        """The weights that V depends on at one place."""
        return self.model.at(self.weights, self.inputs(np.array([interval]), np.array([anchor]))[0])

    def _evaluate(self, function: Callable[..., Any], x: Array, interval: Index, anchor: Array) -> Array:
        z, inputs = self.units.inner(x), self.inputs(interval, anchor)
        if not self.model.by_place or not len(z):
            return evaluated(self.model, function, self.weights, z, inputs)
        places, members = np.unique(np.stack([interval, anchor], axis=1), axis=0, return_inverse=True)
        found = None
        for k, (own, fraction) in enumerate(places):
            rows = np.flatnonzero(members.ravel() == k)
            part = evaluated(self.model, function, self.placed(int(own), float(fraction)), z[rows], inputs[rows])
            found = np.empty((len(z), *part.shape[1:])) if found is None else found
            found[rows] = part
        assert found is not None
        return found


@dataclass(frozen=True, eq=False)
class InteractionTerm:
    """U, how cells attract or repel each other, and the populations that are felt.

    A slope of the kernel at no difference pushes all cells alike, as a linear potential does. It is counted as
    potential, and the kernel here is without it.
    """

    model: Model
    weights: Weights
    units: Units
    speed: float
    """The unit of velocities, one for all intervals."""
    populations: Mapping[float, Population]
    """The cells that others feel, by place: k for snapshot k, k + ½ for the middle of interval k."""

    def kernel(self, z: Array) -> Array:
        """U at differences (n, d), zero at no difference."""
        points = np.vstack([np.zeros((1, z.shape[1])), z])
        value = self._evaluate(models.potentials, points) * self.units.length * self.speed
        return value[1:] - value[0] - z @ self.common_push

    def kernel_gradient(self, z: Array) -> Array:
        """∇U at differences (n, d): minus the push that the second cell gives the first."""
        return self._evaluate(models.gradients, z) * self.speed - self.common_push

    @cached_property
    def common_push(self) -> Array:
        """The slope of the fitted kernel at no difference, which counts as potential."""
        return self._evaluate(models.gradients, np.zeros((1, len(self.units.center))))[0] * self.speed

    def slope(self, x: Array, among: Population) -> Array:
        """∫ ∇U(x − x') dμ(x') at points (n, d)."""
        felt, others = partial(interaction_gradients, self.model, self.weights), among.filled
        (pushed,) = in_blocks(lambda block: (felt(block, *others),), self.units.inner(x), largest=FELT_ROWS)
        return pushed * self.speed - self.common_push

    def _evaluate(self, function: Callable[..., Any], z: Array) -> Array:
        (values,) = in_blocks(
            lambda *block: (function(self.model, self.weights, *block),),
            (z / self.units.length).astype(np.float32),
            np.tile(NO_INPUT, (len(z), 1)),
        )
        return values


@dataclass(frozen=True, eq=False)
class InternalTerm:
    """β, how strongly cells spread at random, and the densities of their populations."""

    beta: float
    """In squared units of the coordinates per unit of time."""
    units: Units
    mixtures: Mapping[float, Mixture]
    """Densities by place, in the units of the fit."""

    def slope(self, x: Array, place: float) -> Array:
        """β ∇log ρ at points (n, d)."""
        z = (x - self.units.center) / self.units.length
        return self.beta / self.units.length * self.mixtures[place].score(z)
