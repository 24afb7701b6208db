"""What a shift of state changes: fates by the same chain, evaluated elsewhere, and their slopes.

A cell at x becomes representative c_j of the next snapshot with probability p_j ∝ exp(h_j − ‖x − c_j‖² / ε)
(:mod:`scjko.core.fates.transitions`), so that its fates are a function of position, A(x) = Σ_j p_j m_j with m_j the
mass of what c_j stands for that ends in each set. Its slope is ∇A = (2/ε) Σ_j p_j (c_j − c̄) m_j, with c̄ = Σ_j p_j c_j.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ..fates.chain import Chain
from ..fates.transitions import BLOCK, Entropic, closeness, gathered

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Degrees of freedom of effects of random genes, which have heavier tails than normal variables: of simulated inert
#: genes (seeds 10 to 12) some 1 to 3 % have q < 0.05 with 7, and 5 to 7 % with normal tails.
TAILS = 7


@dataclass(frozen=True, eq=False)
class Ahead:
    """The fates of cells of one snapshot, as a function of position."""

    transition: Entropic
    mass: Array
    """Of what each representative stands for, the mass that ends in each set (k, n_fates)."""

    def fates(self, x: Array) -> Array:
        """The probability of each fate at points x (n, d); zero where none is reached."""
        size = max(1, BLOCK // len(self.mass))
        parts = [self._means(x[start : start + size])[0] for start in range(0, len(x), size)]
        return _shares(np.concatenate(parts)) if parts else np.zeros((0, self.mass.shape[1]))

    def slopes(self, x: Array) -> Array:
        """∂ of the probability of each fate along each coordinate (n, n_fates, d)."""
        found = np.zeros((len(x), self.mass.shape[1], x.shape[1]))
        size = max(1, BLOCK // (len(self.mass) * self.mass.shape[1]))
        for start in range(0, len(x), size):
            rows = slice(start, start + size)
            mean, near = self._means(x[rows])
            centre = near @ self.transition.centers
            crossed = np.einsum("nk,kq,kd->nqd", near, self.mass, self.transition.centers, optimize=True)
            rise = 2 / self.transition.epsilon * (crossed - mean[:, :, None] * centre[:, None, :])
            whole = mean.sum(axis=1)[:, None, None]
            share = _shares(mean)[:, :, None]
            found[rows] = np.divide(
                rise - share * rise.sum(axis=1, keepdims=True), whole, out=np.zeros_like(rise), where=whole > 0
            )
        return found

    def _means(self, x: Array) -> tuple[Array, Array]:
        step = self.transition
        near = closeness(x, step.centers, step.height, step.epsilon)
        return near @ self.mass, near


def _shares(mass: Array) -> Array:
    whole = mass.sum(axis=1, keepdims=True)
    return np.divide(mass, whole, out=np.zeros_like(mass), where=whole > 0)


def ahead(chain: Chain, masses: Sequence[Array]) -> list[Ahead]:
    """The fates of each snapshot but the last, from the masses that :func:`absorbed_mass` gives."""
    found = []
    for step, mass in zip(chain.transitions, masses[1:], strict=True):
        if not isinstance(step, Entropic):
            raise TypeError("Fates at other positions need the entropic chain; ready-made couplings are of cells only.")
        means = gathered(step.share[:, None] * mass[:, :-1], step.label, len(step.centers))
        found.append(Ahead(step, means))
    return found


def scaled(x: Array, factor: float, logarithmic: bool) -> Array:
    """Expression times a factor, less what it was: on the scale of counts where x is log(1 + counts)."""
    if logarithmic:
        return np.log1p(factor * np.expm1(x)) - x
    return (factor - 1) * x


def matched(level: Array, targets: Index, pool: Index, n: int, rng: np.random.Generator) -> Index:
    """For each target ``n`` genes of the pool of much the same mean expression, drawn from the 2n nearest."""
    order = pool[np.argsort(level[pool], kind="stable")]
    found = np.empty((len(targets), n), dtype=np.int64)
    for i, gene in enumerate(targets):
        at = int(np.searchsorted(level[order], level[gene]))
        low = int(np.clip(at - n, 0, max(0, len(order) - 2 * n)))
        near = order[low : low + 2 * n]
        near = near[near != gene]
        found[i] = rng.choice(near, n, replace=len(near) < n)
    return found


def against(effect: Array, null: Array) -> Array:
    """Two-sided p-values of effects (q,) among those of random genes (n, q).

    Student's distribution around their median, with a deviation from their quartiles: some random genes have effects of
    their own, which must not count as noise. Its tails are those of :data:`TAILS` degrees of freedom.
    """
    low, middle, high = np.quantile(null, [0.25, 0.5, 0.75], axis=0)
    deviation = (high - low) / (2 * stats.norm.isf(0.25))
    t = np.divide(effect - middle, deviation, out=np.zeros_like(effect), where=deviation > 0)
    p = 2 * stats.t.sf(np.abs(t), TAILS)
    return np.where(deviation > 0, np.clip(p, 1e-300, 1.0), np.nan)
