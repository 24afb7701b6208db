"""Baselines: predictions without an energy, which a fitted one has to beat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.kernel_ridge import KernelRidge

from ..compute.neighbours import nearest
from ..transport import Coupling

Array = NDArray[np.float64]

#: Source cells that kernel ridge regression is fitted to, and those that its settings are chosen on: a solve takes
#: time by the cube of their number. The choice hardly depends on it (embryoid bodies: 400, 600 and 900 cells agree).
MAX_CELLS = 2000
MAX_CHOICE_CELLS = 500
#: Bandwidths that are tried, as multiples of the median distance of two cells.
BANDWIDTHS = (0.125, 0.25, 0.5, 1.0, 2.0, 4.0)
#: Ridges that are tried: the variance of the noise of a cell's displacement relative to that of the signal.
RIDGES = (1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
#: Rows of the kernel matrix that are evaluated at a time.
BLOCK = 4096


class Cloud(NamedTuple):
    """Weighted points; the weights sum to one."""

    points: Array
    weight: Array


def transport(x: Array, source: Array, target: Array, coupling: Coupling, n_neighbours: int) -> Array:
    """Points ``x`` moved by the mean displacement of the nearest cells of ``source``.

    The displacement of a cell of ``source`` is that to the mean of its partners in ``target`` under the coupling.
    """
    _, near = nearest(source, x, n_neighbours)
    displacement = coupling.partners(target) - source
    return np.asarray(x + displacement[near].mean(axis=1))


def mean_shift(x: Array, source: Array, target: Array, coupling: Coupling) -> Array:
    """Points ``x`` moved by the mean displacement of all cells of ``source``, weighted by their mass."""
    return x + coupling.source_weight @ (coupling.partners(target) - source)


def kernel_ridge(x: Array, source: Array, target: Array, coupling: Coupling) -> Array:
    """Points ``x`` moved by a kernel ridge regression of the displacements of the cells of ``source``.

    The kernel is Gaussian; bandwidth and ridge have the smallest leave-one-out error. If no setting has a smaller one
    than the mean displacement, or all cells are in one place, this is :func:`mean_shift`. Of more than ``MAX_CELLS``
    cells a random sample is used, always the same.
    """
    mass = coupling.source_weight
    cells = np.random.default_rng(0).permutation(np.flatnonzero(mass > 0))[:MAX_CELLS]
    # Brute-force kernels expand (x − y)², which cancels if the cells are far from the origin.
    centre, weight = source[cells].mean(axis=0), mass[cells] / mass[cells].mean()
    points, shift = source[cells] - centre, mass @ (coupling.partners(target) - source)
    rest = (coupling.partners(target) - source)[cells] - shift
    few = slice(MAX_CHOICE_CELLS)
    settings = best_settings(points[few], rest[few], weight[few])
    if settings is None:
        return x + shift
    bandwidth, ridge = settings
    model = KernelRidge(kernel="rbf", gamma=1 / (2 * bandwidth**2), alpha=ridge).fit(points, rest, weight)
    blocks = np.array_split(x - centre, max(1, -(-len(x) // BLOCK)))
    return x + shift + np.concatenate([model.predict(block) for block in blocks])


def best_settings(points: Array, values: Array, weight: Array) -> tuple[float, float] | None:
    """Bandwidth and ridge of the kernel ridge regression with the smallest weighted leave-one-out error.

    ``None`` if none has a smaller one than zero everywhere. The weights have mean one. With K the kernel matrix, S the
    diagonal matrix of weights and G = (S^½ K S^½ + ridge)⁻¹, the error left at cell i without it is
    (G S^½ values)ᵢ / Gᵢᵢ, so that one eigendecomposition serves every ridge.
    """
    squared = cdist(points, points, "sqeuclidean")
    typical = np.median(squared[np.triu_indices(len(points), 1)]) if len(points) > 1 else 0.0
    typical = typical or squared.mean()  # more than half of the pairs may be duplicates
    if typical == 0:
        return None
    root = np.sqrt(weight)[:, None]
    scaled, best, smallest = root * values, None, float(np.sum(weight[:, None] * values**2))
    for multiple in BANDWIDTHS:
        eigenvalues, vectors = eigh(root * np.exp(-squared / (2 * multiple**2 * typical)) * root.T)
        projected, shares = vectors.T @ scaled, vectors**2
        for ridge in RIDGES:
            inverse = 1 / (np.maximum(eigenvalues, 0) + ridge)
            error = np.sum((vectors @ (inverse[:, None] * projected) / (shares @ inverse)[:, None]) ** 2)
            if error < smallest:
                best, smallest = (float(multiple * np.sqrt(typical)), ridge), float(error)
    return best


def last_mean_shift(before: Cloud, last: Cloud, gap_before: float, gap: float) -> Cloud:
    """The last known snapshot, moved on by the mean velocity of the interval before it.

    ``gap_before`` is the time from ``before`` to ``last``, ``gap`` that from ``last`` to the forecast.
    """
    velocity = (last.weight @ last.points - before.weight @ before.points) / gap_before
    return last._replace(points=last.points + gap * velocity)


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
