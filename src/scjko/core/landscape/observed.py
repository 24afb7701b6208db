"""Observed velocities, such as RNA velocity, against a landscape: the angle between them, and what no potential has.

Velocities of single cells are noisy, and noise has curl. So both a potential and the mean over neighbours are judged on
cells that neither has seen, by the fraction of the squared velocity that they explain. What neighbours agree on is the
field; the part of it that the best potential does not reproduce is what no landscape has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.neighbours import nearest

Array = NDArray[np.float64]
#: For cells and their velocities: the best potential flow, as a function of position.
Fitter = Callable[[Array, Array], Callable[[Array], Array]]

#: Neighbours whose mean velocity is compared.
NEIGHBOURS = 20


class Observed(NamedTuple):
    """Observed velocities at one time."""

    cosine: float
    """The mean cosine of fitted and observed velocities."""
    shuffled: float
    """The same with observed velocities shuffled among the cells."""
    neighbours: float
    """The fraction of squared velocities that the mean of neighbours explains."""
    potential: float
    """The fraction that the best potential explains."""

    @property
    def curl(self) -> float:
        """The fraction of what neighbours agree on that no potential has; NaN if they agree on nothing."""
        if not self.neighbours > 0:
            return np.nan
        return float(np.clip(1 - self.potential / self.neighbours, 0.0, 1.0))


def observed(x: Array, fitted: Array, velocity: Array, fit: Fitter, random_state: int = 0) -> Observed:
    """Fitted velocities against observed ones, of which a potential flow is fitted to one half of the cells each."""
    rng = np.random.default_rng(random_state)
    half = rng.permutation(len(x)) % 2 == 0
    around, flow = np.empty_like(velocity), np.empty_like(velocity)
    for seen, other in ((half, ~half), (~half, half)):
        near = nearest(x[seen], x[other], min(NEIGHBOURS, int(seen.sum())))[1]
        around[other] = velocity[seen][near].mean(axis=1)
        flow[other] = fit(x[seen], velocity[seen])(x[other])
    cosines = cosine(fitted, velocity), cosine(fitted, velocity[rng.permutation(len(x))])
    return Observed(*cosines, _explained(around, velocity), _explained(flow, velocity))


def cosine(one: Array, other: Array) -> float:
    """The mean cosine of vectors, of those that have a direction; NaN if none has."""
    lengths = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    moving = lengths > 0
    return float(np.mean(np.sum(one * other, axis=1)[moving] / lengths[moving])) if moving.any() else np.nan


def _explained(predicted: Array, velocity: Array) -> float:
    total = float(np.sum(velocity**2))
    return 1 - float(np.sum((velocity - predicted) ** 2)) / total if total > 0 else 0.0
