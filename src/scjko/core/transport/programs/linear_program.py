"""Optimal couplings by linear programming."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..coupling import Coupling, uniform
from ..duals import bound, feasible
from .multiscale import optimal
from .simplex import simplex

Array = NDArray[np.float64]

#: Pairs of cells up to which they are all variables of one program: from here on column generation is faster.
FEW_PAIRS = 250_000


def exact(x: Array, y: Array, a: Array | None = None, b: Array | None = None, *, cap: float = np.inf) -> Coupling:
    """The optimal coupling of two snapshots with weights ``a`` and ``b`` for the squared Euclidean cost.

    By linear programming (POT), with its Kantorovich potentials. Where there are many pairs, only those that may be
    used are variables (:mod:`.column_generation`). A program that is not solved is a ``RuntimeError``. With a ``cap``
    no pair costs more: see :mod:`.partial`.
    """
    if len(x) * len(y) > FEW_PAIRS:
        return optimal(x, y, a, b, cap=cap)
    # Not through x² − 2xy + y², which loses the distances of cells that are all far from the origin.
    cost = np.minimum(cdist(x, y, "sqeuclidean"), cap)
    a, b = (uniform(x) if a is None else a / a.sum()), (uniform(y) if b is None else b / b.sum())
    matrix, _, g = simplex(a, b, cost)
    source, target = np.nonzero(matrix)
    # POT's potentials are coarse at cells without mass, and elsewhere feasible up to rounding.
    duals = feasible(cost, g, b > 0)
    coupling = Coupling.of(source, target, matrix[source, target], x, y, duals=duals)
    return replace(coupling, bound=bound(coupling, duals))
