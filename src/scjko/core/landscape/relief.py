"""A potential at one time, and its stationary points by Newton's method."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Function = Callable[[Array], Array]

#: Largest step, and steps that count as none, in units of the spread of the cells.
LONGEST, SHORTEST = 0.1, 1e-5
#: Steps of Newton's method, at most.
STEPS = 40


@dataclass(frozen=True, eq=False)
class Relief:
    """A potential at one time: its value, gradient and Hessian at points (n, d), and the spread of its cells."""

    potential: Function
    gradient: Function
    hessian: Function
    length: float
    """The root mean square distance of the cells from their mean."""


class Found(NamedTuple):
    """Where Newton's method ended."""

    points: Array
    converged: NDArray[np.bool_]
    curvature: Array
    """The eigenvalues of the Hessian, in increasing order."""


def newton(relief: Relief, x: Array) -> Found:
    """The stationary points, of any kind, that Newton's method reaches from these points by steps of limited length."""
    x, converged = x.copy(), np.zeros(len(x), dtype=bool)
    active = np.arange(len(x))
    for _ in range(STEPS):
        if not len(active):
            break
        slope, (values, vectors) = relief.gradient(x[active]), np.linalg.eigh(relief.hessian(x[active]))
        # Where V is not curved, steps are as long as they may be.
        flat = np.linalg.norm(slope, axis=1, keepdims=True) / (10 * LONGEST * relief.length)
        least = np.maximum(1e-6 * np.abs(values).max(axis=1, keepdims=True), flat) + 1e-300
        values = np.where(np.abs(values) < least, np.copysign(least, values), values)
        along = np.einsum("nij,ni->nj", vectors, slope) / values
        move = _shortened(-np.einsum("nij,nj->ni", vectors, along), LONGEST * relief.length)
        x[active] += move
        done = np.linalg.norm(move, axis=1) <= 10 * _none(relief)
        converged[active[done]] = True
        active = active[~done]
    curvature = np.zeros(x.shape)
    if len(x):
        curvature[:] = np.linalg.eigvalsh(relief.hessian(x))
    return Found(x, converged, curvature)


def _none(relief: Relief) -> float:
    return SHORTEST * relief.length


def _shortened(move: Array, most: float) -> Array:
    """Moves of at most this length."""
    length = np.linalg.norm(move, axis=1, keepdims=True)
    return np.asarray(move * np.minimum(1.0, most / np.maximum(length, 1e-300)))
