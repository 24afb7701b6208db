"""How far a predicted population is from an observed one, and how sure a difference of two distances is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..transport import MAX_ITERATIONS, uniform

Array = NDArray[np.float64]


class Distance(NamedTuple):
    """The earth mover's distance of two weighted sets of points, with its Kantorovich potentials."""

    value: float
    potentials: tuple[Array, Array]
    """u and v at the points of either set: value = Σ a u + Σ b v, and uᵢ + vⱼ ≤ ‖xᵢ − yⱼ‖."""
    weights: tuple[Array, Array]
    """a and b, each with sum one."""


def distance(x: Array, y: Array, a: Array | None = None, b: Array | None = None) -> Distance:
    """The exact earth mover's distance of two sets of points with its potentials, as :func:`emd`."""
    a, b = (uniform(x) if a is None else a / a.sum()), (uniform(y) if b is None else b / b.sum())
    value, log = ot.emd2(a, b, cdist(x, y), numItermax=MAX_ITERATIONS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(f"The distance of {len(x)} and {len(y)} points was not solved ({log['warning']}).")
    return Distance(float(value), (np.asarray(log["u"]), np.asarray(log["v"])), (a, b))


def emd(x: Array, y: Array, a: Array | None = None, b: Array | None = None) -> float:
    """The exact earth mover's distance of two sets of points, in float64 and without subsampling.

    All points weigh the same unless weights ``a`` and ``b`` are given. The cost is the Euclidean distance, so this is
    the Wasserstein-1 distance that the paper and its rivals report.
    """
    return distance(x, y, a, b).value


def difference_error(one: Distance, other: Distance, *, same_cells: bool) -> float:
    """Standard error of the difference of two distances to the same observed cells, due to the sample of cells.

    By the potentials, which are what a cell adds to a distance to first order (del Barrio and Loubes 2019): no cell is
    resampled and nothing solved again. ``same_cells`` says whether both predictions move the same cells, in the same
    order, so that their errors are paired. Infinite for a single cell.
    """
    variance = _variance(one.potentials[1] - other.potentials[1], one.weights[1])
    if same_cells:
        variance += _variance(one.potentials[0] - other.potentials[0], one.weights[0])
    else:
        variance += sum(_variance(each.potentials[0], each.weights[0]) for each in (one, other))
    return float(np.sqrt(variance))


def _variance(values: Array, weight: Array) -> float:
    """The variance of a weighted mean of independent values."""
    squares = np.sum(weight**2)
    if squares >= 1:
        return float("inf")
    return float(np.sum(weight**2 * (values - weight @ values) ** 2) / (1 - squares))
