"""The paper's fifteen test functions, each for points of any dimension."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Functional:
    """A function of points of any dimension (from ``min_dims`` on), with its gradient by automatic differentiation.

    ``value`` is the function at one point, for JAX; called with many points (n, d), the functional gives its values at
    them, as an array (n,).
    """

    name: str
    formula: str
    value: Callable[[jax.Array], jax.Array]
    min_dims: int

    def __call__(self, x: ArrayLike) -> Array:
        """Its values at points (n, d), as an array (n,)."""
        return np.asarray(_values(self.value, self._points(x)), dtype=np.float64)

    def gradient(self, x: ArrayLike) -> Array:
        """Its gradients at points (n, d), as an array (n, d): finite everywhere, zero across a kink."""
        return np.asarray(_gradients(self.value, self._points(x)), dtype=np.float64)

    def check(self, n_dims: int) -> None:
        """Raise unless it is defined for points of ``n_dims`` dimensions."""
        if n_dims < self.min_dims:
            raise ValueError(f"{self.name} needs at least {self.min_dims} dimensions, not {n_dims}.")

    def _points(self, x: ArrayLike) -> jax.Array:
        points = jnp.asarray(np.asarray(x), dtype=jnp.float32)
        if points.ndim != 2:
            raise ValueError(f"x has shape {points.shape}; a functional takes points of shape (n, d).")
        self.check(points.shape[1])
        return points


class Functionals(dict[str, Functional]):
    """Functionals by name; an unknown name is an error that lists the known ones."""

    def __missing__(self, name: str) -> Functional:
        raise KeyError(f"{name!r} is not a functional; choose one of {', '.join(self)}.")


@partial(jax.jit, static_argnums=0)
def _values(value: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    return jax.vmap(value)(x)


@partial(jax.jit, static_argnums=0)
def _gradients(value: Callable[[jax.Array], jax.Array], x: jax.Array) -> jax.Array:
    return jax.vmap(jax.grad(value))(x)


def _halves(v: jax.Array) -> tuple[jax.Array, jax.Array]:
    """z₁ and z₂, the means of the first ⌊d/2⌋ coordinates and of the others."""
    half = v.shape[0] // 2
    return jnp.mean(v[:half]), jnp.mean(v[half:])


def _norm(v: jax.Array) -> jax.Array:
    """‖v‖, with a gradient of zero at zero in place of none."""
    square = jnp.sum(v**2)
    return jnp.where(square > 0, jnp.sqrt(jnp.where(square > 0, square, 1.0)), 0.0)


def styblinski_tang(v: jax.Array) -> jax.Array:
    """½ Σ (vᵢ⁴ − 16 vᵢ² + 5 vᵢ)."""
    return jnp.sum(v**4 - 16 * v**2 + 5 * v) / 2


def holder_table(v: jax.Array) -> jax.Array:
    """10 |sin z₁ cos z₂ exp|1 − ‖v‖/π||."""
    z1, z2 = _halves(v)
    return 10 * jnp.abs(jnp.sin(z1) * jnp.cos(z2)) * jnp.exp(jnp.abs(1 - _norm(v) / jnp.pi))


def flowers(v: jax.Array) -> jax.Array:
    """Σ (vᵢ + 2 sin |vᵢ|^1.2)."""
    return jnp.sum(v + 2 * jnp.sin(jnp.abs(v) ** 1.2))


def oakley_ohagan(v: jax.Array) -> jax.Array:
    """5 Σ (sin vᵢ + cos vᵢ + vᵢ² + vᵢ)."""
    return 5 * jnp.sum(jnp.sin(v) + jnp.cos(v) + v**2 + v)


def watershed(v: jax.Array) -> jax.Array:
    """⅒ Σ (vᵢ + vᵢ² (vᵢ₊₁ + 4))."""
    return jnp.sum(v[:-1] + v[:-1] ** 2 * (v[1:] + 4)) / 10


def ishigami(v: jax.Array) -> jax.Array:
    """sin z₁ + 7 sin² z₂ + ⅒ ((z₁ + z₂)/2)⁴ sin z₁."""
    z1, z2 = _halves(v)
    return jnp.sin(z1) + 7 * jnp.sin(z2) ** 2 + ((z1 + z2) / 2) ** 4 * jnp.sin(z1) / 10


def friedman(v: jax.Array) -> jax.Array:
    """(10 sin 2πab + 20 (2a sin b − ½)² + 10 (2a cos b − 1)² + ⅒ b sin 2a) / 100 with a = z₁ − 7, b = z₂ − 7."""
    a, b = (z - 7 for z in _halves(v))
    squares = 20 * (2 * a * jnp.sin(b) - 0.5) ** 2 + 10 * (2 * a * jnp.cos(b) - 1) ** 2
    return (10 * jnp.sin(2 * jnp.pi * a * b) + squares + b * jnp.sin(2 * a) / 10) / 100


def sphere(v: jax.Array) -> jax.Array:
    """−10 ‖v‖²."""
    return -10 * jnp.sum(v**2)


def bohachevsky(v: jax.Array) -> jax.Array:
    """10 (z₁² + 2 z₂² − 0.3 cos 3πz₁ − 0.4 cos 4πz₂)."""
    z1, z2 = _halves(v)
    return 10 * (z1**2 + 2 * z2**2 - 0.3 * jnp.cos(3 * jnp.pi * z1) - 0.4 * jnp.cos(4 * jnp.pi * z2))


def wavy_plateau(v: jax.Array) -> jax.Array:
    """Σ (cos πvᵢ + ½ vᵢ⁴ − 3 vᵢ² + 1)."""
    return jnp.sum(jnp.cos(jnp.pi * v) + v**4 / 2 - 3 * v**2 + 1)


def zigzag_ridge(v: jax.Array) -> jax.Array:
    """Σ ((vᵢ − vᵢ₊₁)² + cos(vᵢ) (vᵢ + vᵢ₊₁) + vᵢ² vᵢ₊₁)."""
    here, after = v[:-1], v[1:]
    return jnp.sum((here - after) ** 2 + jnp.cos(here) * (here + after) + here**2 * after)


def double_exp(v: jax.Array) -> jax.Array:
    """200 exp(−‖v − 3‖²/20) + exp(−‖v + 3‖/20)."""
    return 200 * jnp.exp(-jnp.sum((v - 3) ** 2) / 20) + jnp.exp(-_norm(v + 3) / 20)


def relu(v: jax.Array) -> jax.Array:
    """−50 Σ max(0, vᵢ)."""
    return -50 * jnp.sum(jax.nn.relu(v))


def rotational(v: jax.Array) -> jax.Array:
    """10 max(0, π + atan2(z₂ + 5, z₁ + 5))."""
    z1, z2 = _halves(v)
    return 10 * jax.nn.relu(jnp.arctan2(z2 + 5, z1 + 5) + jnp.pi)


def flat(v: jax.Array) -> jax.Array:
    """0."""
    return 0.0 * jnp.sum(v)


_ANY = (styblinski_tang, flowers, oakley_ohagan, sphere, wavy_plateau, double_exp, relu, flat)
_ORDER = (
    *(styblinski_tang, holder_table, flowers, oakley_ohagan, watershed, ishigami, friedman, sphere, bohachevsky),
    *(wavy_plateau, zigzag_ridge, double_exp, relu, rotational, flat),
)

functionals = Functionals(
    (f.__name__, Functional(f.__name__, (f.__doc__ or "").rstrip("."), f, 1 if f in _ANY else 2)) for f in _ORDER
)
