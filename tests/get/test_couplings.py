"""Transport plans of a fit, handed out."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from helpers import assert_same
from scipy import sparse
from scipy.spatial.distance import cdist

import scjko as sj

QUICK = {"use_rep": "X_latent", "parametrization": sj.Neural(epochs=2), "progress": False}


@pytest.fixture
def shuffled(adata, rng):
    adata = adata[rng.permutation(adata.n_obs)].copy()
    sj.tl.fit_energy(adata, "day", **QUICK)
    return adata


def test_plans_are_optimal_for_the_cells_in_the_order_of_the_data(shuffled):
    plans = sj.get.couplings(shuffled)
    assert list(plans) == [(0.0, 1.0), (1.0, 2.0), (2.0, 4.0), (4.0, 7.0)]
    for (t0, t1), plan in plans.items():
        assert isinstance(plan, sparse.csr_matrix)
        x, y = (shuffled[shuffled.obs["day"] == t].obsm["X_latent"] for t in (t0, t1))
        cost = cdist(x, y, "sqeuclidean")
        assert plan.multiply(cost).sum() == pytest.approx(ot.emd2(ot.unif(len(x)), ot.unif(len(y)), cost), rel=1e-7)
        np.testing.assert_allclose(plan.sum(axis=1), 1 / len(x))
        np.testing.assert_allclose(plan.sum(axis=0), 1 / len(y))


@pytest.mark.parametrize("as_anndata", [False, True])
def test_what_is_handed_out_can_be_handed_in_again(shuffled, rng, as_anndata):
    plans = sj.get.couplings(shuffled, as_anndata=as_anndata)
    other = shuffled[rng.permutation(shuffled.n_obs)].copy() if as_anndata else shuffled.copy()  # by name in any order
    sj.tl.fit_energy(other, "day", coupling=plans, **QUICK)
    moved = other[shuffled.obs_names].obsm["jko_velocity"]
    np.testing.assert_allclose(moved, shuffled.obsm["jko_velocity"], atol=1e-4)  # sums in another order


def test_plans_in_the_layout_of_waddington_ot_name_their_cells(shuffled):
    before = shuffled.copy()
    plan = sj.get.couplings(shuffled, as_anndata=True)[1.0, 2.0]
    assert list(plan.obs_names) == list(shuffled.obs_names[shuffled.obs["day"] == 1])
    assert list(plan.var_names) == list(shuffled.obs_names[shuffled.obs["day"] == 2])
    np.testing.assert_allclose(plan.X.sum(axis=1), 1)
    assert_same(shuffled, before)


def test_a_fit_to_ready_made_couplings_has_none_to_hand_out(shuffled):
    sj.tl.fit_energy(shuffled, "day", coupling=sj.get.couplings(shuffled), **QUICK)
    with pytest.raises(ValueError, match="ready-made couplings, which it does not keep; use those"):
        sj.get.couplings(shuffled)
    with pytest.raises(KeyError, match=r"run sj\.tl\.fit_energy"):
        sj.get.couplings(shuffled, "other")


def test_plans_of_fewer_cells_than_were_fitted_are_an_error(shuffled):
    with pytest.raises(ValueError, match=r"The fit was one of 38, 76, 115, 114, 57 cells.*and here are"):
        sj.get.couplings(shuffled[:300].copy())
