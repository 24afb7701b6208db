"""Gradient descent on the first-order condition, hundreds of updates at a time as one compiled program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from ..compute.blocks import room
from ..condition import loss
from ..energy import models
from ..energy.interactions import NO_INPUT
from ..energy.models import NeuralPotential, Weights
from ..schemes import Scheme
from ..variation import Variation
from .parametrizations import Neural
from .problem import Problem, Solved
from .schedule import (
    ROWS,
    Others,
    Rows,
    Updates,
    learning_rates,
    n_batches,
    others_of,
    plan,
    rows_of,
    update_key,
)

Array = NDArray[np.float64]

#: Gradient updates of a default fit. Counted in updates, not epochs, so that small data sets are not undertrained. An
#: implicit fit predicts by inverting the map it learned, which amplifies noise that longer training fits, unless one
#: potential averages it over all intervals: on embryoid bodies (splits 10 to 12) the error of a time-varying one is
#: 0.578 after 3000 updates and 0.609 after 4000.
UPDATES = 4000
UPDATES_INVERTED = 3000
#: Units of each coordinate and ridge functions beside the perceptron of a potential, from so many dimensions on and
#: with so many conditions for each of them. Of the motion of styblinski_tang, watershed and flowers in 50 dimensions
#: they leave 4, 5 and 17 %, a perceptron alone 85, 23 and 78 %; in ten dimensions 8, 1 and 19 %, alone 4, 2 and 22 %.
#: PBMC (400 conditions a dimension) gains 0.6 %. The embryoid subset (132 in 20 dimensions, 53 in 50) would lose 0.8
#: and 1.4 %, so 200 lies between these two sets; smaller ones (31 and 66) would gain 1 % (means of splits 10 to 12).
UNITS, RIDGES = 8, 128
MANY_DIMS, ENOUGH_ROWS = 8, 200
#: Cells of its population that a point meets in one update, in each of two independent samples.
PARTNERS = 16

# The paper's settings; the step size is applied apart, by the schedule.
_optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.scale_by_adam())


def network(neural: Neural, n_rows: int, n_dims: int) -> NeuralPotential:
    """The potential to train on ``n_rows`` conditions in ``n_dims`` dimensions."""
    many = n_dims >= MANY_DIMS and n_rows >= ENOUGH_ROWS * n_dims
    return NeuralPotential(tuple(neural.layers), n_units=UNITS if many else 0, n_ridges=RIDGES if many else 0)


def resolved(neural: Neural, n_rows: int, scheme: Scheme, variation: Variation) -> Neural:
    """The same network with the batch size and number of epochs for ``n_rows`` conditions."""
    if neural.epochs is None:
        inverts = scheme.forward == 1 and not variation.static
        return updates_of(neural, n_rows, UPDATES_INVERTED if inverts else UPDATES)
    return replace(neural, batch_size=_batch_size(neural, n_rows))


def updates_of(neural: Neural, n_rows: int, updates: int) -> Neural:
    """The same network with as many epochs as make these updates on ``n_rows`` conditions."""
    batch_size = _batch_size(neural, n_rows)
    epochs = -(-updates // n_batches(n_rows, batch_size))
    # A multiple of ten from ten on, so that progress can be reported in ten equal parts.
    return replace(neural, batch_size=batch_size, epochs=epochs if epochs < 10 else -(-epochs // 10) * 10)


def _batch_size(neural: Neural, n_rows: int) -> int:
    return min(neural.batch_size, 1 << (n_rows - 1).bit_length())


def descend(
    problem: Problem,
    training: Neural,
    random_state: int = 0,
    on_progress: Callable[[float], object] = lambda fraction: None,
) -> Solved:
    """The networks of each term after training, and the mean loss of each epoch, one for a zero energy.

    Raises
    ------
    FloatingPointError
        If the loss is not finite, or in the end above that of a zero energy.
    """
    mesh = device_mesh(training.n_devices)
    # The kernel of an interaction is a perceptron alone: it meets many partners in each update; no gain was measured.
    model, kernel = network(training, *problem.z.shape), NeuralPotential(tuple(training.layers), problem.even)
    n_rows = n_batches(len(problem.z), training.batch_size) * training.batch_size
    rows, others = rows_of(problem, room(n_rows, ROWS)), others_of(problem)
    key = np.uint32(random_state % 2**32)
    state = start(model, kernel if problem.populations else None, problem.n_dims, problem.inputs.shape[1], key)
    if mesh is not None:  # every device has all the data, and takes its share of each batch
        rows, others, state = jax.device_put((rows, others, state), NamedSharding(mesh, PartitionSpec()))
    weights, losses = train(model, kernel, mesh, state, rows, others, key, training, len(problem.z), on_progress)
    return Solved(weights, model, kernel if problem.populations else None, losses)


def train(
    model: NeuralPotential,
    kernel: NeuralPotential,
    mesh: Mesh | None,
    state: Any,
    rows: Rows,
    others: Others | None,
    key: NDArray[np.uint32] | np.uint32,
    training: Neural,
    n_rows: int,
    on_progress: Callable[[float], object],
) -> tuple[Weights, Array]:
    """The weights after training on ``n_rows`` conditions, and the mean loss of each epoch."""
    assert training.epochs is not None
    batches = n_batches(n_rows, training.batch_size)
    epochs = np.arange(training.epochs, dtype=np.uint32)
    rates = learning_rates(training.learning_rate, training.epochs * batches).reshape(training.epochs, batches)
    chunk = _largest_divisor(training.epochs, max(1, training.epochs // 10))
    losses: list[Array] = []
    for first in range(0, training.epochs, chunk):
        now = slice(first, first + chunk)
        # Members see batches of the same numbers, which are different cells.
        updates = plan(np.ravel(key)[0], epochs[now], rates[now], training.batch_size)
        state, values = run(model, kernel, mesh, state, rows, others, key, training.batch_size, updates)
        means = values.reshape(chunk, batches, *values.shape[1:]).mean(axis=1)
        losses.append(means * (batches * training.batch_size / n_rows) / rows.z.shape[-1])
        _check(losses, state[0], training, last=first + chunk == training.epochs)
        on_progress(chunk / training.epochs)
    return jax.tree.map(np.asarray, state[0]), np.concatenate(losses)


def device_mesh(n_devices: int | None) -> Mesh | None:
    """The devices that share a batch; None where there is but one."""
    there = jax.devices()
    if n_devices is not None and n_devices > len(there):
        raise ValueError(f"n_devices={n_devices}, but JAX has {len(there)} ({there[0].platform}); use fewer.")
    chosen = there[:n_devices]
    return None if len(chosen) == 1 else Mesh(np.array(chosen), ("cells",))


def _check(losses: list[Array], weights: Weights, training: Neural, last: bool) -> None:
    recent = losses[-1]
    if np.isfinite(recent).all() and not (last and recent.mean(axis=0).max() > 1.5):
        return
    finite = {term: all(np.isfinite(w).all() for w in jax.tree.leaves(weights[term])) for term in weights}
    culprits = [term for term, fine in finite.items() if not fine] or list(weights)
    failed = np.sum(~(recent.mean(axis=0) <= 1.5))
    among = f" of {failed} of {recent.shape[1]} members" if recent.ndim > 1 else ""
    raise FloatingPointError(
        f"The fit{among} of the {' and the '.join(culprits)} diverged: the loss is {np.max(recent[-1]):.3g} times that "
        f"of a zero energy. Lower learning_rate (now {training.learning_rate:g}) or, if it was cut short, raise "
        f"epochs (now {training.epochs}), and check the representation for extreme values."
    )


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def start(
    model: NeuralPotential, kernel: NeuralPotential | None, n_dims: int, n_inputs: int, seed: jax.Array
) -> tuple[Weights, Any]:
    """Random weights, and the optimizer's memory of nothing yet."""

    def one(seed: jax.Array) -> tuple[Weights, Any]:
        key = jax.random.key(seed)
        weights = {"potential": model.start(key, n_dims, n_inputs)}
        if kernel is not None:
            weights["interaction"] = kernel.start(jax.random.fold_in(key, 1), n_dims, len(NO_INPUT))
        return weights, _optimizer.init(weights)

    return jax.vmap(one)(seed) if seed.ndim else one(seed)


