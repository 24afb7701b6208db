"""The updates of a gradient descent: which rows each of them sees, and how far it goes.

Programs are compiled for shapes. So that few are, everything that varies with the number of cells and of epochs is
filled up to one of few sizes: rows with rows that weigh nothing, updates with updates that are not made.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from ..compute.blocks import filled, room
from ..energy.interactions import POPULATIONS
from .problem import Problem

Array = NDArray[np.float64]

#: Updates that one call of the compiled program has room for: a tenth of a default fit.
PIECE = 512
#: Rows of a small problem are filled up to these numbers; beyond, batches are rounded (:func:`n_batches`).
ROWS = (1024, 16384)
#: A small problem, of one batch, is filled up to these numbers. One for all would save programs, but slow training.
WIDTHS = (32, 128)


class Rows(NamedTuple):
    """The problem on the device; padding has weight zero."""

    z: jax.Array
    inputs: jax.Array
    velocity: jax.Array
    weight: jax.Array
    place: jax.Array
    pace: jax.Array


class Others(NamedTuple):
    """The populations on the device, padded to one size, with weights of mean one."""

    points: jax.Array
    weight: jax.Array
    size: jax.Array


class Updates(NamedTuple):
    """Updates in a row: the epoch and the number in it of each, its rows (n_updates, width), and how far it goes."""

    epoch: NDArray[np.uint32]
    number: NDArray[np.uint32]
    rows: NDArray[np.int32]
    rate: NDArray[np.float32]

    def pieces(self) -> Iterator[tuple[int, Updates]]:
        """The updates in pieces of one shape, each with the number of them that are to be made."""
        for start in range(0, len(self.rate), PIECE):
            piece = [array[start : start + PIECE] for array in self]
            yield len(piece[0]), Updates(*(filled(array, PIECE) for array in piece))


def n_batches(n_rows: int, batch_size: int) -> int:
    """Batches in an epoch, rounded up to few different numbers so that few programs are compiled."""
    batches = -(-n_rows // batch_size)
    grain = 1 << max(0, batches.bit_length() - 4)  # at most an eighth of an epoch is padding
    return -(-batches // grain) * grain


def plan(seed: np.uint32, epochs: NDArray[np.uint32], rates: NDArray[np.float32], batch_size: int) -> Updates:
    """The updates of these epochs, with ``rates`` (n_epochs, n_batches) and every row once in an epoch.

    A problem of one batch has room for rows beyond it, the numbers of which follow: those weigh nothing.
    """
    batches = rates.shape[1]
    rows = shuffled_batches(seed, epochs, batches * batch_size, batch_size).reshape(-1, batch_size)
    if batches == 1:
        beyond = np.arange(batch_size, room(batch_size, WIDTHS), dtype=np.int32)
        rows = np.concatenate([rows, np.tile(beyond, (len(rows), 1))], axis=1)
    numbers = np.tile(np.arange(batches, dtype=np.uint32), len(epochs))
    return Updates(np.repeat(epochs, batches), numbers, rows, rates.ravel())


def shuffled_batches(seed: np.uint32, epochs: NDArray[np.uint32], n_rows: int, batch_size: int) -> NDArray[np.int32]:
    """The rows of each batch of each epoch (n_epochs, n_batches, batch_size), every row once in an epoch.

    By sorting random keys in numpy: XLA's sort on CPUs is so slow that shuffling took a quarter of the training. Two
    rounds and more make ties of keys harmless.
    """
    n_rounds = int(np.ceil(3 * np.log(max(n_rows, 2)) / np.log(2**32)))
    orders = np.empty((len(epochs), n_rows), np.int32)
    for order, number in zip(orders, epochs, strict=True):
        order[:] = np.arange(n_rows)
        for keys in np.asarray(_sort_keys(seed, number, n_rounds, room(n_rows, ROWS)))[:, :n_rows]:
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


def update_key(seed: jax.Array, epoch: Any, number: Any) -> jax.Array:
    """The key of the random numbers of one update."""
    key, _ = jax.random.split(jax.random.fold_in(jax.random.key(seed), epoch))
    return jax.random.fold_in(key, number)


def learning_rates(peak: float, n_updates: int) -> NDArray[np.float32]:
    """A one-cycle schedule (Smith and Topin 2019) along cosines: up in the first 30 %, then down to almost nothing."""
    schedule = optax.cosine_onecycle_schedule(n_updates, peak)
    # In one of few sizes: a program is compiled for each.
    return np.asarray(jax.vmap(schedule)(np.arange(1 << n_updates.bit_length())), dtype=np.float32)[:n_updates]


def rows_of(problem: Problem, n_padded: int) -> Rows:
    """The rows of a problem on the device, filled up to so many."""
    arrays: tuple[NDArray[Any], ...] = (
        problem.z,
        problem.inputs,
        problem.velocity,
        problem.weight,
        np.searchsorted(sorted(problem.populations), problem.place),
        problem.pace,
    )
    # In 32 bits before they are filled up: of many rows a copy in 64 bits is what sets the peak of memory.
    return Rows(*(_on_device(filled(_in_32_bits(array), n_padded)) for array in arrays))


def _on_device(array: NDArray[Any]) -> jax.Array:
    """``array`` on the device in 32 bits; not by :func:`jax.numpy.asarray`, which compiles a program for each shape."""
    return jax.device_put(_in_32_bits(array))


def _in_32_bits(array: NDArray[Any]) -> NDArray[Any]:
    return array.astype(np.int32 if np.issubdtype(array.dtype, np.integer) else np.float32, copy=False)


def others_of(problem: Problem) -> Others | None:
    """The populations of a problem on the device, if its cells interact."""
    if not problem.populations:
        return None
    populations = [problem.populations[place] for place in sorted(problem.populations)]
    sizes = np.array([len(p.weight) for p in populations])
    most = room(int(sizes.max()), POPULATIONS)
    points, weight = np.zeros((len(sizes), most, problem.n_dims), np.float32), np.zeros((len(sizes), most), np.float32)
    for k, (population, size) in enumerate(zip(populations, sizes, strict=True)):
        points[k, :size], weight[k, :size] = population.points, population.weight * size
    return Others(_on_device(points), _on_device(weight), _on_device(sizes))
