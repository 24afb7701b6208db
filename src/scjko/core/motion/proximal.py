"""Proximal steps: the minimiser of a potential plus half the squared distance from where a cell is.

A negative rate is allowed: it inverts an explicit step.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve

from ..energy.models import Model, Weights

#: Largest slope of the objective that counts as solved, in units of the population's spread. Float32 noise is 1e-6.
TOLERANCE = 1e-4
MAX_ITERATIONS = 100
#: The longest move of one iteration, and of all together, in the same units. A potential that falls without end far
#: from the cells, as polynomials may, must not carry them there.
LONGEST_MOVE = 0.5
FARTHEST = 5.0


class Proximal(NamedTuple):
    """Where each point went, and whether the minimum was found."""

    points: jax.Array
    value: jax.Array
    converged: jax.Array


class _State(NamedTuple):
    z: jax.Array
    value: jax.Array
    slope: jax.Array
    damping: jax.Array
    iteration: jax.Array


@partial(jax.jit, static_argnums=0)
def proximal(model: Model, weights: Weights, z: jax.Array, start: jax.Array, c: jax.Array, rate: jax.Array) -> Proximal:
    """argmin over w of rate · V(w, c) + ½‖w − z‖² for each point z, by a damped Newton method from ``start``.

    The minimum is the one that descent from ``start`` leads to; there may be others. A point whose slope is not below
    the tolerance after the last iteration is flagged as not converged.
    """
    return jax.vmap(partial(_proximal_point, model), (None, 0, 0, 0, None))(weights, z, start, c, rate)


@partial(jax.jit, static_argnums=0)
def objectives(model: Model, weights: Weights, z: jax.Array, w: jax.Array, c: jax.Array, rate: jax.Array) -> jax.Array:
    """What :func:`proximal` minimises, at points ``w``."""
    return jax.vmap(partial(_objective, model), (None, 0, 0, 0, None))(weights, z, w, c, rate)


def _objective(model: Model, weights: Weights, z: jax.Array, w: jax.Array, c: jax.Array, rate: jax.Array) -> jax.Array:
    return rate * model.value(weights, w, c) + jnp.sum((w - z) ** 2) / 2


def _proximal_point(
    model: Model, weights: Weights, z: jax.Array, begin: jax.Array, c: jax.Array, rate: jax.Array
) -> Proximal:
    def objective(w: jax.Array) -> jax.Array:
        return _objective(model, weights, z, w, c, rate)

    value_and_slope = jax.value_and_grad(objective)
    curvature = jax.hessian(objective)

    def unsolved(state: _State) -> jax.Array:
        near = _norm(state.z - z) < FARTHEST
        return (state.iteration < MAX_ITERATIONS) & (_norm(state.slope) > TOLERANCE) & near

    def iterate(state: _State) -> _State:
        # Cholesky gives NaN where the matrix is not positive definite: such a step is refused and the damping grows
        # until it is, and until the step, which it also shortens, goes downhill.
        damped = curvature(state.z) + state.damping * jnp.eye(z.shape[0], dtype=z.dtype)
        step = -cho_solve((jnp.linalg.cholesky(damped), True), state.slope)
        step = step * jnp.minimum(1.0, LONGEST_MOVE / jnp.maximum(_norm(step), 1e-30))
        moved = state.z + step
        value, slope = value_and_slope(moved)
        downhill = value <= state.value + 1e-4 * jnp.sum(step * state.slope)
        # Close to the minimum the objective's change drowns in rounding; there a shrinking slope is the better sign.
        rounding = 1e-6 * (1 + jnp.abs(state.value))
        shrinking = (_norm(slope) <= _norm(state.slope) / 2) & (value <= state.value + rounding)
        accept = jnp.all(jnp.isfinite(step)) & jnp.isfinite(value) & (downhill | shrinking)
        return _State(
            jnp.where(accept, moved, state.z),
            jnp.where(accept, value, state.value),
            jnp.where(accept, slope, state.slope),
            jnp.where(accept, _relaxed(state.damping), jnp.maximum(4 * state.damping, 1e-2)),
            state.iteration + 1,
        )

    value, slope = value_and_slope(begin)
    start = _State(begin, value, slope, jnp.zeros((), z.dtype), jnp.zeros((), jnp.int32))
    state = jax.lax.while_loop(unsolved, iterate, start)
    return Proximal(state.z, state.value, _norm(state.slope) <= TOLERANCE)


def _relaxed(damping: jax.Array) -> jax.Array:
    return jnp.where(damping < 1e-2, 0.0, damping / 8)


def _norm(vector: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(vector * vector))
