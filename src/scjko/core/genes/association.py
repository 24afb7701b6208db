"""Association of genes with numbers of cells, among cells of the same time.

The effect is the correlation, each gene and each number centred at every time point: r = Σ x y / √(Σ x² Σ y²).

Two things must hold of a gene that is associated, and its p-value is the larger of those of both (an intersection–union
test, Berger 1982):

- *Cells*: the gene has to do with the number at all. Under the null hypothesis the cells of a time point could exchange
  their expression. The permutation distribution of T = Σ x y has mean 0, and its variance and third moment are known
  exactly, so that nothing is drawn: at a time point with n cells they are Σx² Σy² / (n − 1) and
  n Σx³ Σy³ / ((n − 1)(n − 2)). The tail is that of a Pearson type III distribution (Mielke and Berry 2007).
- *Chance*: the number has to do with the genes at all. Numbers that are smooth functions of the state correlate with
  every gene that is part of the state, also where they are meaningless. The same T of numbers that are made by the same
  procedure from exchanged labels, or of members of an ensemble, says how large that is.

Numbers that are functions of coordinates z = X P hold a part of every gene: noise of a gene moves z by its loading, and
the number with it. To first order that part of T is Σ x² (b·p), with p the loadings of the gene and b the mean slope of
the number along z at a time point. It is taken out of T before that is compared with exchanged cells.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from .sums import Cells, Sums

Array = NDArray[np.float64]

#: Parts of the cells, each left out once for the standard error.
FOLDS = 10


class Association(NamedTuple):
    """What is known of each gene and each number (q, n_genes)."""

    effect: Array
    """The correlation among cells of the same time."""
    error: Array
    """Its standard error, by leaving out parts of the cells."""
    total: Array
    """T, the sum of products, less the part of the gene itself."""
    p: Array
    """By exchange of cells; NaN for constant genes."""


def associated(cells: Cells, found: Sums, slopes: Slopes | None = None) -> Association:
    """Correlation, standard error and p-value by the permutation distribution for all genes."""
    sizes = cells.sizes()
    total = found.products.sum(axis=0)
    x = _centred_moments(sizes.sum(axis=1), found)
    y = cells.centred(cells.values)
    strata = [cells.stratum == s for s in range(cells.n_strata)]
    square, cube = (np.stack([(y[rows] ** power).sum(axis=0) for rows in strata]) for power in (2, 3))
    n = sizes.sum(axis=1)[:, None]
    free = np.maximum(n - 1, 1)
    variance = np.einsum("sq,sg->qg", square / free, x[0])
    skewed = np.where(n > 2, n / (free * np.maximum(n - 2, 1)), 0.0)
    third = np.einsum("sq,sg->qg", cube * skewed, x[1])
    scale = np.sqrt(np.outer(square.sum(axis=0), x[0].sum(axis=0)))
    flat = _flat(x[0].sum(axis=0), found)
    effect = np.divide(total, scale, out=np.full_like(total, np.nan), where=(scale > 0) & ~flat)
    if slopes is not None:
        total = total - slopes.own(x[0])
    deviation = np.where(flat, 0.0, np.sqrt(variance))
    skewness = np.divide(third, deviation**3, out=np.zeros_like(third), where=deviation**3 > 0)
    p = tail(total, deviation, skewness)
    return Association(effect, _jackknife(cells, found), total, p)


@dataclass(frozen=True, eq=False)
class Slopes:
    """How numbers of cells change along coordinates that are made of genes."""

    slope: Array
    """The mean slope of each number at each time point (n_strata, q, d)."""
    loadings: Array
    """Where a unit more of each gene moves a cell (n_genes, d)."""

    def own(self, square: Array) -> Array:
        """Σ x² (b·p) (q, n_genes), from Σ x² at each time point (n_strata, n_genes)."""
        return np.einsum("sqd,gd,sg->qg", self.slope, self.loadings, square, optimize=True)


def _centred_moments(n: Array, found: Sums) -> tuple[Array, Array]:
    """Σ (x − x̄)² and Σ (x − x̄)³ at each time point (n_strata, n_genes)."""
    first, second = found.first.sum(axis=1), found.second.sum(axis=1)
    mean = first / np.maximum(n, 1)[:, None]
    square = np.maximum(second - first * mean, 0.0)
    cube = found.third - 3 * mean * second + 2 * mean**2 * first
    return square, cube


def _flat(square: Array, found: Sums) -> NDArray[np.bool_]:
    """Genes that are constant at every time point, up to rounding."""
    return np.asarray(square <= 1e-10 * np.maximum(found.second.sum(axis=(0, 1)), 1e-300))


def tail(total: Array, deviation: Array, skewness: Array) -> Array:
    """The two-sided p-value of a sum with mean 0 and these moments, by a Pearson type III distribution."""
    known = (deviation > 0) & np.isfinite(total)
    z = np.divide(total, deviation, out=np.zeros_like(total), where=known)
    skew = np.where(known, np.clip(skewness, -3, 3), 0.0)
    skew = np.where(np.abs(skew) < 1e-3, 0.0, skew)
    low, high = stats.pearson3.cdf(z, skew), stats.pearson3.sf(z, skew)
    return np.where(known, np.clip(2 * np.minimum(low, high), 1e-300, 1.0), np.nan)


def _jackknife(cells: Cells, found: Sums) -> Array:
    """The standard error of the correlation from leaving out each part of the cells."""
    sizes, n_folds = cells.sizes(), cells.n_folds
    y = cells.centred(cells.values)
    sum_y, sum_yy = cells.by_group(y), cells.by_group(y**2)
    left = []
    for f in range(n_folds):
        others = np.arange(n_folds) != f
        n = np.maximum(sizes[:, others].sum(axis=1), 1.0)[:, None]
        x1, x2 = found.first[:, others].sum(axis=1), found.second[:, others].sum(axis=1)
        y1, y2 = sum_y[:, others].sum(axis=1), sum_yy[:, others].sum(axis=1)
        xy = found.products[others].sum(axis=0) - np.einsum("sq,sg->qg", y1 / n, x1)
        xx, yy = (x2 - x1**2 / n).sum(axis=0), (y2 - y1**2 / n).sum(axis=0)
        scale = np.sqrt(np.maximum(np.outer(yy, xx), 0.0))
        left.append(np.divide(xy, scale, out=np.full_like(xy, np.nan), where=scale > 0))
    each = np.stack(left)
    return np.asarray(np.sqrt((n_folds - 1) / n_folds * ((each - each.mean(axis=0)) ** 2).sum(axis=0)))


def by_chance(total: Array, null: Array, *, members: bool = False) -> Array:
    """The p-value of T (n_genes,) among those of numbers that are no better than chance (b, n_genes).

    Their mean is zero or near it, and T in units of their deviation is compared with Student's distribution. Of
    ``members``, these are deviations from the mean, as large as its error, and have a degree of freedom less.
    """
    n = len(null) - members
    deviation = np.sqrt((null**2).sum(axis=0) / len(null))
    t = np.divide(total, deviation, out=np.zeros_like(total), where=deviation > 0)
    return np.asarray(np.clip(2 * stats.t.sf(np.abs(t), n), 1e-300, 1.0))


def deflated(p: Array) -> Array:
    """p-values for which the median gene is no association: genomic control (Devlin and Roeder 1999).

    A field is fitted to coordinates of which many are noise of the genes themselves, and then every gene correlates
    with it more than by chance. Where the median of z² is above that of a normal variable, z is divided by the root of
    their ratio.
    """
    z = stats.norm.isf(np.clip(p, 1e-300, 1.0) / 2)
    known = np.isfinite(p)
    if not known.any():
        return p
    ratio = max(1.0, float(np.median(z[known] ** 2) / stats.chi2.median(1)))
    return np.where(known, np.maximum(2 * stats.norm.sf(z / np.sqrt(ratio)), 1e-300), np.nan)


def false_discovery(p: Array) -> Array:
    """q-values by Benjamini and Hochberg (1995); NaN where p is."""
    known = np.isfinite(p)
    q = np.full_like(p, np.nan)
    if known.any():
        q[known] = stats.false_discovery_control(p[known])
    return q
