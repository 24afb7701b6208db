"""What several tests need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import scanpy as sc
from anndata import AnnData

import scjko as sj


def simulate(n_cells: int = 400, **options: Any) -> AnnData:
    """Simulated cells with their PCA."""
    adata = sj.datasets.simulated(n_cells, **options)
    sc.pp.normalize_total(adata)
    sc.pp.log1p(adata)
    sc.pp.pca(adata, n_comps=10)
    return adata


def assert_same(one: AnnData, other: AnnData) -> None:
    """Assert that two AnnData hold the same, to the bit, and in the same order of columns."""
    pd.testing.assert_frame_equal(one.obs, other.obs, check_exact=True)
    pd.testing.assert_frame_equal(one.var, other.var, check_exact=True)
    for slot in ("obsm", "varm", "obsp", "layers", "uns"):
        _assert_same_tree(dict(getattr(one, slot)), dict(getattr(other, slot)), slot)
    _assert_same_tree(one.X, other.X, "X")


def _assert_same_tree(one: Any, other: Any, where: str) -> None:
    if isinstance(one, Mapping):
        assert list(one) == list(other), where
        for name in one:
            _assert_same_tree(one[name], other[name], f"{where}/{name}")
        return
    assert type(one) is type(other), where
    dense = [array.toarray() if hasattr(array, "toarray") else array for array in (one, other)]
    np.testing.assert_array_equal(*dense, err_msg=where)
    assert getattr(one, "dtype", None) == getattr(other, "dtype", None), where
