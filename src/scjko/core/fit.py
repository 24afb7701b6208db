"""Fitting an energy to snapshots: the first-order condition made small by gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from . import models
from .condition import Conditions, conditions, loss
from .couplings import Coupling
from .energies import Energy, conditioning
from .intervals import Intervals
from .models import NeuralPotential, Weights

Array = NDArray[np.float64]

#: Gradient updates of a default fit. Counted in updates, not epochs, so that small data sets are not undertrained. An
#: implicit fit predicts by inverting the map it learned, which amplifies noise that longer training fits: on embryoid
#: bodies (splits 10 to 12) the error is 0.570 after 2000 updates and 0.609 after 4000.
UPDATES = {"both": 4000, "explicit": 4000, "implicit": 2000}

# The paper's settings; the step size is applied apart, by the schedule.
_optimizer = optax.chain(optax.clip_by_global_norm(10.0), optax.scale_by_adam())


@dataclass(frozen=True)
class Training:
    """Settings of the gradient descent; ``epochs=None`` stands for as many as make about ``UPDATES``."""

    layers: tuple[int, ...] = (64, 64)
    epochs: int | None = None
    batch_size: int = 250
    learning_rate: float = 2e-2
    random_state: int = 0

    def resolved(self, n_rows: int, scheme: str) -> Training:
        """The same settings with the number of epochs for ``n_rows`` conditions of ``scheme``."""
        if self.epochs is not None:
            return self
        epochs = -(-UPDATES[scheme] // n_batches(n_rows, self.batch_size))
        # A multiple of ten from ten on, so that progress can be told in ten equal parts.
        return replace(self, epochs=epochs if epochs < 10 else -(-epochs // 10) * 10)


@dataclass(frozen=True)
class Fit:
    """A fitted energy and how the fit went."""

    energy: Energy
    losses: Array
    """Mean loss of each epoch, as a fraction of the loss of an energy that moves nothing."""
    explained: Array
    """For each interval the fraction of the squared velocity that the energy accounts for."""
    training: Training


def fit_neural(
    points: Sequence[Array],
    couplings: Sequence[Coupling],
    intervals: Intervals,
    *,
    scheme: str,
    time_varying: bool,
    training: Training,
    on_progress: Callable[[float], object] = lambda fraction: None,
) -> Fit:
    """The energy with a neural potential whose first-order residual is small on these coupled snapshots.

    ``on_progress`` is told the fraction of the training done since it was last called.

    Raises
    ------
    FloatingPointError
        If the loss is not finite.
    """
    rows = conditions(points, couplings, intervals.gaps, scheme)
    training = training.resolved(len(rows.points), scheme)
    center, length, speed = _scales(points, rows)
    model = NeuralPotential(training.layers)
    labels = conditioning(intervals, rows.interval, rows.end, scheme, time_varying)
    batchable = tuple(
        np.asarray(array, dtype=np.float32)
        for array in ((rows.points - center) / length, labels, rows.velocity / speed, _relative(rows.weight))
    )
    weights, losses = _descend(model, batchable, training, on_progress)
    energy = Energy(
        model, weights, intervals, scheme, time_varying, center, length, speed, np.zeros((len(couplings), 2))
    )
    energy = replace(energy, offsets=_offsets(energy, points))
    # At rest the scaled loss is the number of dimensions, because velocities are divided by their root mean square.
    return Fit(energy, losses / rows.points.shape[1], _explained(energy, rows), training)


def n_batches(n_rows: int, batch_size: int) -> int:
    """Batches in an epoch, rounded up to few different numbers so that few programs are compiled."""
    batches = -(-n_rows // batch_size)
    grain = 1 << max(0, batches.bit_length() - 4)  # at most an eighth of an epoch is padding
    return -(-batches // grain) * grain


def _scales(points: Sequence[Array], rows: Conditions) -> tuple[Array, float, float]:
    """The centre of all cells, their root-mean-square spread, and that of the velocities; one where that is zero."""
    cells = np.concatenate(points)
    center = cells.mean(axis=0)
    length = float(np.sqrt(np.mean((cells - center) ** 2)))
    speed = float(np.sqrt(_relative(rows.weight) @ np.mean(rows.velocity**2, axis=1) / len(rows.weight)))
    return center, length or 1.0, speed or 1.0


def _relative(weight: Array) -> Array:
    """Weights of mean one."""
    return weight * (len(weight) / weight.sum())


def _descend(
    model: NeuralPotential,
    arrays: tuple[NDArray[np.float32], ...],
    training: Training,
    on_progress: Callable[[float], object],
) -> tuple[Weights, Array]:
    """Weights after training on ``arrays`` (points, labels, velocities, weights), and the mean loss of each epoch."""
    assert training.epochs is not None
    n_rows, n_dims = arrays[0].shape
    batches = n_batches(n_rows, training.batch_size)
    n_padded = batches * training.batch_size
    # The weight of padding is zero.
    padded = tuple(jnp.asarray(np.pad(a, [(0, n_padded - n_rows)] + [(0, 0)] * (a.ndim - 1))) for a in arrays)
    key = np.uint32(training.random_state % 2**32)
    state = _start(model, n_dims, arrays[1].shape[1], key)
    epochs = np.arange(training.epochs, dtype=np.uint32)
    rates = _learning_rates(training.learning_rate, training.epochs * batches).reshape(training.epochs, batches)
    chunk = _largest_divisor(training.epochs, max(1, training.epochs // 10))
    losses = []
    for start in range(0, training.epochs, chunk):
        now = slice(start, start + chunk)
        state, values = _run_epochs(model, training.batch_size, state, padded, key, epochs[now], rates[now])
        losses.append(np.asarray(values, dtype=np.float64) * (n_padded / n_rows))
        if not np.isfinite(losses[-1]).all():
            raise FloatingPointError(
                f"The loss of the potential is not finite after {start + chunk} of {training.epochs} epochs; lower "
                f"learning_rate (now {training.learning_rate:g}), and check the representation for extreme values."
            )
        on_progress(chunk / training.epochs)
    return jax.tree.map(np.asarray, state[0]), np.concatenate(losses)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _start(model: NeuralPotential, n_dims: int, n_labels: int, seed: jax.Array) -> tuple[Weights, Any]:
    """Random weights, and the optimizer's memory of nothing yet."""
    weights = model.init(jax.random.key(seed), jnp.zeros(n_dims), jnp.zeros(n_labels))["params"]
    return weights, _optimizer.init(weights)


