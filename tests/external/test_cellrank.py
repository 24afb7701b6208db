"""The real CellRank on our kernels. ``make test-interop`` installs it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import scanpy as sc
from helpers import assert_same, simulate
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import scjko as sj

cr = pytest.importorskip("cellrank", reason="CellRank is not installed; make test-interop has it")
# Warnings of CellRank, scVelo and what they import are theirs.
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("mixed_ranks")]


@pytest.fixture(scope="module")
def _committing():
    adata = simulate(1000)
    sj.tl.fit_energy(adata, "day", 5, progress=False)
    sc.pp.neighbors(adata, use_rep="X_jko")
    return adata


@pytest.fixture
def committing(_committing):
    """Cells on their way to three known fates, fitted to their PCA."""
    return _committing.copy()


def true_fates_found(estimator, adata):
    """The share of committed cells whose true fate has the highest probability."""
    estimator.compute_fate_probabilities(solver="direct", use_petsc=False)
    probabilities = estimator.fate_probabilities
    np.testing.assert_allclose(np.asarray(probabilities.X).sum(axis=1), 1, atol=1e-6)
    names = np.array([str(name) for name in probabilities.names])
    assert sorted(names) == ["fate 1", "fate 2", "fate 3"]
    found = names[np.asarray(probabilities.X).argmax(axis=1)]
    committed = (adata.obs["commitment"] > 0.6).to_numpy()
    assert committed.mean() > 0.7
    return np.mean(found[committed] == adata.obs["fate"].astype(str).to_numpy()[committed])


def found_terminal_states(kernel):
    """An estimator with three terminal states that it found itself."""
    estimator = cr.estimators.GPCCA(kernel)
    estimator.compute_schur(n_components=10, method="brandts")
    estimator.compute_macrostates(n_states=3, cluster_key="fate")
    estimator.set_terminal_states()
    return estimator


def test_fates_of_the_velocity_kernel_are_the_true_ones(committing):
    kernel = sj.external.cellrank.velocity_kernel(committing)
    assert isinstance(kernel, cr.kernels.VelocityKernel)
    assert true_fates_found(found_terminal_states(kernel), committing) >= 0.8


def test_the_velocity_kernel_takes_neighbours_of_a_name(committing):
    sc.pp.neighbors(committing, n_neighbors=7, use_rep="X_jko", key_added="few")
    kernel = sj.external.cellrank.velocity_kernel(committing, neighbors_key="few")
    assert (kernel.connectivities != committing.obsp["few_connectivities"]).nnz == 0
    with pytest.raises(KeyError, match=r"use_rep='X_jko', key_added='other'\) first"):
        sj.external.cellrank.velocity_kernel(committing, neighbors_key="other")


def test_fates_of_the_transition_matrix_are_the_true_ones(committing):
    sj.tl.transition_matrix(committing)
    kernel = cr.kernels.PrecomputedKernel(committing.obsp["jko_transition"], adata=committing)
    assert true_fates_found(found_terminal_states(kernel), committing) >= 0.8


def test_fates_of_the_realtime_kernel_are_the_true_ones(committing):
    kernel = sj.external.cellrank.realtime_kernel(committing)
    assert isinstance(kernel, cr.kernels.RealTimeKernel)
    estimator = cr.estimators.GPCCA(kernel)
    last = committing.obs[committing.obs["day"] == 7]
    estimator.set_terminal_states({fate: list(last.index[last["fate"] == fate]) for fate in last["fate"].unique()})
    assert true_fates_found(estimator, committing) >= 0.8


def test_the_realtime_kernel_goes_where_the_couplings_go(committing):
    kernel = sj.external.cellrank.realtime_kernel(committing, self_transitions="diagonal", conn_weight=None)
    matrix, plan = kernel.transition_matrix, sj.get.couplings(committing)[1.0, 2.0]
    here, there = (np.flatnonzero(committing.obs["day"] == t) for t in (1, 2))
    expected = plan.multiply(1 / plan.sum(axis=1)).toarray()
    np.testing.assert_allclose(matrix[here][:, there].toarray(), expected, atol=1e-7)
    assert list(committing.obs["jko_time"].cat.categories) == [0, 1, 2, 4, 7]


def test_a_labelled_time_column_and_couplings_of_ones_own_will_do(committing):
    committing.obs["when"] = ("day " + committing.obs["day"].astype(int).astype(str)).astype("category")
    sj.tl.fit_energy(committing, "when", 5, parametrization=sj.Neural(epochs=2), progress=False)
    plans = sj.get.couplings(committing)
    told = {(f"day {t0:g}", f"day {t1:g}"): plan for (t0, t1), plan in plans.items()}
    one = sj.external.cellrank.realtime_kernel(committing, couplings=told)
    other = sj.external.cellrank.realtime_kernel(committing)
    # Masses that are handed in are made to sum to one again, which rounds.
    assert abs(one.transition_matrix - other.transition_matrix).max() < 1e-12


def test_errors_name_what_is_missing_and_change_nothing(committing, adata):
    with pytest.raises(KeyError, match=r"run sj\.tl\.fit_energy"):
        sj.external.cellrank.velocity_kernel(adata)
    before = committing.copy()
    with pytest.raises(ValueError, match="shape"):
        wrong = {pair: sparse.csr_matrix((3, 3)) for pair in sj.get.couplings(committing)}
        sj.external.cellrank.realtime_kernel(committing, couplings=wrong)
    with pytest.raises(ValueError, match=r"missing: \(1, 2\)"):
        some = {pair: plan for pair, plan in sj.get.couplings(committing).items() if pair != (1.0, 2.0)}
        sj.external.cellrank.realtime_kernel(committing, couplings=some)
    with pytest.raises(TypeError, match="of a low-rank solution there is none"):
        acting = {pair: aslinearoperator(plan) for pair, plan in sj.get.couplings(committing).items()}
        sj.external.cellrank.realtime_kernel(committing, couplings=acting)
    assert_same(committing, before)
    del committing.obsp["connectivities"]
    with pytest.raises(KeyError, match=r"run sc\.pp\.neighbors\(adata, use_rep='X_jko'\) first"):
        sj.external.cellrank.velocity_kernel(committing)


def test_fates_are_taken_by_the_plots_of_cellrank(committing):
    sj.tl.fates(committing, "fate")
    sj.external.cellrank.lineages(committing)
    made = cr.Lineage.from_adata(committing)
    assert list(made.names) == list(committing.obsm["jko_fates"].columns)
    assert list(made.colors) == [colour.lower() for colour in committing.uns["jko_fate_colors"]]
    np.testing.assert_allclose(np.asarray(made.X), committing.obsm["jko_fates"])
    cr.pl.circular_projection(committing, keys="fate", dpi=40)


def test_routes_of_cellrank_agree_with_fates_on_committed_cells(committing):
    sj.tl.fates(committing, "fate")
    kernel = sj.external.cellrank.realtime_kernel(committing)
    estimator = cr.estimators.GPCCA(kernel)
    last = committing.obs[committing.obs["day"] == 7]
    estimator.set_terminal_states({fate: list(last.index[last["fate"] == fate]) for fate in last["fate"].unique()})
    estimator.compute_fate_probabilities(solver="direct", use_petsc=False)
    found = estimator.fate_probabilities
    table = pd.DataFrame(np.asarray(found.X), committing.obs_names, list(map(str, found.names)))
    same = table.idxmax(axis=1) == committing.obs["jko_fate"].astype(str)
    assert same[committing.obs["commitment"] > 0.6].mean() > 0.9
