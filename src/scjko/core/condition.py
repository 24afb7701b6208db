"""The first-order optimality condition of a JKO step: the equation that everything here rests on.

Snapshots μ_0 … μ_T at times s_0 < … < s_T follow an energy J. A JKO step from μ_k is the population μ_{k+1} that makes
J(μ) + W₂²(μ, μ_k) / 2Δ_k smallest, Δ_k = s_{k+1} − s_k. At the optimum, along the optimal coupling γ_k of the two,
every coupled pair (x, y) balances the slope of the energy against its displacement:

    r = ∇J(z) + (y − x) / Δ_k = 0            (propositions 3.1 and 3.2 of "Learning diffusion at lightspeed")

    ∇J(z) = ∇V(z) + ∫ ∇U(z − z') dμ(z') + β ∇log ρ(z)

with μ the population that z belongs to and ρ its density. The energy is learned by making Σ_k ∫ ‖Δ_k r‖² dγ_k small.
Where z stands between x and y is the scheme (:mod:`scjko.core.schemes`): at the target y (implicit, the JKO step
itself), at the source x (explicit), at both ends with a potential for each, or half-way between them.

If z is an end of the pair, ∇J(z) does not vary among the pairs that share it, and with v̄ the γ-mean of (y − x) / Δ_k
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

from .schemes import Scheme
from .timeline import Timeline
from .transport import Coupling, OperatorCoupling

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
    """The condition at every point z where it has to hold, one row each."""

    points: Array
    """z (n, d)."""
    velocity: Array
    """v̄ (n, d): where the point goes, or came from, per unit of time."""
    weight: Array
    """The mass of each point: one in all for each interval and anchor."""
    interval: NDArray[np.int64]
    """k, the interval."""
    anchor: Array
    """The fraction of the interval at which the point stands: 0 at x, 1 at y."""
    gap: Array
    """Δ_k, the length of the interval."""

    @property
    def importance(self) -> Array:
        """The weight of each residual in the loss: the mass of the point times Δ_k².

        Residuals are velocities. Times Δ_k they are errors of a prediction, in units of the coordinates: an interval of
        an hour then does not outweigh one of a day, whose velocities are as much smaller. If all intervals are of one
        length, this changes nothing.
        """
        return self.weight * self.gap**2

    @property
    def place(self) -> Array:
        """The population that each point belongs to: k for snapshot k, k + ½ for the middle of interval k."""
        return self.interval + self.anchor

    def part(self, rows: slice) -> Conditions:
        """Some of the rows."""
        points, velocity, weight, interval, anchor, gap = self
        return Conditions(points[rows], velocity[rows], weight[rows], interval[rows], anchor[rows], gap[rows])


def conditions(
    points: Sequence[Array], couplings: Sequence[Coupling | OperatorCoupling], timeline: Timeline, scheme: Scheme
) -> Conditions:
    """The conditions of all intervals at every anchor of the scheme."""
    rows = []
    for k, (coupling, gap) in enumerate(zip(couplings, timeline.gaps, strict=True)):
        for anchor in scheme.anchors:
            z, displacement, weight = anchored(points[k], points[k + 1], coupling, anchor)
            velocity, kept = displacement / gap, weight > 0
            if not kept.all():  # cells without weight have no condition
                z, velocity, weight = z[kept], velocity[kept], weight[kept]
            n = len(z)
            rows.append((z, velocity, weight, np.full(n, k), np.full(n, anchor), np.full(n, gap)))
    columns = [list(column) for column in zip(*rows, strict=True)]
    rows.clear()  # of many cells these are most of the memory: no column is kept twice
    return Conditions(*(np.concatenate(columns.pop(0)) for _ in Conditions._fields))


def anchored(x: Array, y: Array, coupling: Coupling | OperatorCoupling, anchor: float) -> tuple[Array, Array, Array]:
    """The points z = (1 − p) x + p y at the anchor p, their mean displacements y − x, and their weights."""
    if anchor == 0:
        return x, coupling.partners(y) - x, coupling.source_weight
    if anchor == 1:
        return y, y - coupling.transposed.partners(x), coupling.transposed.source_weight
    # Between the ends every pair has a point of its own. Each cell with the mean of its partners stands for its pairs,
    # from either side, so that there are n + m points however many pairs a plan has.
    back = coupling.transposed
    source, target = np.concatenate([x, back.partners(x)]), np.concatenate([coupling.partners(y), y])
    weight = np.concatenate([coupling.source_weight, back.source_weight]) / 2
    return (1 - anchor) * source + anchor * target, target - source, weight