@partial(jax.jit, static_argnums=(0, 1))
def _run_epochs(
    model: NeuralPotential,
    batch_size: int,
    state: Any,
    arrays: tuple[jax.Array, ...],
    seed: jax.Array,
    epochs: jax.Array,
    rates: jax.Array,
) -> tuple[Any, jax.Array]:
    """These epochs of gradient descent, every batch of them, as one compiled program."""

    def batch_loss(weights: Weights, rows: jax.Array) -> jax.Array:
        z, c, velocity, weight = (array[rows] for array in arrays)
        return loss(models.gradients(model, weights, z, c), velocity, weight) / batch_size

    def update(state: Any, batch: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        rows, rate = batch
        weights, memory = state
        value, slope = jax.value_and_grad(batch_loss)(weights, rows)
        direction, memory = _optimizer.update(slope, memory)
        return (jax.tree.map(lambda w, d: w - rate * d, weights, direction), memory), value

    def epoch(state: Any, at: tuple[jax.Array, jax.Array]) -> tuple[Any, jax.Array]:
        number, rates = at
        key = jax.random.fold_in(jax.random.key(seed), number)
        shuffled = jax.random.permutation(key, arrays[0].shape[0]).reshape(-1, batch_size)
        state, values = jax.lax.scan(update, state, (shuffled, rates))
        return state, jnp.mean(values)

    return jax.lax.scan(epoch, state, (epochs, rates))


def _learning_rates(peak: float, n_updates: int) -> NDArray[np.float32]:
    """A one-cycle schedule (Smith and Topin 2019) along cosines: up in the first 30 %, then down to almost nothing."""
    done = np.arange(n_updates) / n_updates
    rising, falling = done / 0.3, (done - 0.3) / 0.7
    up = peak * (1 / 25 + (1 - 1 / 25) * (1 - np.cos(np.pi * rising)) / 2)
    down = peak * (1e-4 + (1 - 1e-4) * (1 + np.cos(np.pi * falling)) / 2)
    return np.where(done < 0.3, up, down).astype(np.float32)


def _largest_divisor(number: int, at_most: int) -> int:
    return next(d for d in range(at_most, 0, -1) if number % d == 0)


def _offsets(energy: Energy, points: Sequence[Array]) -> Array:
    """The constants that make potentials of different intervals comparable (n_intervals, 2).

    A force tells a potential only up to a constant, and here one for each interval and end. They are chosen so that
    the mean potential of the first snapshot is zero, that a snapshot has the same mean at the end of one interval and
    at the start of the next, and that across an interval fitted at both ends the mean falls by Δ ∫‖∇V‖² dμ: what a
    population loses by moving down a potential that itself stands still, as in
    d/dt ∫V dμ = −∫‖∇V‖² dμ + ∫∂V/∂t dμ without the second term.
    """
    offsets = np.zeros((len(points) - 1, 2))
    mean = 0.0
    for k, gap in enumerate(energy.intervals.gaps):
        start, end = (_population_means(energy, points[k + side], k, float(side)) for side in (0, 1))
        offsets[k] = mean - start.potential
        if not energy.time_varying:
            return np.full_like(offsets, offsets[0, 0])
        if energy.scheme == "both":
            mean -= gap * (start.squared_slope + end.squared_slope) / 2
            offsets[k, 1] = mean - end.potential
        else:  # one potential for the whole interval says itself how far the mean falls
            mean = end.potential + offsets[k, 1]
    return offsets


class _Means(NamedTuple):
    potential: float
    squared_slope: float


def _population_means(energy: Energy, x: Array, interval: int, end: float) -> _Means:
    place = x, np.full(len(x), interval), np.full(len(x), end)
    slope = energy.gradient_at(*place)
    return _Means(float(energy.potential_at(*place).mean()), float(np.mean(np.sum(slope**2, axis=1))))


def _explained(energy: Energy, rows: Conditions) -> Array:
    """For each interval 1 − ∫‖r‖² / ∫‖v̄‖², over the ends that were fitted."""
    slope = energy.gradient_at(rows.points, rows.interval, rows.end)
    n = len(energy.times) - 1
    left = np.bincount(rows.interval, rows.weight * np.sum((slope + rows.velocity) ** 2, axis=1), n)
    total = np.bincount(rows.interval, rows.weight * np.sum(rows.velocity**2, axis=1), n)
    return 1 - left / np.where(total > 0, total, 1.0)
