"""Parametrised potentials: functions V(weights, z, c) of a point z and what is known of its interval, c."""

from __future__ import annotations

from functools import partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp

Weights = Any
"""The weights of a model: a nested dict of float32 arrays."""


class NeuralPotential(nn.Module):
    """A multi-layer perceptron with softplus activations, as in the paper's appendix on network architecture."""

    layers: tuple[int, ...]

    @nn.compact
    def __call__(self, z: jax.Array, c: jax.Array) -> jax.Array:
        """V(z, c), a number for each point."""
        h = jnp.concatenate([z, c], axis=-1)
        for width in self.layers:
            h = nn.softplus(nn.Dense(width)(h))
        return nn.Dense(1)(h)[..., 0]


def potential(model: NeuralPotential, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
    """V at one point."""
    value = model.apply({"params": weights}, z, c)
    return jnp.asarray(value)


gradient = jax.grad(potential, argnums=2)
hessian = jax.hessian(potential, argnums=2)


@partial(jax.jit, static_argnums=0)
def potentials(model: NeuralPotential, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
    """V at each of many points."""
    return jax.vmap(potential, (None, None, 0, 0))(model, weights, z, c)


@partial(jax.jit, static_argnums=0)
def gradients(model: NeuralPotential, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
    """∇V at each of many points."""
    return jax.vmap(gradient, (None, None, 0, 0))(model, weights, z, c)


@partial(jax.jit, static_argnums=0)
def hessians(model: NeuralPotential, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
    """∇²V at each of many points."""
    return jax.vmap(hessian, (None, None, 0, 0))(model, weights, z, c)
