"""Which features a linear potential is made of."""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans

from .models import LinearPotential, Weights

Array = NDArray[np.float64]

#: The paper's degree, and the monomials a default potential may have: products of coordinates up to the highest degree
#: that stays below.
DEGREE = 4
MAX_MONOMIALS = 500
#: Squared width of the radial basis functions over the squared distance of their centres: in the paper 0.5 on ten
#: points a dimension over [−4, 4].
RELATIVE_WIDTH = 0.5 / (8 / 9) ** 2


#: Radial basis functions in few dimensions, at most; 300 in more. On branched data in a plane 600 are better than 300,
#: and 1000 gain nothing more.
MAX_CENTERS = {1: 50, 2: 600}


def linear_potential(
    x: Array, *, degree: int | None, n_centers: int | None, random_state: int, regular: bool = False
) -> tuple[LinearPotential, Weights]:
    """A linear potential for points like ``x``, and its weights but for the coefficients.

    Monomials up to ``degree``, and radial basis functions at the centres of k-means clusters, which lie where cells
    are. In one or two dimensions ``regular`` puts them on a grid over the range of the points instead (of fifteen a
    side, where the paper has ten). By default the degree is the paper's four, of which in many dimensions only the
    powers of single coordinates are kept where all would be too many; :mod:`scjko.core.fitting.screening` finds the
    products worth adding.
    """
    n_dims = x.shape[1]
    powers = exponents(n_dims, degree) if degree is not None else _default_exponents(n_dims)
    if regular and n_dims <= 2:
        per_side = 15 if n_centers is None else max(2, round(n_centers ** (1 / n_dims)))
        centers, spacing = grid(x, 0 if n_centers == 0 else per_side)
    else:
        most = MAX_CENTERS.get(n_dims, 300)
        centers, spacing = clusters(x, min(most, len(x) // 10) if n_centers is None else n_centers, random_state)
        # In a plane centres are dense, and functions that reach further add up to a smoother potential.
        spacing *= 2 if n_dims <= 2 else 1
    weights = {"centers": centers.astype(np.float32), "width": np.float32(RELATIVE_WIDTH * spacing**2)}
    return LinearPotential(powers), weights


def _default_exponents(n_dims: int) -> tuple[tuple[int, ...], ...]:
    degree = max(k for k in range(1, DEGREE + 1) if k == 1 or comb(n_dims + k, k) <= MAX_MONOMIALS)
    alone = [tuple(k * (i == j) for j in range(n_dims)) for k in range(degree + 1, DEGREE + 1) for i in range(n_dims)]
    return exponents(n_dims, degree) + tuple(alone)


def has_all(n_dims: int) -> bool:
    """Whether a default potential has every monomial up to degree four: in at most eight dimensions."""
    return comb(n_dims + DEGREE, DEGREE) <= MAX_MONOMIALS


def exponents(n_dims: int, degree: int) -> tuple[tuple[int, ...], ...]:
    """The powers of every monomial from degree one up; the constant has no force."""
    found = []
    for total in range(1, degree + 1):
        for factors in combinations_with_replacement(range(n_dims), total):
            found.append(tuple(factors.count(coordinate) for coordinate in range(n_dims)))
    return tuple(found)


def grid(x: Array, per_side: int) -> tuple[Array, float]:
    """Centres on a grid over the range of the points, and their distance (the mean one if sides differ)."""
    if per_side == 0:
        return np.empty((0, x.shape[1])), 1.0
    low, high = x.min(axis=0), x.max(axis=0)
    sides = [np.linspace(a, b, per_side) for a, b in zip(low, high, strict=True)]
    centers = np.stack([axis.ravel() for axis in np.meshgrid(*sides, indexing="ij")], axis=1)
    return centers, float(np.mean(high - low)) / (per_side - 1) or 1.0


def clusters(x: Array, n_centers: int, random_state: int) -> tuple[Array, float]:
    """Centres of k-means clusters, and a length scale from the data: the median distance of a centre to its fifth next.

    In many dimensions the next centre is far, and functions that do not reach their neighbours cannot add up to a
    smooth potential; hence the fifth.
    """
    x = np.unique(x, axis=0)  # centres cover the places of cells, however many stand there
    n_centers = min(n_centers, len(x))
    if n_centers == 0:
        return np.empty((0, x.shape[1])), 1.0
    found = MiniBatchKMeans(n_centers, random_state=random_state, n_init=1).fit(x).cluster_centers_.astype(np.float64)
    distance = np.sqrt(((found[:, None] - found[None]) ** 2).sum(axis=2))
    fifth = np.sort(distance, axis=1)[:, min(5, n_centers - 1)]
    return found, float(np.median(fifth)) or 1.0


def mirrored(centers: NDArray[np.float32]) -> NDArray[np.float32]:
    """The centres, and behind them their mirror images about the origin."""
    return np.concatenate([centers, -centers])
