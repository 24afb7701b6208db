"""The Markov chain of a fit."""

from __future__ import annotations

import anndata
import numpy as np
import pytest
from helpers import assert_same
from scipy import sparse

import scjko as sj


def test_rows_are_probabilities_and_lead_to_the_next_snapshot(fitted):
    assert sj.tl.transition_matrix(fitted, within=0) is None
    matrix = fitted.obsp["jko_transition"]
    assert isinstance(matrix, sparse.csr_matrix), "CellRank's PrecomputedKernel takes no csr_array"
    np.testing.assert_allclose(matrix.sum(axis=1), 1)
    assert matrix.min() >= 0
    after = dict(zip([0, 1, 2, 4, 7], [1, 2, 4, 7, 7], strict=True))
    day = fitted.obs["day"].to_numpy()
    row, column = matrix.nonzero()
    np.testing.assert_array_equal(day[column], [after[t] for t in day[row]])


def test_a_cell_becomes_cells_near_where_it_is_predicted_to_be(fitted):
    sj.tl.transition_matrix(fitted, 10, within=0)
    mean = fitted.obsp["jko_transition"] @ fitted.obsm["X_jko"]
    moving = fitted.obs["day"].to_numpy() < 7
    off = np.linalg.norm(mean - fitted.obsm["jko_predicted"], axis=1)[moving]
    way = np.linalg.norm(fitted.obsm["X_jko"] - fitted.obsm["jko_predicted"], axis=1)[moving]
    assert np.median(off) < 0.25 * np.median(way)  # measured 0.11: ten cells are never exactly there


def test_it_does_not_depend_on_the_order_of_cells_and_is_kept_in_files(fitted, rng, tmp_path):
    order = rng.permutation(fitted.n_obs)
    shuffled = sj.tl.transition_matrix(fitted[order].copy(), copy=True)
    made = sj.tl.transition_matrix(fitted, copy=True)
    assert "jko_transition" not in fitted.obsp
    expected = made.obsp["jko_transition"].toarray()[np.ix_(order, order)]
    np.testing.assert_allclose(shuffled.obsp["jko_transition"].toarray(), expected, atol=1e-12)
    made.write_h5ad(tmp_path / "made.h5ad")
    again = anndata.read_h5ad(tmp_path / "made.h5ad").obsp["jko_transition"]
    np.testing.assert_array_equal(again.toarray(), made.obsp["jko_transition"].toarray())


def test_bad_arguments_are_named_and_nothing_is_written(fitted, adata):
    before = fitted.copy()
    with pytest.raises(KeyError, match=r"run sj\.tl\.fit_energy"):
        sj.tl.transition_matrix(adata)
    with pytest.raises(ValueError, match="n_neighbors=0"):
        sj.tl.transition_matrix(fitted, 0)
    with pytest.raises(ValueError, match="within=1 must be from 0 to below 1"):
        sj.tl.transition_matrix(fitted, within=1)
    with pytest.raises(TypeError, match="within must be a number"):
        sj.tl.transition_matrix(fitted, within="much")
    assert_same(fitted, before)
    del fitted.obsm["jko_predicted"]
    with pytest.raises(KeyError, match="predicted positions of these cells"):
        sj.tl.transition_matrix(fitted)
