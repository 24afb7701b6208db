"""Gradient descent on the first-order condition, whole epochs as one compiled program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from numpy.typing import NDArray

from . import models
from .condition import loss
from .interactions import NO_LABEL
from .models import NeuralPotential, Weights
from .problem import Problem

Array = NDArray[np.float64]

#: Gradient updates of a default fit. Counted in updates, not epochs, so that small data sets are not undertrained. An
#: implicit fit predicts by inverting the map it learned, which amplifies noise that longer training fits, unless one
#: potential averages it over all intervals: on embryoid bodies (splits 10 to 12) the error of a time-varying one is
#: 0.578 after 3000 updates and 0.609 after 4000.
UPDATES = 4000
UPDATES_IMPLICIT_VARYING = 3000
#: Cells of its population that a point meets in one update, in each of two independent samples.
PARTNERS = 16

# The paper's settings; the step size is applied apart, by the schedule.
_optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.scale_by_adam())


@dataclass(frozen=True)
class Training:
    """Settings of the gradient descent; ``epochs=None`` stands for as many as make the default number of updates."""

    layers: tuple[int, ...] = (64, 64)
    epochs: int | None = None
    batch_size: int = 250
    learning_rate: float = 2e-2
    random_state: int = 0
    n_devices: int | None = None
    """Devices that share a batch; ``None`` for all that JAX has."""

    def resolved(self, n_rows: int, scheme: str, mixing: str) -> Training:
        """The same settings with the batch size and number of epochs for ``n_rows`` conditions of such an energy."""
        batch_size = min(self.batch_size, 1 << (n_rows - 1).bit_length())
        epochs = self.epochs
        if epochs is None:
            updates = UPDATES_IMPLICIT_VARYING if scheme == "implicit" and mixing != "constant" else UPDATES
            epochs = -(-updates // n_batches(n_rows, batch_size))
            # A multiple of ten from ten on, so that progress can be told in ten equal parts.
            epochs = epochs if epochs < 10 else -(-epochs // 10) * 10
        return replace(self, batch_size=batch_size, epochs=epochs)


class _Rows(NamedTuple):
    """The problem on the device; padding has weight zero."""

    z: jax.Array
    labels: jax.Array
    velocity: jax.Array
    weight: jax.Array
    snapshot: jax.Array
    score: jax.Array


class _Others(NamedTuple):
    """The populations on the device, padded to one size, with weights of mean one."""

    points: jax.Array
    weight: jax.Array
    size: jax.Array


def descend(
    problem: Problem, training: Training, on_progress: Callable[[float], object] = lambda fraction: None
) -> tuple[Weights, Array]:
    """Weights of each term after training, and the mean loss of each epoch (one for an energy that moves nothing).

    Raises
    ------
    FloatingPointError
        If the loss is not finite, or in the end above that of an energy that moves nothing.
    """
    assert training.epochs is not None
    model, mesh = NeuralPotential(training.layers), device_mesh(training.n_devices)
    n_rows = len(problem.z)
    batches = n_batches(n_rows, training.batch_size)
    rows, others = _rows(problem, batches * training.batch_size), _others(problem)
    key = np.uint32(training.random_state % 2**32)
    terms = ("interaction",) * bool(problem.populations) + ("internal",) * bool(problem.mixtures)
    state = _start(model, terms, problem.n_dims, problem.labels.shape[1], key)
    if mesh is not None:  # every device has all the data, and takes its share of each batch
        rows, others, state = jax.device_put((rows, others, state), NamedSharding(mesh, PartitionSpec()))
    epochs = np.arange(training.epochs, dtype=np.uint32)
    rates = _learning_rates(training.learning_rate, training.epochs * batches).reshape(training.epochs, batches)
    chunk = _largest_divisor(training.epochs, max(1, training.epochs // 10))
    losses: list[Array] = []
    for start in range(0, training.epochs, chunk):
        now = slice(start, start + chunk)
        shuffled = shuffled_batches(key, epochs[now], batches * training.batch_size, training.batch_size)
        state, values = _run_epochs(
            model, training.batch_size, mesh, state, rows, others, key, epochs[now], rates[now], shuffled
        )
        padding = batches * training.batch_size / n_rows
        losses.append(np.asarray(values, dtype=np.float64) * padding / problem.n_dims)
        _check(losses, state[0], training, last=start + chunk == training.epochs)
        on_progress(chunk / training.epochs)
    return jax.tree.map(np.asarray, state[0]), np.concatenate(losses)


def device_mesh(n_devices: int | None) -> Mesh | None:
    """The devices that share a batch; None where there is but one."""
    there = jax.devices()
    if n_devices is not None and n_devices > len(there):
        raise ValueError(f"n_devices={n_devices}, but JAX has {len(there)} ({there[0].platform}); ask for fewer.")
    chosen = there[:n_devices]
    return None if len(chosen) == 1 else Mesh(np.array(chosen), ("cells",))


def n_batches(n_rows: int, batch_size: int) -> int:
    """Batches in an epoch, rounded up to few different numbers so that few programs are compiled."""
    batches = -(-n_rows // batch_size)
    grain = 1 << max(0, batches.bit_length() - 4)  # at most an eighth of an epoch is padding
    return -(-batches // grain) * grain


def _check(losses: list[Array], weights: Weights, training: Training, last: bool) -> None:
    recent = losses[-1]
    if np.isfinite(recent).all() and not (last and recent.mean() > 1.5):
        return
    finite = {term: all(np.isfinite(w).all() for w in jax.tree.leaves(weights[term])) for term in weights}
    culprits = [term for term, fine in finite.items() if not fine] or list(weights)
    raise FloatingPointError(
        f"The fit of the {' and the '.join(culprits)} diverged: the loss is {recent[-1]:.3g} times that of an energy "
        f"that moves nothing. Lower learning_rate (now {training.learning_rate:g}), and check the representation for "
        "extreme values."
    )


def _rows(problem: Problem, n_padded: int) -> _Rows:
    arrays = (problem.z, problem.labels, problem.velocity, problem.weight, problem.snapshot, problem.score)
    missing = n_padded - len(problem.z)
    padded = [np.pad(a, [(0, missing)] + [(0, 0)] * (a.ndim - 1)) for a in arrays]
    kinds = [np.int32 if a.dtype == np.int64 else np.float32 for a in padded]
    return _Rows(*(jnp.asarray(a, dtype=kind) for a, kind in zip(padded, kinds, strict=True)))


def _others(problem: Problem) -> _Others | None:
    if not problem.populations:
        return None
    sizes = np.array([len(p.weight) for p in problem.populations])
    points = np.zeros((len(sizes), sizes.max(), problem.n_dims), np.float32)
    weight = np.zeros((len(sizes), sizes.max()), np.float32)
    for k, (population, size) in enumerate(zip(problem.populations, sizes, strict=True)):
        points[k, :size], weight[k, :size] = population.points, population.weight * size
    return _Others(jnp.asarray(points), jnp.asarray(weight), jnp.asarray(sizes, dtype=jnp.int32))


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _start(
    model: NeuralPotential, terms: tuple[str, ...], n_dims: int, n_labels: int, seed: jax.Array
) -> tuple[Weights, Any]:
    """Random weights, and the optimizer's memory of nothing yet."""
    key = jax.random.key(seed)
    weights = {"potential": model.start(key, n_dims, n_labels)}
    if "interaction" in terms:
        weights["interaction"] = model.start(jax.random.fold_in(key, 1), n_dims, len(NO_LABEL))
    if "internal" in terms:
        weights["internal"] = {"beta": jnp.zeros(())}
    return weights, _optimizer.init(weights)


