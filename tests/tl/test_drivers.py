"""Drivers of simulated fates: planted genes are found, others are not, and what chance makes of both."""

from __future__ import annotations

import anndata as ad
import numpy as np
import pandas as pd
import pytest
from helpers import assert_same, simulate
from scipy import sparse, stats
from sklearn.metrics import roc_auc_score

import scjko as sj

LINEAR = {"parametrization": sj.Linear(degree=2, n_centers=0, ridge=0.1), "progress": False}


@pytest.fixture(scope="module")
def _driven():
    adata = simulate(700, n_genes=300, n_drivers=5, random_state=10)
    sj.tl.fit_energy(adata, "day", 5, **LINEAR)
    sj.tl.fates(adata, "fate")
    return adata


@pytest.fixture
def driven(_driven):
    return _driven.copy()


def test_planted_drivers_are_found_and_inert_genes_are_not(driven, tmp_path):
    table = sj.tl.drivers(driven, factors=["gene 0", "gene 200"])
    assert list(table.columns) == ["gene", "of", "effect", "error", "p", "q", "expressed", "factor"]
    assert (table.groupby("of").size() == 300).all() and table["factor"].sum() == 6
    program = driven.var["program"].astype(str).loc[table["gene"]].to_numpy()
    inert = program == "none"
    assert roc_auc_score(~inert, -table["p"]) > 0.95
    own = program == table["of"]
    assert (table["effect"][own] > 0).all() and (table["q"][own] < 0.05).mean() > 0.8
    # Of 855 tests of inert genes five per cent, within four standard errors.
    assert (table["p"][inert] < 0.05).mean() < 0.05 + 4 * np.sqrt(0.05 * 0.95 / inert.sum())
    assert (table["q"][inert] < 0.05).mean() < 0.01
    # The jackknife's error against the deviation of effects of genes that have none: two estimates of one number.
    assert 0.7 < table["error"][inert].mean() / table["effect"][inert].std() < 1.3
    driven.write_h5ad(tmp_path / "cells.h5ad")
    back = ad.read_h5ad(tmp_path / "cells.h5ad").uns["jko_drivers"]
    pd.testing.assert_frame_equal(back.reset_index(drop=True), table, check_dtype=False)


def test_fates_without_meaning_have_no_drivers(driven, rng):
    """Labels that have nothing to do with cells: exchange of cells alone would call genes of the state drivers."""
    last = np.flatnonzero(driven.obs["day"] == 7)
    labels = driven.obs["fate"].to_numpy().copy()
    labels[last] = rng.permutation(labels[last])
    driven.obs["random"] = pd.Categorical(labels)
    sj.tl.fates(driven, "random")
    table = sj.tl.drivers(driven, "fate 1").set_index("gene")
    naive = sj.tl.drivers(driven, "fate 1", n_exchanges=0).set_index("gene")
    planted = driven.var_names[:15]
    assert (table.loc[planted, "q"] > 0.05).all() and (naive.loc[planted, "q"] < 0.05).any()


def test_times_without_meaning_leave_inert_genes_uniform(rng):
    adata = simulate(700, n_genes=300, n_drivers=5, random_state=11)
    adata.obs["day"] = rng.permutation(adata.obs["day"].to_numpy())
    sj.tl.fit_energy(adata, "day", 5, **LINEAR)
    sj.tl.fates(adata, "fate")
    p = sj.tl.drivers(adata, "fate 1").set_index("gene")["p"].loc[adata.var_names[15:]]
    assert stats.kstest(p, "uniform").pvalue > 0.01


def test_two_fates_and_two_orders(driven, rng):
    one = sj.tl.drivers(driven, ("fate 1", "fate 3"))
    assert set(one["of"]) == {"fate 1 against fate 3"}
    effect = one.set_index("gene")["effect"]
    assert (effect[driven.var_names[:5]] > 0).all() and (effect[driven.var_names[10:15]] < 0).all()
    other = driven[rng.permutation(driven.n_obs)].copy()
    moved = sj.tl.drivers(other, ("fate 1", "fate 3")).set_index("gene").loc[one["gene"]]
    np.testing.assert_allclose(moved["p"], one["p"], rtol=1e-6)
    np.testing.assert_allclose(moved["error"], one["error"], rtol=1e-6)


