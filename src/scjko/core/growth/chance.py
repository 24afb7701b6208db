"""Proportions that differ by chance: the gains of mass that two samples of one population would need.

Two samples hold cells of every kind in proportions that differ by chance. A balanced coupling carries the difference
from kind to kind, across valleys where no cell is, and its potential has to pay for that: wells of one depth come out
unequal. Here the masses of source cells may differ from their weights instead, by as much as chance explains. With n
and m cells, the masses r that bring the proportions of s + 1 kinds to those of the other sample have

    KL(r | a) ≈ χ²_s / 2n̄,        1/n̄ = 1/n + 1/m,

so that what is larger is not chance. It is left to the coupling: cells that do cross, and growth, are seen as before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..compute.parallel import one_thread, side_by_side
from ..timeline import Timeline
from ..transport import grown
from .estimate import PRICE, spread
from .relaxed import relaxed

Array = NDArray[np.float64]

#: The largest n̄ KL(r | a) that counts as chance: the 95 % quantile of χ² / 2 with two degrees of freedom, three kinds.
BUDGET = 3.0
#: By how much the price rises, at least, where masses differ by more than that.
DEARER = 1.5


def chance_gains(
    points: Sequence[Array], weights: Sequence[Array], timeline: Timeline, budget: float = BUDGET
) -> tuple[Array, ...]:
    """For each interval the log of the factor by which the mass of every source cell differs, up to a constant."""
    price = PRICE * float(np.mean([spread(x, w) for x, w in zip(points, weights, strict=True)]))
    if price == 0:
        return tuple(np.zeros(len(x)) for x in points[:-1])
    pairs = [(points[k], points[k + 1], weights[k], weights[k + 1]) for k in range(timeline.n_intervals)]
    return tuple(side_by_side(lambda pair: _gains(*pair, price, budget), pairs))


def _gains(x: Array, y: Array, a: Array, b: Array, price: float, budget: float) -> Array:
    """Those of one interval, at the lowest price from ``price`` on at which they can be chance."""
    n_cells = 1 / (np.sum(a**2) + np.sum(b**2))
    while True:
        with one_thread():
            gain = relaxed(x, y, a, b, price).gain(x)
        excess = n_cells * _divergence(a, gain) / budget
        if excess <= 1:
            return gain
        price *= max(np.sqrt(excess), DEARER)  # gains fall like 1 / price, their divergence like its square


def _divergence(a: Array, gain: Array) -> float:
    """KL(r | a) of the masses r that weights grow to."""
    r, held = grown(a, gain), a > 0
    ratio = r[held] / a[held]
    return float(r[held] @ np.log(np.maximum(ratio, 1e-300)))