def _felt(
    model: NeuralPotential, weights: Weights, rows: Rows, others: Others, key: jax.Array, width: int
) -> jax.Array:
    """∫ ∇U(z − z') dμ(z') at each row, estimated from a few random cells of its population."""
    size = others.size[rows.place][:, None]
    # As many numbers as without padding, so that they do not depend on the number of devices.
    uniform = _padded(jax.random.uniform(key, (width, PARTNERS)), len(rows.z) - width)
    met = jnp.minimum((uniform * size).astype(jnp.int32), size - 1)
    place = jnp.broadcast_to(rows.place[:, None], met.shape)
    away = rows.z[:, None, :] - others.points[place, met]
    inputs = jnp.ones((away.shape[0] * PARTNERS, len(NO_INPUT)), dtype=away.dtype)
    slopes = models.gradients(model, weights["interaction"], away.reshape(-1, away.shape[-1]), inputs)
    felt = jnp.mean(others.weight[place, met][..., None] * slopes.reshape(away.shape), axis=1)
    return rows.pace[:, None] * felt


def _shared(rows: Rows, mesh: Mesh | None) -> Rows:
    """A batch divided among the devices, filled up with rows of no weight to a size that they can share."""
    if mesh is None:
        return rows
    missing, divided = -len(rows.z) % mesh.size, NamedSharding(mesh, PartitionSpec("cells"))
    return Rows(*(jax.lax.with_sharding_constraint(_padded(array, missing), divided) for array in rows))


