"""How far a predicted population is from an observed one."""

from __future__ import annotations

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from .couplings import MAX_ITERATIONS

Array = NDArray[np.float64]


def emd(x: Array, y: Array) -> float:
    """The exact earth mover's distance of two uniformly weighted sets of points, in float64 and without subsampling.

    The cost is the Euclidean distance, so this is the Wasserstein-1 distance that the paper and its rivals report.
    """
    cost = cdist(x, y)
    distance, log = ot.emd2([], [], cost, numItermax=MAX_ITERATIONS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(f"The distance of {len(x)} and {len(y)} points was not solved ({log['warning']}).")
    return float(distance)
