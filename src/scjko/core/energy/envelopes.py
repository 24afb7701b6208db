"""Kantorovich potentials: lower envelopes of parabolas, one for each coupled cell.

An optimal coupling knows its potential. With f the dual potential of the sources and ȳ_i the mean partner of cell i,
the largest function that is no steeper than the plan asks for and equals f at the cells is

    ψ(x) = min_i (‖x − ȳ_i‖² − g_i),        g_i = ‖x_i − ȳ_i‖² − f_i,

whose gradient 2(x − ȳ_i) sends x to the partner of the cell that attains the minimum. V = ψ / 2Δ is then a potential
that satisfies the first-order condition at every cell, without training. The minimum is softened over a width ε,

    ψ_ε(x) = −ε log Σ_i w_i exp(−(‖x − ȳ_i‖² − g_i) / ε),

which is smooth, and the mean over members, each from a coupling of other cells, averages the noise of single plans.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from .models import Model, Weights

#: The height of a parabola that is not there: it fills up arrays to one of few sizes.
ABSENT = -1e30


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


def partners(weights: Weights, z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where points of the place whose weights these are go: z less the gradient of half the envelope.

    As the model has it, but in double precision and without a compiled program, for few points.
    """
    points, heights = (np.asarray(weights[name], np.float64) for name in ("points", "heights"))
    total = np.zeros(z.shape)
    for own, height in zip(points, heights, strict=True):
        total += softmax((2 * z @ own.T + height) / float(weights["softness"]), axis=1) @ own
    return total / len(points)


def _room(n: int) -> int:
    """The first of 2ᵏ and 3·2ᵏ⁻¹ that is not below ``n``: programs are compiled for few sizes."""
    power = 1 << max(n - 1, 1).bit_length()
    return 3 * power // 4 if n <= 3 * power // 4 else power


@dataclass(frozen=True)
class MeanPotential:
    """A weighted mean of potentials, which reads what each of them is told from one row."""

    parts: tuple[Model, ...]
    shares: tuple[float, ...]
    widths: tuple[int, ...]
    """How many numbers each of them is told."""

    by_place: ClassVar[bool] = True

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

    def _each(self, c: Any) -> list[tuple[str, Model, float, Any]]:
        ends = np.cumsum(self.widths).tolist()
        cuts = zip([0, *ends[:-1]], ends, strict=True)
        told = [c[start:stop] for start, stop in cuts]
        names = [f"part{k}" for k in range(len(self.parts))]
        return list(zip(names, self.parts, self.shares, told, strict=True))
