"""Kantorovich potentials: lower envelopes of parabolas, one for each coupled cell.

An optimal coupling knows its potential. With f the dual potential of the sources and ȳ_i the mean partner of cell i,
the largest function that is no steeper than the plan allows and equals f at the cells is

    ψ(x) = min_i (‖x − ȳ_i‖² − g_i),        g_i = ‖x_i − ȳ_i‖² − f_i,

whose gradient 2(x − ȳ_i) sends x to the partner of the cell that attains the minimum. V = ψ / 2Δ is then a potential
that satisfies the first-order condition at every cell, without training. The minimum is softened over a width ε,

    ψ_ε(x) = −ε log Σ_i w_i exp(−(‖x − ȳ_i‖² − g_i) / ε),

which is smooth, and the mean over members, each from a coupling of other cells, averages the noise of single plans.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from ..compute.blocks import at_once, filled, in_blocks
from ..compute.parallel import one_thread, side_by_side
from . import models
from .models import Model, Weights

Array = NDArray[np.float64]
Single = NDArray[np.float32]

#: The height of a parabola that is not there: it fills up arrays to one of few sizes.
ABSENT = -1e30
#: Points that are evaluated at a time. Always as many, so that no value depends on the other points; so few that their
#: products with a thousand parabolas stay in the cache, where an exponential takes less time than a number from memory.
AT_ONCE = 128


@dataclass(frozen=True)
class KantorovichPotential:
    """V(z) = scale / 2 · the mean over members of ψ_ε(z), with parabolas of its own at every place.

    The weights at a place are ``points`` (members, parabolas, d), ``heights`` (members, parabolas), with which
    ψ_ε(z) = ‖z‖² − ε log Σ exp((2 z·points + heights) / ε), ``softness`` ε, and ``scale``.
    """

    by_place: ClassVar[bool] = True

    def value(self, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
        """V at one point of the place whose weights these are."""
        softness = weights["softness"]
        rise = (2 * weights["points"] @ z + weights["heights"]) / softness
        envelope = z @ z - softness * jnp.mean(jax.nn.logsumexp(rise, axis=-1))
        return weights["scale"] / 2 * envelope

    def at(self, weights: Weights, c: NDArray[Any]) -> Weights:
        """The weights at the place that ``c`` marks, with parabolas filled up to one of few numbers."""
        own = weights[str(int(np.argmax(c)))]
        # As many at every place, so that one program serves all of them.
        missing = _room(max(place["heights"].shape[-1] for place in weights.values())) - own["heights"].shape[-1]
        return {
            **own,
            "points": np.pad(own["points"], ((0, 0), (0, missing), (0, 0))),
            "heights": np.pad(own["heights"], ((0, 0), (0, missing)), constant_values=ABSENT),
        }

    def size(self, weights: Weights) -> int:
        """Numbers that the value at one point takes, at one place."""
        return int(np.size(weights["heights"]))

    def potentials(self, weights: Weights, z: Single, c: Single) -> Array:
        """V at many points of the place whose weights these are."""
        envelope = np.sum(z.astype(np.float64) ** 2, axis=1) - _soft_maximum(weights, z, _height)[:, 0]
        return float(weights["scale"]) / 2 * envelope

    def gradients(self, weights: Weights, z: Single, c: Single) -> Array:
        """∇V at many points of the place whose weights these are."""
        return float(weights["scale"]) * (z - partners(weights, z))


def partners(weights: Weights, z: NDArray[Any]) -> Array:
    """Where points of the place whose weights these are go: z less the gradient of half the envelope."""
    return _soft_maximum(weights, z.astype(np.float32), _attained)


def _soft_maximum(weights: Weights, z: Single, reading: Callable[..., NDArray[Any]]) -> Array:
    """A reading of ε log Σ exp((2 z·points + heights) / ε) at many points, the mean over members.

    By products of matrices, a few points at a time and side by side. The compiled program of the model writes all
    products to memory: gradients at both ends of all intervals of 10⁴ cells in 30 dimensions, of eight members, took
    2.7 s of one core with it and take 0.6 s so.
    """
    softness = np.float32(weights["softness"])
    present = int(np.max(np.sum(weights["heights"] > ABSENT / 2, axis=1)))  # those that fill up come last
    members = [
        (own, np.ascontiguousarray((2 / softness * own).T), height / softness)
        for own, height in zip(weights["points"][:, :present], weights["heights"][:, :present], strict=True)
    ]

    def evaluate(start: int) -> Array:
        block = filled(z[start : start + AT_ONCE], AT_ONCE)
        # Cells that ran away have no number, as those of compiled programs.
        with np.errstate(over="ignore", invalid="ignore"):
            found = [reading(block @ slopes + rise, own, softness) for own, slopes, rise in members]
        mean: Array = np.asarray(np.mean(found, axis=0, dtype=np.float64))
        return mean[: len(z) - start]

    starts = range(0, max(len(z), 1), AT_ONCE)
    if len(starts) == 1:
        return evaluate(0)
    with one_thread():
        return np.concatenate(side_by_side(evaluate, starts))


def _height(rise: Single, points: Single, softness: np.float32) -> Single:
    """The soft maximum of each row."""
    top = rise.max(axis=1, keepdims=True)
    rise -= top
    return softness * (top + np.log(np.exp(rise, out=rise).sum(axis=1, keepdims=True)))


def _attained(rise: Single, points: Single, softness: np.float32) -> Single:
    """The mean of the points at which the maximum of each row is attained."""
    rise -= rise.max(axis=1, keepdims=True)
    np.exp(rise, out=rise)
    return rise @ points / rise.sum(axis=1, keepdims=True)


def _room(n: int) -> int:
    """The first of 2ᵏ and 3·2ᵏ⁻¹ that is not below ``n``: programs are compiled for few sizes."""
    power = 1 << max(n - 1, 1).bit_length()
    return 3 * power // 4 if n <= 3 * power // 4 else power


@dataclass(frozen=True)
class MeanPotential:
    """A weighted mean of potentials, which reads what each of them is told from one row.

    The first is smooth. Where its share is zero it is not evaluated.
    """

    parts: tuple[Model, ...]
    shares: tuple[float, ...]
    widths: tuple[int, ...]
    """How many numbers each of them is told."""

    by_place: ClassVar[bool] = True

    def smooth(self, weights: Weights) -> tuple[Model, Weights]:
        """The smooth part and its weights."""
        return self.parts[0], weights["part0"]

    def value(self, weights: Weights, z: jax.Array, c: jax.Array) -> jax.Array:
        """The mean of the parts."""
        total = jnp.zeros((), z.dtype)
        for name, part, share, told in self._each(c):
            total = total + share * part.value(weights[name], z, told)
        return total

    def at(self, weights: Weights, c: NDArray[Any]) -> Weights:
        """The weights of every part at the place that ``c`` marks."""
        return {name: part.at(weights[name], told) for name, part, _, told in self._each(c)}

    def size(self, weights: Weights) -> int:
        """Numbers that the value at one point takes, at one place."""
        return max(part.size(weights[name]) for name, part, _, _ in self._each(np.zeros(sum(self.widths))))

    def potentials(self, weights: Weights, z: Single, c: Single) -> Array:
        """The mean of the parts at many points of the place whose weights these are."""
        return self._mean(models.potentials, weights, z, c)

    def gradients(self, weights: Weights, z: Single, c: Single) -> Array:
        """The mean of the gradients of the parts at many points of the place whose weights these are."""
        return self._mean(models.gradients, weights, z, c)

    def _mean(self, function: Callable[..., Any], weights: Weights, z: Single, c: Single) -> Array:
        parts = [
            share * evaluated(part, function, weights[name], z, np.ascontiguousarray(told.T))
            for name, part, share, told in self._each(c.T)
        ]
        return np.sum(parts, axis=0)

    def _each(self, c: Any) -> list[tuple[str, Model, float, Any]]:
        ends = np.cumsum(self.widths).tolist()
        cuts = zip([0, *ends[:-1]], ends, strict=True)
        told = [c[start:stop] for start, stop in cuts]
        names = [f"part{k}" for k in range(len(self.parts))]
        return [each for each in zip(names, self.parts, self.shares, told, strict=True) if each[2]]


def evaluated(model: Model, function: Callable[..., Any], weights: Weights, *rows: Single) -> Array:
    """``function`` of :mod:`.models` at many points: as the model itself does, or by the compiled program for any."""
    own = getattr(model, function.__name__, None)
    if own is not None:
        found: Array = own(weights, *rows)
        return found
    # Second derivatives have a tangent for each dimension.
    tangents = rows[0].shape[1] if function is models.hessians else 1
    largest = at_once(model.size(weights) * tangents) if model.by_place else None
    (values,) = in_blocks(lambda *block: (function(model, weights, *block),), *rows, largest=largest)
    return values