def _padded(array: jax.Array, missing: int) -> jax.Array:
    return jnp.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1))


def run(
    model: NeuralPotential,
    kernel: NeuralPotential,
    mesh: Mesh | None,
    state: Any,
    rows: Rows,
    others: Others | None,
    seed: NDArray[np.uint32] | np.uint32,
    batch_size: int,
    updates: Updates,
) -> tuple[Any, Array]:
    """The state after these updates, and the loss before each of them."""
    share, values = np.float32(1 / batch_size), []
    for n_made, piece in updates.pieces():
        state, losses = _run_piece(model, kernel, mesh, state, rows, others, seed, share, np.int32(n_made), piece)
        values.append(np.asarray(losses, dtype=np.float64)[:n_made])
    return state, np.concatenate(values)


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=3)
def _run_piece(
    model: NeuralPotential,
    kernel: NeuralPotential,
    mesh: Mesh | None,
    state: Any,
    everything: Rows,
    others: Others | None,
    seed: jax.Array,
    share: jax.Array,
    n_made: jax.Array,
    updates: Updates,
) -> tuple[Any, jax.Array]:
    """The first ``n_made`` updates as one compiled program.

    With a seed for each member, their states and rows have a first axis for them, and they train side by side.
    """

    def batch_loss(weights: Weights, rows: Rows, key: jax.Array) -> jax.Array:
        slope, width = models.gradients(model, weights["potential"], rows.z, rows.inputs), updates.rows.shape[1]
        if others is None:
            return loss(slope, rows.velocity, rows.weight) * share
        one, two = (slope + _felt(kernel, weights, rows, others, k, width) for k in jax.random.split(key))
        return loss(one, rows.velocity, rows.weight, two) * share

    def advance(state: Any, everything: Rows, seed: jax.Array, now: Updates) -> tuple[Any, jax.Array]:
        weights, memory = state
        rows = _shared(Rows(*(array[now.rows] for array in everything)), mesh)
        value, slope = jax.value_and_grad(batch_loss)(weights, rows, update_key(seed, now.epoch, now.number))
        direction, memory = _optimizer.update(slope, memory)
        return (jax.tree.map(lambda w, d: w - now.rate * d, weights, direction), memory), value

    advanced = jax.vmap(advance, (0, 0, 0, None)) if seed.ndim else advance

    def update(i: jax.Array, carried: tuple[Any, jax.Array]) -> tuple[Any, jax.Array]:
        state, values = carried
        state, value = advanced(state, everything, seed, Updates(*(array[i] for array in updates)))
        return state, values.at[i].set(value)

    return jax.lax.fori_loop(0, n_made, update, (state, jnp.zeros(updates.rate.shape + seed.shape)))


def _largest_divisor(number: int, at_most: int) -> int:
    return next(d for d in range(at_most, 0, -1) if number % d == 0)
