"""Parametrised potentials: functions of a point z and of c, what is known of its interval.

A model is a small hashable object; its weights are a nested dict of arrays that travel apart from it, so that one
compiled program serves every fit of the same shape. Potentials V and interaction kernels U are the same kind of thing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Protocol

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Weights = Any
"""The weights of a model: a nested dict of float32 arrays."""

#: Where the coefficients of the members of a linear function stand, beside their mean.
MEMBERS = "members"
#: Standard deviation of the slopes that units of single coordinates start with.
UNIT_SLOPE = 2.0


class Model(Protocol):
    """A parametrised function of a point."""

    @property
    def by_place(self) -> bool:
        """Whether it is evaluated at the points of one place at a time, with the weights that :meth:`at` gives."""
        ...

    def value(self, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
        """Its value at one point."""
        ...

    def at(self, weights: Weights, c: NDArray[Any]) -> Weights:
        """The weights that its values at the place of ``c`` depend on."""
        ...

    def size(self, weights: Weights) -> int:
        """How many numbers its value at one point takes, about."""
        ...

    def __hash__(self) -> int: ...


class Everywhere:
    """A model that has the same weights at every place."""

    by_place: ClassVar[bool] = False

    def at(self, weights: Weights, c: NDArray[Any]) -> Weights:
        """All weights."""
        return weights

    def size(self, weights: Weights) -> int:
        """Few enough not to count."""
        return 1


@jax.custom_jvp
def _softplus(x: jax.Array) -> jax.Array:
    """log(1 + eˣ), with a derivative of one operation: updates of units take 40 % of the time they would with JAX's."""
    return jnp.logaddexp(x, 0.0)


_softplus.defjvps(lambda tangent, value, x: jax.nn.sigmoid(x) * tangent)


