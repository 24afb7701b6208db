"""Sums over cells of all genes in one pass: blocks of cells, sparse or dense, are read once and none is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Cells:
    """The cells that count, and the numbers that genes are compared with."""

    stratum: Index
    """The time point of each cell, counted from 0; −1 for cells that do not count."""
    fold: Index
    """The part of the cells that is left out with each (jackknife)."""
    values: Array
    """Numbers of each cell (n, q), such as probabilities of fates."""
    null: Array
    """Numbers of the same kind that are no better than chance (n, b)."""

    @property
    def n_strata(self) -> int:
        """Number of time points."""
        return int(self.stratum.max(initial=-1)) + 1

    @property
    def n_folds(self) -> int:
        """Number of parts of the cells."""
        return int(self.fold.max(initial=0)) + 1

    def sizes(self) -> Array:
        """Number of cells by time point and part (n_strata, n_folds)."""
        return self.by_group(np.ones((len(self.stratum), 1)))[..., 0]

    def by_group(self, values: Array) -> Array:
        """Sums of columns by time point and part (n_strata, n_folds, q)."""
        kept = self.stratum >= 0
        group = (self.stratum * self.n_folds + self.fold)[kept]
        n_groups = self.n_strata * self.n_folds
        sums = [np.bincount(group, column[kept], n_groups) for column in values.T]
        shape = (self.n_strata, self.n_folds, values.shape[1])
        return np.stack(sums, axis=-1).reshape(shape).astype(np.float64) if sums else np.zeros(shape)

    def centred(self, values: Array) -> Array:
        """Columns less their mean at each time point; 0 for cells that do not count."""
        mean = self.by_group(values).sum(axis=1) / np.maximum(self.sizes().sum(axis=1), 1)[:, None]
        return np.where(self.stratum[:, None] >= 0, values - mean[self.stratum], 0.0)


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the cells that count, for all genes."""

    first: Array
    """Of x by time point and part (n_strata, n_folds, n_genes)."""
    second: Array
    """Of x², likewise."""
    third: Array
    """Of x³ by time point (n_strata, n_genes)."""
    expressed: Array
    """Number of cells with expression other than zero (n_genes,)."""
    products: Array
    """Of x times the centred values by part (n_folds, q, n_genes)."""
    null: Array
    """Of x times the centred columns of chance (b, n_genes)."""


def sums(blocks: Iterable[tuple[slice, Any]], cells: Cells, n_genes: int) -> Sums:
    """One pass over blocks ``(rows, X[rows])``."""
    n_strata, n_folds, q = cells.n_strata, cells.n_folds, cells.values.shape[1]
    powers = [np.zeros((n_strata * n_folds, n_genes)) for _ in range(3)]
    expressed = np.zeros(n_genes)
    centred = cells.centred(cells.values)
    parts = [np.where(cells.fold[:, None] == f, centred, 0.0) for f in range(n_folds)]
    columns = np.concatenate([*parts, cells.centred(cells.null)], axis=1)
    products = np.zeros((n_genes, columns.shape[1]))
    for rows, block in blocks:
        kept = np.flatnonzero(cells.stratum[rows] >= 0)
        if not len(kept):
            continue
        group = (cells.stratum * n_folds + cells.fold)[rows][kept]
        if sparse.issparse(block):
            _add_sparse(sparse.csr_matrix(block)[kept].astype(np.float64), group, powers, expressed)
        else:
            _add_dense(np.asarray(block, dtype=np.float64)[kept], group, powers, expressed)
        products += np.asarray(block.T @ columns[rows])
    shape = (n_strata, n_folds, n_genes)
    return Sums(
        powers[0].reshape(shape),
        powers[1].reshape(shape),
        powers[2].reshape(shape).sum(axis=1),
        expressed,
        products[:, : n_folds * q].T.reshape(n_folds, q, n_genes),
        products[:, n_folds * q :].T,
    )


def _add_sparse(x: sparse.csr_matrix, group: Index, powers: list[Array], expressed: Array) -> None:
    n_genes = x.shape[1]
    expressed += np.bincount(x.indices, x.data != 0, n_genes)
    for one in np.unique(group):
        part = x[group == one]
        weight = part.data
        for power in powers:
            power[one] += np.bincount(part.indices, weight, n_genes)
            weight = weight * part.data


def _add_dense(x: Array, group: Index, powers: list[Array], expressed: Array) -> None:
    expressed += (x != 0).sum(axis=0)
    for one in np.unique(group):
        part = x[group == one]
        weight = part
        for power in powers:
            power[one] += weight.sum(axis=0)
            weight = weight * part
