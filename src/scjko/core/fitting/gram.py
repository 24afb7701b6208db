"""Sums over cells of the products of forces: all that normal equations are made of, without writing the forces out.

A force has an entry for each dimension. But that of a monomial φ is zero along the coordinates it does not have, and
that of a radial function b = exp(−‖z − c‖² / s) points along z − c. So with weights w over the cells

    Σ w ∇b · ∇b' = 2/s² Σ w b b' (‖z − c‖² + ‖z − c'‖² − ‖c − c'‖²)
    Σ w ∇φ · ∇b  = −2/s Σ w b (deg φ · φ − Σ_i c_i ∂_i φ)           since z · ∇φ = deg φ · φ (Euler)

which are matrix products over cells alone, and not over cells and dimensions: in thirty dimensions a twentieth of the
work. Forces that have no such form, those of a kernel and of the density, and the velocities, are written out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..energy.models import LinearPotential, Weights

Array = NDArray[np.float64]
Numbers = NDArray[np.int64]

#: Energies are evaluated in float32: a feature beyond its range is infinite there.
LARGEST = float(np.finfo(np.float32).max)


@np.errstate(over="ignore", invalid="ignore")
def gram(potential: LinearPotential, weights: Weights, z: Array, weight: Array, written_out: Array) -> Array:
    """Σ w f · f' of all pairs of forces: ∇φ of each feature at ``z`` (n, d), then those of ``written_out`` (n, m, d).

    Not finite where features overflow.
    """
    centers, width = weights["centers"].astype(np.float64), float(weights["width"])
    monomials = partial_derivatives(potential, z.shape[1])
    n_monomials, n_features = len(potential.exponents), len(potential.exponents) + len(centers)
    flat, radial, rest = slice(n_monomials), slice(n_monomials, n_features), slice(n_features, None)
    total = np.zeros((n_features + written_out.shape[1],) * 2)

    squared = cdist(z, centers, "sqeuclidean")
    bumps = np.exp(-squared / width)
    heavy = weight[:, None] * bumps
    reach = (squared * heavy).T @ bumps
    apart = cdist(centers, centers, "sqeuclidean")
    total[radial, radial] = 2 / width**2 * (reach + reach.T - apart * (heavy.T @ bumps))

    with_one = np.column_stack([z, np.ones(len(z))])
    slopes = monomials.power * _products(with_one, monomials.factors)
    degree = np.array([sum(powers) for powers in potential.exponents])
    along = (degree * _products(with_one, potential.factors(z.shape[1]))).T @ heavy
    np.subtract.at(along, monomials.feature, centers.T[monomials.coordinate] * (slopes.T @ heavy))
    total[flat, radial] = -2 / width * along

    for i in range(z.shape[1]):
        here = np.flatnonzero(monomials.coordinate == i)
        own, slope = monomials.feature[here], slopes[:, here]
        heavy_slope = weight[:, None] * slope
        total[np.ix_(own, own)] += heavy_slope.T @ slope
        total[own, rest] += heavy_slope.T @ written_out[:, :, i]

    outward = heavy.T @ np.einsum("ni,nmi->nm", z, written_out)
    inward = np.tensordot(heavy, written_out, (0, 0))
    total[radial, rest] = -2 / width * (outward - np.einsum("ci,cmi->cm", centers, inward))
    each = np.moveaxis(written_out, 1, 2).reshape(-1, written_out.shape[1])
    total[rest, rest] = (np.repeat(weight, z.shape[1])[:, None] * each).T @ each

    total[radial, flat], total[rest, :n_features] = total[flat, radial].T, total[:n_features, rest].T
    return total


class Derivatives(NamedTuple):
    """The partial derivatives of monomials that are not zero: power · Π factors."""

    feature: Numbers
    """Of which monomial."""
    coordinate: Numbers
    """Along which coordinate."""
    power: Numbers
    factors: Numbers
    """The coordinates that are multiplied, filled up with the number of dimensions, which stands for one."""


def partial_derivatives(potential: LinearPotential, n_dims: int) -> Derivatives:
    """The derivatives of the monomials of a potential: one factor less, times its power."""
    factors, powers = potential.factors(n_dims), np.array(potential.exponents).reshape(-1, n_dims)
    feature, coordinate = np.nonzero(powers)
    # The first of the equal factors is the one that goes: it is put last, and cut off.
    first = np.argmax(factors[feature] == coordinate[:, None], axis=1)
    order = np.argsort(np.arange(factors.shape[1]) == first[:, None], axis=1, kind="stable")
    left = np.take_along_axis(factors[feature], order, axis=1)[:, :-1]
    return Derivatives(feature, coordinate, powers[feature, coordinate], left)


def _products(with_one: Array, factors: Numbers) -> Array:
    """Π of the columns that each row of ``factors`` names, at each point."""
    product = np.ones((len(with_one), len(factors)))
    for column in factors.T:
        product *= with_one[:, column]
    product[np.abs(product) > LARGEST] = np.inf
    return product
