"""The chain of cells: how mass goes from snapshot to snapshot, and where it came from.

Between two snapshots cells go by the Schrödinger bridge of their populations, an entropic coupling γ with cost ‖x − y‖²
and regularisation ε. Its dual potential extends it from representatives to all cells, so that memory is linear in their
number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import ot
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

from ..transport import Coupling, OperatorCoupling, grown
from .representatives import Representatives, representatives
from .transitions import Entropic, Planned, Transition

Array = NDArray[np.float64]

#: ε is the mean cost times this over √d, by default. In d isotropic dimensions squared distances vary by √(2/d) of
#: their mean; ε is a tenth of that. Measured: docs/user_guide/fates.md.
SOFTNESS = 0.1 * np.sqrt(2)
#: Cells of a snapshot, or representatives of more, that are coupled. More than 500 changed no figure measured.
MOST = 2000
#: Rounds of Sinkhorn's algorithm, the error of the marginals (Euclidean) that ends them, and the mass that may be
#: misplaced in the end. Scalings beyond the last of these are taken into the potentials.
MAX_ROUNDS, CLOSE, MISPLACED, LARGEST = 10_000, 1e-6, 0.02, 1e30


@dataclass(frozen=True, eq=False)
class Chain:
    """Transitions between all consecutive snapshots, and the factor by which each cell grows until the next."""

    transitions: tuple[Transition, ...]
    factors: tuple[Array, ...]
    """For each interval the factor of each source cell, one on average over the population."""
    weights: tuple[Array, ...]
    """The weights of the cells of each snapshot, one in all."""
    points: tuple[Array, ...]

    def onward(self, k: int, mass: Array) -> Array:
        """Mass (n, q) of snapshot k, as it has grown and moved at snapshot k + 1."""
        return self.transitions[k].push(self.factors[k][:, None] * mass)

    def expected(self, k: int, values: Array) -> Array:
        """Of cells of snapshot k the mass of their descendants times the mean of these ``values`` of theirs (m, q)."""
        return self.factors[k][:, None] * self.transitions[k].pull(values)

    def origin(self, k: int, mass: Array) -> Array:
        """Where mass (m, q) of snapshot k + 1 came from, among the cells of snapshot k: Bayes' rule."""
        source = self.weights[k][:, None]
        arrived = self.onward(k, source)
        relative = np.divide(mass, arrived, out=np.zeros_like(mass), where=arrived > 0)
        return source * self.expected(k, relative)

    def descendants(self, k: int, mass: Array) -> list[Array]:
        """Mass (n, q) of snapshot k and what it becomes at every later one; the sum at a time says how it has grown."""
        found = [mass]
        for j in range(k, len(self.transitions)):
            found.append(self.onward(j, found[-1]))
        return found

    def ancestors(self, k: int, mass: Array) -> list[Array]:
        """Where mass (m, q) of snapshot k came from at every earlier one, the first first, and itself."""
        found = [mass]
        for j in range(k - 1, -1, -1):
            found.insert(0, self.origin(j, found[0]))
        return found


def entropic_chain(
    points: Sequence[Array],
    weights: Sequence[Array],
    *,
    gains: Sequence[Array] | None = None,
    epsilon: float | Sequence[float] | None = None,
    most: int = MOST,
    random_state: int = 0,
) -> Chain:
    """The chain of entropic couplings of consecutive snapshots.

    Parameters
    ----------
    points
        The cells of each snapshot (n, d).
    weights
        Their weights, one in all for each snapshot.
    gains
        The log of the factor by which the mass of each source cell grows over its interval.
    epsilon
        The regularisation as a fraction of the mean cost; or, for each interval, in squared units of the coordinates.
        Defaults to a tenth of the spread of squared distances, √(2/d) of their mean.
    most
        Cells of a snapshot, or representatives of more, that are coupled.
    random_state
        Seed of the choice of representatives.
    """
    stood_for = [representatives(x, most, random_state) for x in points]
    transitions, factors = [], []
    for k in range(len(points) - 1):
        source = weights[k] if gains is None else grown(weights[k], gains[k])
        cost = cdist(stood_for[k].points, stood_for[k + 1].points, "sqeuclidean")
        # The mean over pairs of cells, not of representatives.
        unit = float(stood_for[k].mass(weights[k]) @ cost @ stood_for[k + 1].mass(weights[k + 1])) or 1.0
        if isinstance(epsilon, Sequence):
            softness = float(epsilon[k])
        else:
            softness = unit * (SOFTNESS / np.sqrt(points[k].shape[1]) if epsilon is None else float(epsilon))
        masses = stood_for[k].mass(source), stood_for[k + 1].mass(weights[k + 1])
        height = potential(cost, *masses, softness)
        transitions.append(_extended(points[k], stood_for[k + 1], weights[k + 1], height, softness))
        factors.append(_factor(source, weights[k]))
    return Chain(tuple(transitions), tuple(factors), tuple(weights), tuple(points))


def chain_of(
    couplings: Sequence[Coupling | OperatorCoupling], weights: Sequence[Array], points: Sequence[Array]
) -> Chain:
    """The chain of couplings that are known; the masses of their rows say how cells grow."""
    transitions: list[Transition] = []
    for coupling in couplings:
        if not isinstance(coupling, Coupling):
            raise TypeError("A chain of cells needs the matrices of couplings, and a low-rank solution has none.")
        entries = coupling.weight, (coupling.source, coupling.target)
        transitions.append(Planned.of(sparse.csr_matrix(entries, shape=coupling.shape)))
    factors = [_factor(c.source_weight, w) for c, w in zip(couplings, weights[:-1], strict=True)]
    return Chain(tuple(transitions), tuple(factors), tuple(weights), tuple(points))


def potential(cost: Array, a: Array, b: Array, epsilon: float) -> Array:
    """g_j / ε of the entropic coupling γ_ij = exp((f_i + g_j − c_ij) / ε), by Sinkhorn's algorithm (POT).

    Targets without mass have −∞. Raises a ``RuntimeError`` if much of the mass stays misplaced.
    """
    sources, targets = a > 0, b > 0
    cost, a, b = cost[np.ix_(sources, targets)], a[sources] / a.sum(), b[targets] / b.sum()
    # Started from c-transforms: otherwise all kernels of a cell far from the others would vanish.
    f = cost.min(axis=1)
    start = f, (cost - f[:, None]).min(axis=0)
    # With POT's tau of 1000, more than 1000 cells never converge: the scaling is theirs each time it starts anew.
    options = {
        "numItermax": MAX_ROUNDS,
        "stopThr": CLOSE,
        "tau": LARGEST,
        "warmstart": start,
        "log": True,
        "warn": False,
    }
    plan, log = ot.bregman.sinkhorn_stabilized(a, b, cost, epsilon, **options)
    misplaced = float(np.abs(plan.sum(axis=0) - b).sum() + np.abs(plan.sum(axis=1) - a).sum())
    if not misplaced <= MISPLACED:
        raise RuntimeError(
            f"The entropic coupling of {len(a)} and {len(b)} cells did not converge; use a larger epsilon."
        )
    found = np.full(len(targets), -np.inf)
    found[targets] = log["beta"] / epsilon
    return found


def _extended(x: Array, targets: Representatives, weight: Array, height: Array, epsilon: float) -> Entropic:
    return Entropic(x, targets.points, height, epsilon, targets.label, targets.share(weight))


def _factor(source: Array, weight: Array) -> Array:
    """How a cell of this weight has grown if it has the mass ``source``."""
    return np.divide(source, weight, out=np.zeros_like(weight), where=weight > 0)
