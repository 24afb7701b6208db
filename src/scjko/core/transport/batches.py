"""Couplings of random batches, put together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .coupling import Coupling, uniform
from .programs.linear_program import exact

Array = NDArray[np.float64]


def batched(
    x: Array, y: Array, a: Array | None = None, b: Array | None = None, *, size: int = 1000, random_state: int = 0
) -> Coupling:
    """Exact couplings of random batches of ``size`` cells of each snapshot, put together (the paper's scheme).

    Both snapshots are split at random into the same number of batches, so that every cell takes part once. A batch
    has the mass of its source cells, so the marginal of the targets differs from ``b``.
    """
    a, b = (uniform(x) if a is None else a), (uniform(y) if b is None else b)
    rng = np.random.default_rng(random_state)
    n_batches = -(-max(len(x), len(y)) // size)
    sources, targets = (np.array_split(rng.permutation(len(z)), n_batches) for z in (x, y))
    parts = []
    for i, j in zip(sources, targets, strict=True):
        if a[i].sum() > 0 and b[j].sum() > 0:
            part = exact(x[i], y[j], a[i], b[j])
            parts.append((i[part.source], j[part.target], part.weight * a[i].sum()))
    source, target, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Coupling.of(source, target, weight, x, y)
