"""Prediction regions: how far cells are found from where they were predicted.

By split conformal prediction. The two members of a pair have no cell in common, and their cells are coupled apart. What
one of them predicts for the cells of the other is judged by the partners that these have, as the prediction for any
cell of the next experiment will be. The level-quantile of the distances, over all pairs of members, is the radius.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...energy.energy import Energy
from ...energy.spread import Radii
from ...transport import Coupling
from ..problem import Course

Array = NDArray[np.float64]

#: Levels that are kept.
LEVELS = np.round(np.arange(0.05, 0.991, 0.01), 2)
#: Cells of a snapshot that one member predicts, at most.
MAX_CELLS = 500


def radii(energy: Energy, members: Sequence[Energy], parts: Sequence[Course]) -> Radii:
    """The radius of every interval and level."""
    times, found = energy.times, []
    for k in range(energy.timeline.n_intervals):
        away, mass = [], []
        for m, member in enumerate(members):
            other = parts[m ^ 1]
            coupling = other.couplings[k]
            assert isinstance(coupling, Coupling)
            x, y = other.points[k : k + 2]
            rows = np.random.default_rng(m).permutation(len(x))[:MAX_CELLS]
            moved = np.full(x.shape, np.nan)
            moved[rows] = member.move(x[rows], times[k], times[k + 1]).positions
            distance, weight = distances(moved, y, coupling)
            away.append(distance)
            mass.append(weight / weight.sum())
        found.append(quantiles(np.concatenate(away), np.concatenate(mass), LEVELS))
    return Radii(LEVELS, np.array(found))


def distances(moved: Array, y: Array, coupling: Coupling) -> tuple[Array, Array]:
    """How far cells, where they were moved to, are from each of their partners, and the mass of every such pair.

    Cells that were not moved are NaN.
    """
    away = np.linalg.norm(moved[coupling.source] - y[coupling.target], axis=1)
    known = np.isfinite(away)
    return away[known], coupling.weight[known]


def quantiles(values: Array, mass: Array, levels: Array) -> Array:
    """Weighted quantiles, with one more value beyond all of them: the cell that is predicted next."""
    order = np.argsort(values)
    values, mass = values[order], mass[order]
    effective = mass.sum() ** 2 / np.sum(mass**2)
    reached = np.cumsum(mass) / mass.sum() * effective / (effective + 1)
    return np.asarray(values[np.minimum(np.searchsorted(reached, levels), len(values) - 1)])