def test_velocities_and_potentials(driven, caplog):
    towards = sj.tl.drivers(driven, "fate 1", of="velocity").set_index("gene")
    assert "no members" in caplog.text
    program = driven.var["program"].loc[towards.index]
    assert towards["effect"][program == "fate 1"].mean() > towards["effect"][program == "none"].mean()
    down = sj.tl.drivers(driven, of="potential")
    assert set(down["of"]) == {"potential"} and down["p"].between(0, 1).all()
    members = {**LINEAR, "parametrization": sj.Linear(degree=2, n_centers=0, ridge=0.1, n_members=4)}
    sj.tl.fit_energy(driven, "day", 5, **members)
    surer = sj.tl.drivers(driven, of="potential")
    assert surer["p"].median() > down["p"].median() - 0.1


def assert_close(one, other, column):
    one, other = (table.set_index("gene")[column].sort_index() for table in (one, other))
    np.testing.assert_allclose(one, other, rtol=1e-5)


def test_sparse_dense_backed_and_raw_give_the_same(driven, tmp_path):
    table = sj.tl.drivers(driven, "fate 2", n_exchanges=5)
    driven.raw = driven.copy()
    raw = sj.tl.drivers(driven, "fate 2", n_exchanges=5, use_raw=True)
    assert_close(raw, table, "effect")
    for x in (driven.X.toarray(), sparse.csc_matrix(driven.X), driven.X):
        driven.X = x
        assert_close(sj.tl.drivers(driven, "fate 2", n_exchanges=5), table, "p")
    driven.raw = None
    driven.write_h5ad(tmp_path / "cells.h5ad")
    backed = ad.read_h5ad(tmp_path / "cells.h5ad", backed="r")
    assert_close(sj.tl.drivers(backed, "fate 2", n_exchanges=5), table, "p")


def test_constant_genes_have_no_p_value(driven):
    driven.X = driven.X.toarray()
    driven.X[:, 7] = 1.0
    table = sj.tl.drivers(driven, "fate 1", n_exchanges=2).set_index("gene")
    assert table.loc["gene 7", ["effect", "p", "q"]].isna().all() and table["q"].notna().sum() == 299


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"fate": "fate 9"}, KeyError, "is none of the fates, 'fate 1', 'fate 2', 'fate 3'"),
        ({"fate": ("fate 1", "fate 1")}, ValueError, "two different ones"),
        ({"fate": "fate 1", "of": "potential"}, ValueError, "takes no fate"),
        ({"of": "height"}, ValueError, "of='height'"),
        ({"factors": "rat"}, ValueError, "no organism with a list"),
        ({"layer": "scaled"}, KeyError, "No layer='scaled'"),
        ({"use_raw": True}, ValueError, "adata.raw is empty"),
        ({"layer": "counts", "use_raw": True}, ValueError, "two matrices"),
        ({"cells": ["cell 0", "cell 1"]}, ValueError, "three cells that count"),
        ({"cells": np.zeros(700, bool)}, ValueError, "cells is empty"),
        ({"n_exchanges": -1}, ValueError, "n_exchanges=-1"),
        ({"key": "other"}, KeyError, "No fitted energy"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(driven, options, error, words):
    before = driven.copy()
    with pytest.raises(error, match=words):
        sj.tl.drivers(driven, **options)
    assert_same(driven, before)


def test_fates_that_are_missing_or_one_are_named(driven):
    late = (driven.obs["day"] == 7).to_numpy()
    sj.tl.fates(driven, terminal={"all": late})
    with pytest.raises(ValueError, match="There is one fate, 'all'"):
        sj.tl.drivers(driven)
    with pytest.raises(ValueError, match="is the same for all"):
        sj.tl.drivers(driven, "all", n_exchanges=0)
    del driven.obsm["jko_fates"]
    with pytest.raises(KeyError, match=r"run sj\.tl\.fates"):
        sj.tl.drivers(driven)
