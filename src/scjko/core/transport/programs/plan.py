"""Plans: couplings in the making, with masses in whole quanta so that sums and differences of them are exact."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Quanta in all, about. Rounding would leave crumbs of mass, which spread over ever more pairs; whole numbers below
#: 2⁵³ have exact sums in floats. A program with dummy cells has twice the mass, and rounds it once more.
QUANTA, QUANTA_WITH_DUMMIES = 2**52, 2**49


class Plan(NamedTuple):
    """``mass[i]`` quanta go from cell ``source[i]`` to cell ``target[i]``; every pair is listed once."""

    source: Index
    target: Index
    mass: Array

    def cost(self, x: Array, y: Array, cap: float = np.inf) -> float:
        """The mean squared distance travelled, where a pair counts ``cap`` at most."""
        return float(self.mass @ squared(x, y, self.source, self.target, cap) / self.mass.sum())

    def part(self, pairs: Index) -> Plan:
        """These pairs of the plan."""
        return Plan(self.source[pairs], self.target[pairs], self.mass[pairs])

    @classmethod
    def union(cls, parts: list[Plan], n_targets: int) -> Plan:
        """One plan from several; a pair may be in more than one of them."""
        source, target, mass = (np.concatenate(column) for column in zip(*parts, strict=True))
        pair, position = np.unique(source * n_targets + target, return_inverse=True)
        return cls(*np.divmod(pair, n_targets), np.bincount(position, mass).astype(np.float64))


def squared(x: Array, y: Array, source: NDArray[np.integer], target: NDArray[np.integer], cap: float = np.inf) -> Array:
    """The squared distance of each pair, ``cap`` at most."""
    return np.minimum(np.sum((x[source] - y[target]) ** 2, axis=1), cap)


def quanta(a: Array, b: Array, most: int = QUANTA) -> tuple[Array, Array]:
    """The weights of either snapshot as whole numbers of quanta, with the same sum of about ``most``."""
    # A multiple of both numbers of cells, so that equal weights are not rounded.
    common = math.lcm(len(a), len(b))
    total = common * max(most // common, 1)
    return _apportioned(a, total), _apportioned(b, total)


def _apportioned(weight: Array, total: int) -> Array:
    """Whole numbers like the weights that sum to ``total``: the largest weights take what rounding leaves over."""
    whole = np.rint(weight / weight.sum() * total).astype(np.int64)
    left = total - int(whole.sum())
    whole[np.argsort(-weight, kind="stable")[: abs(left)]] += np.sign(left)
    return whole.astype(np.float64)
