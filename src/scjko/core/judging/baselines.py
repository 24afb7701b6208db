"""Predictions without training: what a fitted energy has to beat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from ..transport.couplings import Coupling

Array = NDArray[np.float64]


class Cloud(NamedTuple):
    """Weighted points; the weights sum to one."""

    points: Array
    weight: Array


def transport(x: Array, source: Array, target: Array, coupling: Coupling, n_neighbours: int) -> Array:
    """Points ``x`` moved as the nearest cells of ``source`` are: by the mean of their displacements.

    The displacement of a cell of ``source`` is that to the mean of its partners in ``target`` under the coupling.
    """
    n_neighbours = min(n_neighbours, len(source))
    _, nearest = cKDTree(source).query(x, k=np.arange(1, n_neighbours + 1))
    displacement = coupling.partners(target) - source
    return np.asarray(x + displacement[nearest].mean(axis=1))


def midpoint(source: Array, target: Array, coupling: Coupling, fraction: float) -> Cloud:
    """The displacement interpolation of two snapshots (McCann 1997): every pair part of the way along its line."""
    points = (1 - fraction) * source[coupling.source] + fraction * target[coupling.target]
    return Cloud(points, coupling.weight)


def mixture(source: Cloud, target: Cloud, fraction: float) -> Cloud:
    """Both snapshots as they are, the nearer one in time with the larger weight."""
    return Cloud(
        np.concatenate([source.points, target.points]),
        np.concatenate([(1 - fraction) * source.weight, fraction * target.weight]),
    )
