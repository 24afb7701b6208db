"""What a rival is trained on: checked snapshots, in units of order one, as random batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._maps import Step

Array = NDArray[np.float64]

#: The standard deviation that coordinates are scaled to: that of the paper's particles, uniform in [−4, 4], so that
#: its learning rates and ε mean here what they meant there, whatever the units of the data.
SPREAD = 4 / np.sqrt(3)


class Units(NamedTuple):
    """Coordinates are centred and divided by ``length``, times by ``time``: energies by length² / time."""

    centre: Array
    length: float
    time: float

    def inward(self, x: ArrayLike) -> NDArray[np.float32]:
        """``x`` in these units."""
        return ((np.asarray(x, np.float64) - self.centre) / self.length).astype(np.float32)

    def step(self, duration: ArrayLike, gap: float) -> Step:
        """Inner problems for steps of these durations with this weight of the Monge gap, in these units."""
        tau = jnp.asarray(np.asarray(duration) / self.time, jnp.float32)
        return Step(tau, jnp.full(tau.shape, gap * self.time, jnp.float32))


def checked(points: Sequence[ArrayLike], times: ArrayLike) -> tuple[list[Array], Array]:
    """The snapshots as arrays and the lengths of the intervals between them."""
    snapshots = [np.asarray(x, np.float64) for x in points]
    durations = np.diff(np.asarray(times, np.float64))
    if len(snapshots) < 2 or len(durations) != len(snapshots) - 1:
        raise ValueError(f"A fit needs two snapshots or more and a time for each, not {len(snapshots)} of them.")
    if not (np.isfinite(durations).all() and (durations > 0).all()):
        raise ValueError(f"times={times!r} must be finite and increasing.")
    if any(x.ndim != 2 or x.shape[1] != snapshots[0].shape[1] or len(x) == 0 for x in snapshots):
        raise ValueError(f"Snapshots must be cells × coordinates of one dimension, not {[x.shape for x in snapshots]}.")
    if not all(np.isfinite(x).all() for x in snapshots):
        raise ValueError("The coordinates of some cells are not finite.")
    return snapshots, durations


def units_of(snapshots: Sequence[Array], durations: Array) -> Units:
    """The units in which all cells have standard deviation ``SPREAD`` and the mean duration is one."""
    cells = np.concatenate(snapshots)
    return Units(cells.mean(axis=0), float(np.sqrt(cells.var(axis=0).mean())) / SPREAD or 1.0, float(durations.mean()))


def batches(snapshots: Sequence[NDArray[np.float32]], size: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Every cell in random order, as batches (n, snapshots, size, d); cells of small snapshots come more than once."""
    total = -(-max(map(len, snapshots)) // size) * size
    shuffled = np.stack([x[np.resize(rng.permutation(len(x)), total)] for x in snapshots], axis=1)
    return np.swapaxes(shuffled.reshape(-1, size, *shuffled.shape[1:]), 1, 2)