class NeuralPotential(Everywhere, nn.Module):
    """A multi-layer perceptron with softplus activations, as in the paper's appendix on network architecture.

    In many dimensions there are two sums beside it, both zero at the start of training:

        Σᵢⱼ aᵢⱼ softplus(wᵢⱼ zⱼ + bᵢⱼ) + Σᵣ aᵣ softplus(wᵣ · (z, c) + bᵣ),

    of units that see one coordinate, and of ridge functions of directions that are learned.
    """

    layers: tuple[int, ...]
    even: bool = False
    """Whether V(−z, c) = V(z, c), as an interaction kernel may have to be."""
    n_units: int = 0
    """Units of each coordinate."""
    n_ridges: int = 0
    """Ridge functions."""

    @nn.compact
    def __call__(self, z: jax.Array, c: jax.Array) -> jax.Array:
        """V(z, c)."""
        h = told = jnp.concatenate([z, c], axis=-1)
        for width in self.layers:
            h = nn.softplus(nn.Dense(width)(h))
        value = nn.Dense(1)(h)[..., 0]
        zeros, normal = nn.initializers.zeros, nn.initializers.normal
        if self.n_units:
            # Coordinates are last, along which XLA computes side by side: half the time of units last (d = 30).
            shape = self.n_units, z.shape[-1]
            slope = self.param("unit_slope", normal(UNIT_SLOPE), shape)
            shift = self.param("unit_shift", normal(1.0), shape)
            value = value + jnp.sum(self.param("unit_height", zeros, shape) * _softplus(z[None, :] * slope + shift))
        if self.n_ridges:
            slope = self.param("ridge_slope", nn.initializers.lecun_normal(), (told.shape[-1], self.n_ridges))
            shift = self.param("ridge_shift", zeros, (self.n_ridges,))
            value = value + _softplus(told @ slope + shift) @ self.param("ridge_height", zeros, (self.n_ridges,))
        return value

    def value(self, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
        """V(z, c) with these weights."""
        value = jnp.asarray(self.apply({"params": weights}, z, c))
        return (value + jnp.asarray(self.apply({"params": weights}, -z, c))) / 2 if self.even else value

    def start(self, key: jax.Array, n_dims: int, n_labels: int) -> Weights:
        """Random weights to start from."""
        return self.init(key, jnp.zeros(n_dims), jnp.zeros(n_labels))["params"]


@dataclass(frozen=True)
class LinearPotential(Everywhere):
    """V(z, c) = Σ c_m θ_mi φ_i(z): monomials and radial basis functions, with coefficients that c mixes.

    ``c`` has one entry for each row of coefficients: a single one if the potential does not vary in time, an indicator
    of the interval, or a polynomial in time.
    """

    exponents: tuple[tuple[int, ...], ...]
    """The powers of the coordinates in each monomial."""

    def features(self, weights: Weights, z: jax.Array) -> jax.Array:
        """φ(z): first the monomials, then exp(−‖z − center‖² / width) for each center."""
        squared = jnp.sum((z[None, :] - weights["centers"]) ** 2, axis=1)
        return jnp.concatenate([self._monomials(z), jnp.exp(-squared / weights["width"])])

    def mean_feature_gradient(self, weights: Weights, z: jax.Array, weight: jax.Array) -> jax.Array:
        """∫ ∇φ dμ over many weighted points ``z`` (m, d), one row for each feature.

        By matrix products in place of a gradient for each point.
        """
        centers, width = weights["centers"], weights["width"]
        squared = jnp.sum(z**2, axis=1)[:, None] - 2 * z @ centers.T + jnp.sum(centers**2, axis=1)[None, :]
        bumps = jnp.exp(-squared / width)
        mass, moment = weight @ bumps, (weight[:, None] * z).T @ bumps
        monomials = jnp.tensordot(weight, jax.vmap(jax.jacfwd(self._monomials))(z), axes=1)
        return jnp.concatenate([monomials, -2 / width * (moment.T - mass[:, None] * centers)])

    def _monomials(self, z: jax.Array) -> jax.Array:
        # Products of as many coordinates as the degree, filled up with ones, in place of powers: a few operations for
        # any number of monomials, and derivatives that are finite at zero.
        factors = jnp.append(z, 1.0)[self.factors(z.shape[0])]
        product = factors[:, 0]
        for k in range(1, factors.shape[1]):
            product = product * factors[:, k]
        return product

    def factors(self, n_dims: int) -> NDArray[np.int64]:
        """The coordinates that each monomial multiplies, filled up with ``n_dims``, which stands for one."""
        degree = max((sum(powers) for powers in self.exponents), default=1)
        factors = np.full((len(self.exponents), degree), n_dims)
        for row, powers in zip(factors, self.exponents, strict=True):
            row[: sum(powers)] = np.repeat(np.arange(n_dims), powers)
        return factors

    def value(self, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
        """V(z, c) with these weights."""
        return c @ (weights["theta"] @ self.features(weights, z))


@dataclass(frozen=True)
class EnsemblePotential(Everywhere):
    """The mean of several functions of one form; their weights stand one after the other along the first axis."""

    member: NeuralPotential

    def value(self, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
        """The mean over members of V(z, c)."""
        return jnp.mean(jax.vmap(self.member.value, (0, None, None))(weights, z, c))


def _slope(model: Model, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
    return jax.grad(model.value, argnums=1)(weights, z, c)


@partial(jax.jit, static_argnums=0)
def potentials(model: Model, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
    """V at each of many points."""
    return jax.vmap(model.value, (None, 0, 0))(weights, z, c)


@partial(jax.jit, static_argnums=0)
def gradients(model: Model, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
    """∇V at each of many points."""
    return jax.vmap(partial(_slope, model), (None, 0, 0))(weights, z, c)


@partial(jax.jit, static_argnums=0)
def hessians(model: Model, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
    """∇²V at each of many points."""
    return jax.vmap(jax.hessian(model.value, argnums=1), (None, 0, 0))(weights, z, c)
