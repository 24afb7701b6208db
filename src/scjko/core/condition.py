"""The first-order optimality condition of a JKO step: the equation that everything here rests on.

Snapshots μ_0 … μ_T at times s_0 < … < s_T follow an energy J. A JKO step from μ_k is the population μ_{k+1} that makes
J(μ) + W₂²(μ, μ_k) / 2Δ_k smallest, Δ_k = s_{k+1} − s_k. At the optimum, along the optimal coupling γ_k of the two,
every coupled pair (x, y) balances the slope of the energy against its displacement:

    r = ∇J(z) + (y − x) / Δ_k = 0            (propositions 3.1 and 3.2 of "Learning diffusion at lightspeed")

    ∇J(z) = ∇V(z) + ∫ ∇U(z − z') dμ(z') + β ∇log ρ(z)

with μ the snapshot that z belongs to and ρ its density. The energy is learned by making Σ_k ∫ ‖Δ_k r‖² dγ_k small.
Where z stands is the scheme: at the target y (implicit, the JKO step itself), at the source x (explicit, its forward
counterpart), or, fitted together, at both.

z is one end of the pair, so ∇J(z) does not vary among the pairs that share it, and with v̄ the γ-mean of (y − x) / Δ_k
over them

    ∫ ‖∇J(z) + v‖² dγ = ∫ ‖∇J(z) + v̄‖² dμ(z) + ∫ ‖v − v̄‖² dγ.

The second integral is the same for every energy. It is therefore enough to keep one row (z, v̄, weight) per cell and
end, in place of one per pair: the same minimiser, half the work, and less noise in the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from .transport.couplings import Coupling, OperatorCoupling

SCHEMES = ("both", "explicit", "implicit")

Array = NDArray[np.float64]


def residual(slope: jax.Array, velocity: jax.Array) -> jax.Array:
    """r = ∇J(z) + v̄, zero where the energy explains the motion."""
    return slope + velocity


def loss(slope: jax.Array, velocity: jax.Array, weight: jax.Array, twin: jax.Array | None = None) -> jax.Array:
    """∫ ‖r‖² dμ over weighted points, up to the part that no energy can change.

    If the slope is an estimate from a random sample, its noise would be taken for residual. ``twin``, an independent
    estimate of the same slope, prevents that: the mean of r · r' is ‖r‖² without it.
    """
    r = residual(slope, velocity)
    other = r if twin is None else residual(twin, velocity)
    return jnp.sum(weight * jnp.sum(r * other, axis=-1))


class Conditions(NamedTuple):
    """The condition at every point z it is asked of, one row each."""

    points: Array
    """z (n, d)."""
    velocity: Array
    """v̄ (n, d): where the point goes (or, at the end of an interval, came from), per unit of time."""
    weight: Array
    """The mass of each point: one in all for each interval and end."""
    interval: NDArray[np.int64]
    """k, the interval."""
    end: Array
    """Where in the interval the point stands: 0 at x, its start, or 1 at y, its end."""
    gap: Array
    """Δ_k, the length of the interval."""

    @property
    def importance(self) -> Array:
        """The weight of each residual in the loss: the mass of the point times Δ_k².

        Residuals are velocities. Times Δ_k they are errors of a prediction, in units of the coordinates: so an interval
        of an hour does not drown one of a day, whose velocities are as much smaller. If all intervals are of one
        length, this changes nothing.
        """
        return self.weight * self.gap**2


def conditions(
    points: Sequence[Array], couplings: Sequence[Coupling | OperatorCoupling], gaps: Array, scheme: str
) -> Conditions:
    """The conditions of all intervals under ``scheme``: at x if explicit, at y if implicit, or at both."""
    rows = []
    for k, (coupling, gap) in enumerate(zip(couplings, gaps, strict=True)):
        x, y = points[k], points[k + 1]
        if scheme in ("explicit", "both"):
            rows.append(_rows(k, 0.0, gap, x, (coupling.partners(y) - x) / gap, coupling.source_weight))
        if scheme in ("implicit", "both"):
            back = coupling.transposed
            rows.append(_rows(k, 1.0, gap, y, (y - back.partners(x)) / gap, back.source_weight))
    return Conditions(*(np.concatenate(column) for column in zip(*rows, strict=True)))


def _rows(interval: int, end: float, gap: float, z: Array, velocity: Array, weight: Array) -> Conditions:
    there = weight > 0  # nothing is asked of cells that weigh nothing
    n = np.count_nonzero(there)
    return Conditions(z[there], velocity[there], weight[there], np.full(n, interval), np.full(n, end), np.full(n, gap))
