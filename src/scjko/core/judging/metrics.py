"""How far a predicted population is from an observed one."""

from __future__ import annotations

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..transport.couplings import MAX_ITERATIONS, uniform

Array = NDArray[np.float64]


def emd(x: Array, y: Array, a: Array | None = None, b: Array | None = None) -> float:
    """The exact earth mover's distance of two sets of points, in float64 and without subsampling.

    All points weigh the same unless weights ``a`` and ``b`` are given. The cost is the Euclidean distance, so this is
    the Wasserstein-1 distance that the paper and its rivals report.
    """
    a, b = (uniform(x) if a is None else a / a.sum()), (uniform(y) if b is None else b / b.sum())
    distance, log = ot.emd2(a, b, cdist(x, y), numItermax=MAX_ITERATIONS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(f"The distance of {len(x)} and {len(y)} points was not solved ({log['warning']}).")
    return float(distance)
