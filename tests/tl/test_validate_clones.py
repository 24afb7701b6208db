"""Fates judged by clones: sisters, baselines and verdicts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from helpers import assert_same, simulate
from scipy import sparse

import scjko as sj
from scjko.edge.clones import clone_matrix, sisters


@pytest.fixture(scope="module")
def _cells():
    """Simulated cells with a fit, and clones of cells of one fate."""
    adata = simulate(600, random_state=12)
    sj.tl.fit_energy(adata, "day", 5, parametrization=sj.Kantorovich(n_members=1), progress=False)
    rng = np.random.default_rng(0)
    adata.obs["clone"] = [f"{fate}, {rng.integers(40)}" for fate in adata.obs["fate"]]
    adata.obs.loc[rng.random(600) < 0.3, "clone"] = np.nan  # not every cell has a barcode
    return adata


@pytest.fixture
def cells(_cells):
    return _cells.copy()


def test_sisters_are_later_cells_of_a_clone_in_a_terminal_set():
    clones = sparse.csr_matrix([[1, 0], [1, 1], [0, 1], [1, 0], [1, 0], [0, 1]])
    times = np.array([0.0, 0.0, 1.0, 1.0, 1.0, 0.0])
    member = np.array([[0, 0], [0, 0], [1, 0], [0, 1], [0, 1], [0, 0]], dtype=float)
    found = sisters(clones, times, member, "clone")
    np.testing.assert_array_equal(found.rows, [0, 1, 5])
    np.testing.assert_allclose(found.shares, [[0, 1], [1 / 3, 2 / 3], [1, 0]])
    np.testing.assert_array_equal(found.clone, [0, 0, 1])


def test_labels_and_matrices_say_the_same(cells):
    labels = clone_matrix(cells, "clone")
    assert labels.shape == (600, cells.obs["clone"].nunique())
    assert labels.sum() == cells.obs["clone"].notna().sum()
    cells.obsm["X_clone"] = labels
    cells.obsm["dense"] = pd.DataFrame(3 * labels.toarray(), index=cells.obs_names)
    for name in ("X_clone", "dense"):
        assert (clone_matrix(cells, name) != labels).nnz == 0


def test_fates_are_judged_beside_baselines(cells, caplog):
    frame = sj.tl.validate(cells, protocol="clones", clone_key="clone", cluster_key="fate", progress=False)
    assert set(frame["method"]) == {"scjko", "persistence", "neighbours", "couplings", "frequency"}
    assert sorted(frame["time"].unique()) == [0, 1, 2, 4]
    last = frame[frame["time"] == 4].set_index("method")
    assert last.loc["scjko", "top1"] > 0.9 > last.loc["frequency", "top1"]
    assert last.loc["scjko", ["correlation", "auroc"]].min() > 0.8 and last["top1_error"].max() < 0.1
    assert 0 < last.loc["scjko", "correlation_error"] < 0.1 and "The correlation of all" in frame.attrs["verdict"]
    assert frame.attrs["verdict"] == cells.uns["jko_validation_verdict"]["clones"]
    # The same after sj.tl.fates, and beside other protocols.
    sj.tl.validate(cells, protocol="last", progress=False)
    sj.tl.fates(cells, "fate")
    again = sj.tl.validate(cells, protocol="clones", clone_key="clone", progress=False)
    pd.testing.assert_frame_equal(again, frame)
    assert set(cells.uns["jko_validation"]["protocol"]) == {"last", "clones"}
    drawn = sj.pl.validation(cells, show=False)
    assert "last" in drawn.get_title()


def test_shuffled_clones_are_no_better_than_baselines(cells, rng, caplog):
    cells.obs["clone"] = rng.permutation(cells.obs["clone"].to_numpy())
    frame = sj.tl.validate(cells, protocol="clones", clone_key="clone", cluster_key="fate", progress=False)
    assert "no better than" in frame.attrs["verdict"] and "no better than" in caplog.text


def test_bad_clones_are_named(cells):
    cells.obs["alone"] = cells.obs_names
    cells.obs["blank"] = np.nan
    cells.obs["one time"] = "clone at " + cells.obs["day"].astype(str)
    cells.obsm["minus"] = -np.ones((600, 2))
    cells.obsm["cube"] = np.ones((600, 2, 2))
    before = cells.copy()
    cases = {
        "alone": "All 600 clones of 'alone' have one cell",
        "blank": "'blank' has no barcodes at all",
        "one time": "no clone has cells of more than one time point",
        "minus": "negative, NaN or infinite",
        "cube": r"has shape \(600, 2, 2\); a clone matrix has a row for each cell",
    }
    for name, words in cases.items():
        with pytest.raises(ValueError, match=words):
            sj.tl.validate(cells, protocol="clones", clone_key=name, cluster_key="fate")
    with pytest.raises(KeyError, match="No clone_key='missing' in adata.obs, nor in adata.obsm"):
        sj.tl.validate(cells, protocol="clones", clone_key="missing", cluster_key="fate")
    with pytest.raises(ValueError, match="needs clone_key"):
        sj.tl.validate(cells, protocol="clones")
    with pytest.raises(KeyError, match=r"run sj\.tl\.fates\(adata, \.\.\.\) first"):
        sj.tl.validate(cells, protocol="clones", clone_key="clone")
    assert_same(cells, before)