def _slope(model: NeuralPotential, weights: Weights, rows: _Rows) -> jax.Array:
    """∇V + β ∇log ρ at each row."""
    slope = models.gradients(model, weights["potential"], rows.z, rows.labels)
    return slope + weights["internal"]["beta"] * rows.score[:, 0] if "internal" in weights else slope


def _felt(
    model: NeuralPotential, weights: Weights, rows: _Rows, others: _Others, key: jax.Array, batch_size: int
) -> jax.Array:
    """∫ ∇U(z − z') dμ(z') at each row, estimated from a few random cells of its snapshot."""
    size = others.size[rows.snapshot][:, None]
    # As many numbers as without padding, so that they do not depend on the number of devices.
    uniform = _padded(jax.random.uniform(key, (batch_size, PARTNERS)), len(rows.z) - batch_size)
    met = jnp.minimum((uniform * size).astype(jnp.int32), size - 1)
    snapshot = jnp.broadcast_to(rows.snapshot[:, None], met.shape)
    away = rows.z[:, None, :] - others.points[snapshot, met]
    labels = jnp.ones((away.shape[0] * PARTNERS, len(NO_LABEL)), dtype=away.dtype)
    slopes = models.gradients(model, weights["interaction"], away.reshape(-1, away.shape[-1]), labels)
    return jnp.mean(others.weight[snapshot, met][..., None] * slopes.reshape(away.shape), axis=1)


