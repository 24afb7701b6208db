"""AnnData to snapshots."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from scjko.edge.snapshots import Whitening, collect, embedding, representation


def test_snapshots_hold_the_cells_of_each_time(rng):
    x, t = rng.normal(size=(50, 3)), rng.choice([3.0, 1.0, 2.0], size=50)
    snapshots = collect(x, t)
    np.testing.assert_array_equal(snapshots.times, [1, 2, 3])
    for time, points in zip(snapshots.times, snapshots.points, strict=True):
        expected = x[t == time]
        np.testing.assert_array_equal(points, expected[np.lexsort(expected.T[::-1])])
    np.testing.assert_array_equal(snapshots.to_rows(snapshots.coordinates), x)
    np.testing.assert_array_equal(snapshots.to_rows(snapshots.cell_times), t)


def test_snapshots_do_not_depend_on_the_order_of_rows(rng):
    x, t = rng.normal(size=(50, 3)).round(), rng.choice([3.0, 1.0], size=50)
    shuffled = rng.permutation(50)
    np.testing.assert_array_equal(collect(x, t).coordinates, collect(x[shuffled], t[shuffled]).coordinates)


def test_every_kind_of_array_is_read(adata):
    expected = adata.obsm["X_pca"][:, :3]
    for convert in (
        np.asfortranarray,
        lambda x: pd.DataFrame(x, index=adata.obs_names, columns=[f"PC{i}" for i in range(x.shape[1])]),
        sparse.csr_matrix,
        sparse.csr_array,
    ):
        adata.obsm["other"] = convert(adata.obsm["X_pca"])
        name, values = representation(adata, "other", 3)
        assert name == "other"
        np.testing.assert_array_equal(values, expected)


def test_columns_of_a_frame_that_are_no_numbers_are_named(adata):
    frame = pd.DataFrame(adata.obsm["X_pca"], index=adata.obs_names, columns=[f"PC{i}" for i in range(10)])
    adata.obsm["mixed"] = frame.assign(batch="one", kind=pd.Categorical(["a"] * adata.n_obs))
    with pytest.raises(
        ValueError, match=r"obsm\['mixed'\] has columns that are no numbers: 'batch', 'kind'; drop them"
    ):
        representation(adata, "mixed", 3)


def test_what_is_missing_is_told_with_what_would_help(adata):
    with pytest.raises(KeyError, match=r"No use_rep='pca' in adata.obsm.*did you mean 'X_pca'\?"):
        representation(adata, "pca", None)
    with pytest.raises(KeyError, match=r"No basis='umap'.*run sc\.tl\.umap\(adata\) first"):
        embedding(adata, "umap")


def test_representation_of_scanpy_2_is_found(adata):
    adata.obsm["pca"] = adata.obsm.pop("X_pca")
    assert representation(adata, None, None)[0] == "pca"


def test_small_floats_become_float32_and_integers_float64(adata):
    for given, expected in ((np.float16, np.float32), (np.float32, np.float32), (np.float64, np.float64), (int, float)):
        adata.obsm["X_pca"] = adata.obsm["X_pca"].astype(given)
        assert representation(adata, None, None)[1].dtype == expected


def test_whitening_gives_mean_zero_and_variance_one(rng):
    x = rng.normal(3, 5, size=(40, 2)) * [1, 100]
    x = np.column_stack([x, np.full(40, 7.0)])
    white = Whitening.of(x)(x)
    np.testing.assert_allclose(white.mean(axis=0), 0, atol=1e-13)
    np.testing.assert_allclose(white.std(axis=0), [1, 1, 0], atol=1e-13)


def test_a_lazy_representation_is_read_block_by_block(adata, monkeypatch):
    array = pytest.importorskip("dask.array")
    adata.obsm["lazy"] = array.from_array(adata.obsm["X_pca"], chunks=(100, 4))
    read = []
    compute = array.Array.compute
    monkeypatch.setattr(array.Array, "compute", lambda self, **o: (read.append(self.shape[0]), compute(self, **o))[1])
    _, values = representation(adata, "lazy", 3)
    np.testing.assert_array_equal(values, adata.obsm["X_pca"][:, :3])
    assert read == [100, 100, 100, 100], "no more than a block at a time"
