"""Expression along a pseudo-time: penalised splines for many genes at once, with bands.

P-splines (Eilers and Marx 1996): a cubic B-spline basis with many knots, and a penalty on second differences of its
coefficients. One penalty for each gene is chosen by generalised cross-validation, and the bands are those of the smooth
mean, from residuals whose variance may differ between cells (a sandwich estimate).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import SplineTransformer

Array = NDArray[np.float64]

#: Penalties that are tried, in units of the mean square of the basis.
PENALTIES = np.geomspace(1e-4, 1e3, 15)


class Trends(NamedTuple):
    """Means of genes at points of a pseudo-time."""

    mean: Array
    """(n_points, n_genes)."""
    error: Array
    """Standard errors of the means."""
    penalty: Array
    """The penalty chosen for each gene."""


def trends(position: Array, weight: Array, expression: Array, at: Array, n_knots: int = 6) -> Trends:
    """The weighted mean of each gene (n_cells, n_genes) as a smooth function of position, at some points.

    Parameters
    ----------
    position
        Where each cell is (n_cells,).
    weight
        How much it counts, not all zero.
    expression
        Of each gene.
    at
        Points, within the range of positions.
    n_knots
        Knots of the spline, at quantiles of the positions.
    """
    counted = weight > 0
    position, weight, expression = position[counted], weight[counted], expression[counted]
    weight = weight * len(weight) / weight.sum()
    knots = np.unique(np.quantile(position, np.linspace(0, 1, n_knots)))
    spline = SplineTransformer(degree=3, knots=knots[:, None], extrapolation="constant")
    basis = np.asarray(spline.fit_transform(position[:, None]))
    rough = np.diff(np.eye(basis.shape[1]), n=2, axis=0)
    gram, right = (basis.T * weight) @ basis, (basis.T * weight) @ expression
    scale = np.trace(gram) / basis.shape[1]
    inverses = [np.linalg.pinv(gram + scale * size * rough.T @ rough, hermitian=True) for size in PENALTIES]
    freedom = np.array([np.trace(inverse @ gram) for inverse in inverses])
    square = (weight[:, None] * expression**2).sum(axis=0)
    scores = []
    for inverse, used in zip(inverses, freedom, strict=True):
        found = inverse @ right
        residual = square - 2 * (found * right).sum(axis=0) + (found * (gram @ found)).sum(axis=0)
        scores.append(np.maximum(residual, 0.0) / max(1.0, effective(weight) - used) ** 2)
    chosen = np.argmin(scores, axis=0)
    seen = np.asarray(spline.transform(np.asarray(at, dtype=np.float64)[:, None]))
    mean, error = np.empty((len(seen), expression.shape[1])), np.empty((len(seen), expression.shape[1]))
    for k in np.unique(chosen):
        genes = chosen == k
        found = inverses[k] @ right[:, genes]
        off = weight[:, None] * (expression[:, genes] - basis @ found)
        influence = (seen @ inverses[k]) @ basis.T
        mean[:, genes] = seen @ found
        error[:, genes] = np.sqrt(influence**2 @ off**2)
    return Trends(mean, error, PENALTIES[chosen])


def effective(weight: Array) -> float:
    """How many equally weighted cells these are worth (Kish 1965)."""
    return float(weight.sum() ** 2 / (weight**2).sum())