def _shared(rows: _Rows, mesh: Mesh | None) -> _Rows:
    """A batch divided among the devices, filled up with rows of no weight to a size that they can share."""
    if mesh is None:
        return rows
    missing, divided = -len(rows.z) % mesh.size, NamedSharding(mesh, PartitionSpec("cells"))
    return _Rows(*(jax.lax.with_sharding_constraint(_padded(array, missing), divided) for array in rows))


def _padded(array: jax.Array, missing: int) -> jax.Array:
    return jnp.pad(array, [(0, missing)] + [(0, 0)] * (array.ndim - 1))


@partial(jax.jit, static_argnums=(0, 1, 2), donate_argnums=3)
def _run_epochs(
    model: NeuralPotential,
    batch_size: int,
    mesh: Mesh | None,
    state: Any,
    everything: _Rows,
    others: _Others | None,
    seed: jax.Array,
    epochs: jax.Array,
    rates: jax.Array,
    shuffled: jax.Array,
) -> tuple[Any, jax.Array]:
    """These epochs of gradient descent, every batch of them, as one compiled program."""

    def batch_loss(weights: Weights, rows: _Rows, key: jax.Array) -> jax.Array:
        slope = _slope(model, weights, rows)
        if others is None:
            return loss(slope, rows.velocity, rows.weight) / batch_size
        one, two = (slope + _felt(model, weights, rows, others, k, batch_size) for k in jax.random.split(key))
        return loss(one, rows.velocity, rows.weight, two) / batch_size

    def update(state: Any, batch: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        chosen, rate, key = batch
        weights, memory = state
        rows = _shared(_Rows(*(array[chosen] for array in everything)), mesh)
        value, slope = jax.value_and_grad(batch_loss)(weights, rows, key)
        direction, memory = _optimizer.update(slope, memory)
        weights = jax.tree.map(lambda w, d: w - rate * d, weights, direction)
        if "internal" in weights:
            weights["internal"] = {"beta": jnp.maximum(weights["internal"]["beta"], 0.0)}
        return (weights, memory), value

    def epoch(state: Any, at: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        number, rates, shuffled = at
        key, _ = jax.random.split(jax.random.fold_in(jax.random.key(seed), number))
        state, values = jax.lax.scan(update, state, (shuffled, rates, jax.random.split(key, len(rates))))
        return state, jnp.mean(values)

    return jax.lax.scan(epoch, state, (epochs, rates, shuffled))


def shuffled_batches(seed: np.uint32, epochs: NDArray[np.uint32], n_rows: int, batch_size: int) -> NDArray[np.int32]:
    """The rows of each batch of each epoch (n_epochs, n_batches, batch_size), every row once in an epoch.

    By sorting random keys in numpy: XLA's sort on CPUs is so slow that shuffling took a quarter of the training. Two
    rounds and more make ties of keys harmless.
    """
    n_rounds = int(np.ceil(3 * np.log(max(n_rows, 2)) / np.log(2**32)))
    orders = np.empty((len(epochs), n_rows), np.int32)
    for order, number in zip(orders, epochs, strict=True):
        order[:] = np.arange(n_rows)
        for keys in np.asarray(_sort_keys(seed, number, n_rounds, n_rows)):
            order[:] = order[np.argsort(keys, kind="stable")]
    return orders.reshape(len(epochs), -1, batch_size)


@partial(jax.jit, static_argnums=(2, 3))
def _sort_keys(seed: jax.Array, number: jax.Array, n_rounds: int, n_rows: int) -> jax.Array:
    """Random numbers for each round of shuffling and each row."""
    _, key = jax.random.split(jax.random.fold_in(jax.random.key(seed), number))
    rounds = []
    for _ in range(n_rounds):
        key, drawn = jax.random.split(key)
        rounds.append(jax.random.bits(drawn, (n_rows,), jnp.uint32))
    return jnp.stack(rounds)


def _learning_rates(peak: float, n_updates: int) -> NDArray[np.float32]:
    """A one-cycle schedule (Smith and Topin 2019) along cosines: up in the first 30 %, then down to almost nothing."""
    done = np.arange(n_updates) / n_updates
    rising, falling = done / 0.3, (done - 0.3) / 0.7
    up = peak * (1 / 25 + (1 - 1 / 25) * (1 - np.cos(np.pi * rising)) / 2)
    down = peak * (1e-4 + (1 - 1e-4) * (1 + np.cos(np.pi * falling)) / 2)
    return np.where(done < 0.3, up, down).astype(np.float32)


def _largest_divisor(number: int, at_most: int) -> int:
    return next(d for d in range(at_most, 0, -1) if number % d == 0)
