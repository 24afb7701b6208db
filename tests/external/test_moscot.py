"""The real moscot: its couplings go in by the names of cells. ``make test-interop`` installs it."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import simulate
from scipy import sparse

import scjko as sj

moscot_time = pytest.importorskip("moscot.problems.time", reason="moscot is not installed; make test-interop has it")
pytestmark = [pytest.mark.filterwarnings("default"), pytest.mark.usefixtures("mixed_ranks")]

QUICK = {"n_pcs": 5, "parametrization": sj.Neural(epochs=5), "progress": False}


@pytest.fixture(scope="module")
def cells():
    """Three time points."""
    return simulate(150, times=(0, 1, 2))


def solved(cells, **options):
    adata = cells.copy()
    adata.obs["day"] = adata.obs["day"].astype("category")
    return moscot_time.TemporalProblem(adata).prepare("day", joint_attr="X_pca").solve(**options)


def test_plans_come_over_sparse_and_by_name(cells, rng):
    problem = solved(cells, epsilon=0.01)
    couplings = sj.external.moscot.couplings(problem)
    assert set(couplings) == {(0.0, 1.0), (1.0, 2.0)}
    for pair, plan in couplings.items():
        assert sparse.issparse(plan.X) and plan.X.nnz < 0.7 * plan.n_obs * plan.n_vars
        whole = np.asarray(problem.solutions[pair].transport_matrix)
        # 99.99 % of each row are kept.
        np.testing.assert_allclose(plan.X.sum(axis=1).A1, whole.sum(axis=1), rtol=2e-4)
        assert list(plan.obs_names) == list(cells.obs_names[cells.obs["day"] == pair[0]])
    one, other = cells.copy(), cells[rng.permutation(cells.n_obs)].copy()
    for adata in (one, other):
        sj.tl.fit_energy(adata, "day", coupling=couplings, **QUICK)
    moved = other[one.obs_names].obsm["jko_velocity"]
    np.testing.assert_allclose(moved, one.obsm["jko_velocity"], atol=1e-4)  # sums in another order


def test_growth_comes_over_unchanged(cells):
    adata = cells.copy()
    adata.obs["day"] = adata.obs["day"].astype("category")
    problem = moscot_time.TemporalProblem(adata).prepare("day", joint_attr="X_pca")
    problem = problem.solve(epsilon=0.05, tau_a=0.8, tau_b=0.999)
    fitted = cells.copy()
    sj.tl.fit_energy(fitted, "day", coupling=sj.external.moscot.couplings(problem), growth="auto", **QUICK)
    for (t0, t1), solution in problem.solutions.items():
        rows = np.asarray(solution.a, dtype=np.float64)  # moscot's posterior marginals
        rate = np.log(rows / rows.mean()) / (t1 - t0)
        np.testing.assert_allclose(fitted.obs["jko_growth_coupled"][fitted.obs["day"] == t0], rate, atol=1e-6)


def test_low_rank_plans_are_never_formed(cells, monkeypatch):
    problem = solved(cells, rank=3, min_iterations=5, max_iterations=20)
    whole = {pair: np.asarray(s.transport_matrix) for pair, s in problem.solutions.items()}
    kind = type(next(iter(problem.solutions.values())))
    monkeypatch.setattr(kind, "transport_matrix", property(lambda self: pytest.fail("the plan was formed")))
    one, other = cells.copy(), cells.copy()
    sj.tl.fit_energy(one, "day", coupling=sj.external.moscot.couplings(problem), **QUICK)
    sj.tl.fit_energy(other, "day", coupling=whole, **QUICK)
    costs = [adata.uns["jko"]["couplings"]["cost"] for adata in (one, other)]
    np.testing.assert_allclose(*costs, rtol=1e-4)
    # The plan acts in float32.
    np.testing.assert_allclose(one.obsm["jko_velocity"], other.obsm["jko_velocity"], atol=1e-2)


def test_what_is_not_solved_is_said(cells):
    adata = cells.copy()
    adata.obs["day"] = adata.obs["day"].astype("category")
    problem = moscot_time.TemporalProblem(adata).prepare("day", joint_attr="X_pca")
    with pytest.raises(ValueError, match=r"has no solutions; run problem\.solve\(\) first"):
        sj.external.moscot.couplings(problem)


def test_couplings_of_other_cells_are_named(cells):
    couplings = sj.external.moscot.couplings(solved(cells, epsilon=0.1))
    other = cells.copy()
    other.obs_names = [f"other {i}" for i in range(other.n_obs)]
    with pytest.raises(ValueError, match=r"The rows of the coupling \(0, 1\) are not the cells of that time"):
        sj.tl.fit_energy(other, "day", coupling=couplings, **QUICK)


def test_push_and_pull_are_those_of_moscot(cells):
    """On moscot's own couplings: its push, its pull by Bayes' rule, and its tables of transitions."""
    adata = cells.copy()
    sj.tl.fit_energy(adata, "day", **QUICK)
    problem = solved(adata, epsilon=0.05)
    couplings = {pair: np.asarray(s.transport_matrix, dtype=np.float64) for pair, s in problem.solutions.items()}
    at = [(adata.obs["day"] == day).to_numpy() for day in (0, 1, 2)]
    first, last = problem.solutions[0.0, 1.0], problem.solutions[1.0, 2.0]

    chosen = at[0] & (adata.obs["fate"] == "fate 1").to_numpy()
    sj.tl.descendants(adata, chosen, couplings=couplings)
    mass = chosen[at[0]].astype(np.float32)
    for there, solution in zip(at[1:], (first, last), strict=True):
        mass = np.asarray(solution.push(mass, scale_by_marginals=True))
        np.testing.assert_allclose(adata.obs["jko_descendants"][there], mass / mass.sum(), atol=1e-6)

    chosen = at[2] & (adata.obs["fate"] == "fate 1").to_numpy()
    sj.tl.ancestors(adata, chosen, couplings=couplings)
    mass = chosen[at[2]].astype(np.float32)
    for there, solution in zip(at[1::-1], (last, first), strict=True):
        mass = np.asarray(solution.pull(mass, scale_by_marginals=True))
        np.testing.assert_allclose(adata.obs["jko_ancestors"][there], mass / mass.sum(), atol=1e-6)

    problem.adata.obs["fate"] = problem.adata.obs["fate"].astype("category")
    for forward in (True, False):
        table = problem.cell_transition(0.0, 1.0, "fate", "fate", forward=forward, key_added=None)
        ours = sj.tl.transition_table(adata, "fate", times=(0, 1), forward=forward, couplings=couplings)
        np.testing.assert_allclose(ours, table.loc[ours.index, ours.columns].astype(float), atol=1e-6)
