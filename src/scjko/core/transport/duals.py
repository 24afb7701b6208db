"""Kantorovich potentials, and the bound that they set on how far a coupling is from the optimum."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .coupling import Coupling

Array = NDArray[np.float64]


def feasible(cost: Array, g: Array, held: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Potentials f and g with f_i + g_j ≤ c_ij, from an estimate of ``g``, by two c-transforms.

    f_i = min_j (c_ij − g_j), then g_j = min_i (c_ij − f_i), which lowers no potential that is feasible already. Only
    the values of ``g`` in the columns ``held``, those with mass, are used: solvers leave the others undefined.
    """
    f = (cost - np.where(held, g, -np.inf)).min(axis=1)
    return f, (cost - f[:, None]).min(axis=0)


def bound(coupling: Coupling, duals: tuple[Array, Array]) -> float | None:
    """The largest fraction of the optimum by which this coupling can cost more, with these feasible potentials.

    By weak duality the optimum for the marginals of the coupling is at least ∫f + ∫g. None if that is not above zero
    and says nothing.
    """
    f, g = duals
    least = float(coupling.weight @ (f[coupling.source] + g[coupling.target]))
    if coupling.cost <= max(least, 0.0):  # equal but for rounding
        return 0.0
    return coupling.cost / least - 1 if least > 0 else None
