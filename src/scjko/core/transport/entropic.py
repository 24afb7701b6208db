"""Entropic couplings by Sinkhorn's algorithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from .coupling import Coupling, uniform
from .duals import bound, feasible

Array = NDArray[np.float64]

#: Entries below this fraction of the largest are dropped.
SMALLEST_ENTRY = 1e-6


def sinkhorn(x: Array, y: Array, a: Array | None = None, b: Array | None = None, *, epsilon: float = 0.01) -> Coupling:
    """The entropic coupling (OTT), its regularisation ``epsilon`` relative to the mean cost.

    Entries below a millionth of the largest are dropped and the rest rescaled to sum to one. The duals are the entropic
    potentials made feasible for the problem without entropy, and the bound follows from them. A solver that does not
    converge is a ``RuntimeError``.
    """
    cost = cdist(x, y, "sqeuclidean")
    unit = cost.mean() or 1.0
    cost /= unit
    masses = [(uniform(z) if w is None else w / w.sum()).astype(np.float32) for z, w in ((x, a), (y, b))]
    matrix, converged, g = _program()(cost.astype(np.float32), *masses, np.float32(epsilon))
    matrix = np.asarray(matrix, dtype=np.float64)
    if not bool(converged) or not np.isfinite(matrix).all():
        raise RuntimeError(
            f"The Sinkhorn coupling of {len(x)} and {len(y)} cells did not converge with epsilon={epsilon:g}; "
            "use a larger epsilon, or coupling='exact'."
        )
    source, target = np.nonzero(matrix > SMALLEST_ENTRY * matrix.max())
    f, g = (unit * h for h in feasible(cost, np.asarray(g, dtype=np.float64), masses[1] > 0))
    coupling = Coupling.of(source, target, matrix[source, target], x, y, duals=(f, g))
    return replace(coupling, bound=bound(coupling, (f, g)))


@cache
def _program() -> Callable[..., tuple[Any, Any, Any]]:
    """Sinkhorn's algorithm, compiled once for every shape: the matrix, whether it converged, and g."""
    from ott.geometry.geometry import Geometry  # OTT takes a second to import, and few fits need it
    from ott.solvers import linear

    @jax.jit
    def program(cost: jax.Array, a: jax.Array, b: jax.Array, epsilon: Any) -> tuple[Any, Any, Any]:
        geometry = Geometry(cost_matrix=cost, epsilon=epsilon)
        solved = linear.solve(geometry, a=a, b=b, max_iterations=20_000)
        return solved.matrix, solved.converged, solved.g

    return program
