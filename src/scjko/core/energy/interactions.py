"""Interaction energy: what a cell feels from the population it belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..compute.blocks import filled, room
from .density import log_density
from .models import LinearPotential, Model, Weights

Array = NDArray[np.float64]

#: A snapshot of more cells than this acts through a random subsample of this many.
MAX_POPULATION = 1000
#: Smaller ones are filled up to these sizes with cells that weigh nothing, so that few programs are compiled.
POPULATIONS = (32, 125, 250, 500, MAX_POPULATION)
#: Rows that feel a whole population at a time; bounds memory to this many × the population × the network's width.
ROWS = 8
#: What a kernel is told of its place: it does not vary in time.
NO_INPUT = np.ones(1, np.float32)


class Population(NamedTuple):
    """The cells that others feel, with weights that sum to one."""

    points: NDArray[np.float32]
    weight: NDArray[np.float32]

    @property
    def filled(self) -> Population:
        """The same population in one of few sizes, with cells behind that weigh nothing."""
        size = room(len(self.weight), POPULATIONS)
        return Population(filled(self.points, size), filled(self.weight, size))


def population(points: Array, weight: Array, random_state: int, size: int = MAX_POPULATION) -> Population:
    """The cells of any weight if they are few, otherwise a random subsample of ``size`` of them."""
    points, weight = points[weight > 0], weight[weight > 0]
    if len(points) > size:
        chosen = np.sort(np.random.default_rng(random_state).choice(len(points), size, replace=False))
        points, weight = points[chosen], weight[chosen]
    return Population(points.astype(np.float32), (weight / weight.sum()).astype(np.float32))


@dataclass(frozen=True)
class Among:
    """The potential that a cell feels among others, V + s ∫U dμ + β log ρ, as a model of its own.

    Its weights are those of V, and of U with the population and its share s, and of ρ, where these are felt.
    """

    potential: Model
    interaction: Model | None

    @property
    def by_place(self) -> bool:
        """Its weights are those at one place."""
        return self.potential.by_place

    def at(self, weights: Weights, c: Any) -> Weights:
        """The weights as they are, which are those at one place."""
        return weights

    def size(self, weights: Weights) -> int:
        """That of the potential."""
        return self.potential.size(weights["potential"])

    def value(self, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
        """The sum with these weights."""
        total = self.potential.value(weights["potential"], z, c)
        if self.interaction is not None:
            points, mass = weights["population"]["points"], weights["population"]["weight"]
            felt = _mean_value(self.interaction, weights["interaction"], z, points, mass)
            total = total + weights["share"] * felt
        if "density" in weights:
            density = weights["density"]
            total = total + density["beta"] * log_density(density, z)
        return total


def _mean_value(model: Model, weights: Weights, z: jax.Array, others: jax.Array, weight: jax.Array) -> jax.Array:
    return weight @ jax.vmap(model.value, (None, 0, None))(weights, z[None, :] - others, jnp.asarray(NO_INPUT))


@partial(jax.jit, static_argnums=0)
def interaction_gradients(
    model: Model, weights: Weights, z: jax.Array, others: jax.Array, weight: jax.Array
) -> jax.Array:
    """∫ ∇U(z − z') dμ(z') at each of many points, a few rows at a time."""
    if isinstance(model, LinearPotential):
        return jnp.einsum("i,nid->nd", weights["theta"][0], feature_forces(model, weights, z, others, weight))
    slope = jax.grad(partial(_mean_value, model), argnums=1)
    return jax.lax.map(lambda row: slope(weights, row, others, weight), z, batch_size=ROWS)


@partial(jax.jit, static_argnums=0)
def feature_forces(
    model: LinearPotential, weights: Weights, z: jax.Array, others: jax.Array, weight: jax.Array
) -> jax.Array:
    """∫ ∇φ(z − z') dμ(z') of every feature at each of many points (n, n_features, d), row by row."""
    return jax.lax.map(lambda row: model.mean_feature_gradient(weights, row[None, :] - others, weight), z)
