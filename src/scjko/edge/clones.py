"""Clones of cells, from barcodes that a user has in ``obs`` or ``obsm``, and what became of sisters."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from scipy import sparse

from .checks import check_name

Array = NDArray[np.float64]

#: Labels of cells without a barcode, beside missing values.
BLANK = ("", "nan", "NaN", "None", "NA")


class Sisters(NamedTuple):
    """Cells some of whose sisters are in terminal sets at a later time."""

    rows: NDArray[np.int64]
    shares: Array
    """Of the fates among those sisters (n, n_fates)."""
    clone: NDArray[np.int64]
    """The clone of each cell, the first if it has several."""


def clone_matrix(adata: AnnData, clone_key: str) -> sparse.csr_matrix:
    """Which cell is of which clone (n_cells, n_clones): from labels in ``obs`` or from a matrix in ``obsm``."""
    check_name("clone_key", clone_key)
    if clone_key in adata.obs.columns:
        labels = adata.obs[clone_key]
        codes, _ = pd.factorize(labels.astype(object).where(~labels.astype(str).isin(BLANK)))
        held = np.flatnonzero(codes >= 0)
        entries = np.ones(len(held)), (held, codes[held])
        return sparse.csr_matrix(entries, shape=(adata.n_obs, int(codes.max(initial=-1)) + 1))
    if clone_key not in adata.obsm:
        there = ", ".join(map(repr, adata.obsm)) or "nothing"
        raise KeyError(f"No clone_key={clone_key!r} in adata.obs, nor in adata.obsm, which has {there}.")
    values: Any = adata.obsm[clone_key]
    values = values.to_numpy() if isinstance(values, pd.DataFrame) else values
    if np.ndim(values) != 2 and not sparse.issparse(values):
        raise ValueError(
            f"obsm[{clone_key!r}] has shape {np.shape(values)}; a clone matrix has a row for each cell and a column "
            "for each clone. Put labels of clones into obs."
        )
    matrix = sparse.csr_matrix(values, dtype=np.float64)
    if not np.isfinite(matrix.data).all() or (matrix.data < 0).any():
        raise ValueError(f"obsm[{clone_key!r}] has negative, NaN or infinite entries; a clone matrix has 0 and 1.")
    matrix.eliminate_zeros()
    matrix.data[:] = 1.0
    return matrix


def sisters(clones: sparse.csr_matrix, times: Array, member: Array, clone_key: str) -> Sisters:
    """What became of the sisters of each cell that is in no terminal set, at later times than its own.

    ``member`` says which terminal set each cell is in (n_cells, n_fates).
    """
    sizes = np.asarray(clones.sum(axis=0)).ravel()
    if clones.nnz == 0:
        raise ValueError(f"{clone_key!r} has no barcodes at all.")
    if sizes.max() < 2:
        raise ValueError(f"All {int(np.sum(sizes > 0))} clones of {clone_key!r} have one cell; sisters are needed.")
    shares = np.zeros_like(member)
    for time in np.unique(times):
        here, later = np.flatnonzero(times == time), np.flatnonzero(times > time)
        if len(later):
            shares[here] = clones[here] @ (clones[later].T @ member[later])
    total = shares.sum(axis=1)
    rows = np.flatnonzero((total > 0) & (member.sum(axis=1) == 0))
    if len(rows) == 0:
        spanning = sum(len(np.unique(times[clones[:, [j]].indices])) > 1 for j in np.flatnonzero(sizes > 1)[:2000])
        why = (
            "no clone has cells of more than one time point"
            if spanning == 0
            else "no clone has both a cell outside of the terminal sets and a later one in them"
        )
        raise ValueError(f"Clones of {clone_key!r} cannot judge fates: {why}.")
    return Sisters(rows, shares[rows] / total[rows, None], _first(clones, rows))


def _first(clones: sparse.csr_matrix, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """The first clone of each cell, which has one."""
    clones = sparse.csr_matrix(clones)
    clones.sort_indices()
    return clones.indices[clones.indptr[rows]].astype(np.int64)
