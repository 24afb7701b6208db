"""Couplings against brute force, their own invariants and their duals."""

from __future__ import annotations

import threading
from functools import partial
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist

from scjko.core.transport import (
    Coupling,
    OperatorCoupling,
    batched,
    couple,
    exact,
    sinkhorn,
)
from scjko.core.transport.programs import simplex as module


def dense(coupling):
    plan = np.zeros(coupling.shape)
    plan[coupling.source, coupling.target] = coupling.weight
    return plan


def weighted_clouds(rng, n=40, m=30):
    """Two snapshots in coordinates of some hundreds, with unequal weights, a few of them zero."""
    x, y = 100 * rng.normal(size=(n, 3)), 100 * rng.normal(size=(m, 3)) + 50
    a, b = rng.uniform(size=n), rng.uniform(size=m)
    a[[0, 5]] = b[3] = 0
    return x, y, a, b


def test_a_few_cells_are_coupled_as_the_best_of_all_permutations_says(rng):
    for _ in range(5):
        x, y = rng.normal(size=(6, 2)), rng.normal(size=(6, 2))
        costs = [np.sum((x - y[list(order)]) ** 2) / 6 for order in permutations(range(6))]
        assert exact(x, y).cost == pytest.approx(min(costs), rel=1e-12)


def test_equal_sizes_give_the_optimal_assignment(rng):
    x, y = rng.normal(size=(30, 4)), rng.normal(size=(30, 4))
    cost = cdist(x, y, "sqeuclidean")
    rows, columns = linear_sum_assignment(cost)
    coupling = exact(x, y)
    assert coupling.cost == pytest.approx(cost[rows, columns].mean(), rel=1e-9)
    np.testing.assert_array_equal(coupling.target[np.argsort(coupling.source)], columns)


def test_unequal_sizes_give_the_optimum_of_the_linear_program(rng):
    n, m = 7, 11
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + 1
    cost = cdist(x, y, "sqeuclidean")
    marginals = np.vstack([np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))])
    optimum = linprog(cost.ravel(), A_eq=marginals, b_eq=np.r_[np.full(n, 1 / n), np.full(m, 1 / m)]).fun
    coupling = exact(x, y)
    assert coupling.cost == pytest.approx(optimum, rel=1e-8)
    assert len(coupling.weight) <= n + m - 1
    np.testing.assert_allclose(dense(coupling).sum(axis=1), 1 / n, atol=1e-12)
    np.testing.assert_allclose(dense(coupling).sum(axis=0), 1 / m, atol=1e-12)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_coupling_does_not_depend_on_the_units(rng, scale):
    x, y = rng.normal(size=(20, 3)), rng.normal(size=(25, 3))
    plain, scaled = exact(x, y), exact(scale * x, scale * y)
    np.testing.assert_allclose(dense(scaled), dense(plain), atol=1e-12)
    assert scaled.cost == pytest.approx(scale**2 * plain.cost, rel=1e-9)


def test_a_coupling_known_by_its_action_says_the_same_as_its_matrix(rng):
    x, y = 100 + rng.normal(size=(7, 2)), 100 + rng.normal(size=(11, 2))
    plan = rng.random((7, 11))  # of any mass
    row, column = np.indices(plan.shape).reshape(2, -1)
    matrix = Coupling.of(row, column, plan.ravel(), x, y)
    action = OperatorCoupling.of(lambda z: plan @ z, lambda z: plan.T @ z, x, y)
    assert action.cost == pytest.approx(matrix.cost, rel=1e-9)
    assert action.n_pairs == matrix.n_pairs == 77
    for one, other, targets in ((matrix, action, y), (matrix.transposed, action.transposed, x)):
        assert one.shape == other.shape
        np.testing.assert_allclose(other.source_weight, one.source_weight, rtol=1e-12)
        np.testing.assert_allclose(other.target_weight, one.target_weight, rtol=1e-12)
        np.testing.assert_allclose(other.partners(targets), one.partners(targets), rtol=1e-12)


def test_partners_are_the_means_over_the_coupling(rng):
    x, y = rng.normal(size=(7, 2)), rng.normal(size=(11, 2))
    coupling = exact(x, y)
    plan = dense(coupling)
    np.testing.assert_allclose(coupling.partners(y), plan @ y / plan.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(coupling.transposed.partners(x), plan.T @ x / plan.sum(axis=0)[:, None], rtol=1e-12)


def test_identical_cells_are_coupled_at_no_cost():
    coupling = exact(np.ones((3, 2)), np.ones((5, 2)))
    assert coupling.cost == 0 == coupling.bound


def test_both_marginals_are_sums_of_the_matrix(rng):
    coupling = exact(*weighted_clouds(rng))
    np.testing.assert_allclose(coupling.source_weight, dense(coupling).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(coupling.target_weight, dense(coupling).sum(axis=0), rtol=1e-12)
    np.testing.assert_array_equal(coupling.transposed.source_weight, coupling.target_weight)


def test_exact_duals_are_feasible_tight_on_the_support_and_sum_to_the_cost(rng):
    x, y, a, b = weighted_clouds(rng)
    coupling = exact(x, y, a, b)
    (f, g), cost = coupling.duals, cdist(x, y, "sqeuclidean")
    slack = (cost - f[:, None] - g) / cost.max()
    assert slack.min() > -1e-14  # rounding of costs that are divided by the largest, and multiplied again
    # The simplex takes reduced costs below some 1e-12 of the largest cost for zero.
    np.testing.assert_allclose(slack[coupling.source, coupling.target], 0, atol=1e-11)
    assert a / a.sum() @ f + b / b.sum() @ g == pytest.approx(coupling.cost, rel=1e-9)
    assert 0 <= coupling.bound < 1e-12


def test_duals_at_cells_without_mass_are_as_large_as_they_can_be(rng):
    """A cell without mass still has a potential: the c-transform of those across."""
    x, y, a, b = weighted_clouds(rng)
    (f, g), cost = exact(x, y, a, b).duals, cdist(x, y, "sqeuclidean")
    np.testing.assert_allclose(f, (cost - g).min(axis=1), atol=1e-9 * cost.max())
    np.testing.assert_allclose(g, (cost - f[:, None]).min(axis=0), atol=1e-9 * cost.max())


def test_transposing_swaps_the_duals_and_keeps_cost_and_bound(rng):
    coupling = exact(*weighted_clouds(rng))
    turned = coupling.transposed
    assert turned.shape == (30, 40)
    assert turned.duals[0] is coupling.duals[1] and turned.duals[1] is coupling.duals[0]
    assert (turned.cost, turned.bound) == (coupling.cost, coupling.bound)
    for name in ("source", "target", "weight"):
        np.testing.assert_array_equal(getattr(turned.transposed, name), getattr(coupling, name))


@pytest.mark.usefixtures("mixed_ranks")
def test_the_bound_of_sinkhorn_holds_and_shrinks_with_epsilon(rng):
    x, y, a, b = weighted_clouds(rng)
    cost, bounds = cdist(x, y, "sqeuclidean"), []
    for epsilon in (0.1, 0.03, 0.01):
        coupling = sinkhorn(x, y, a, b, epsilon=epsilon)
        f, g = coupling.duals
        assert (f[:, None] + g - cost).max() < 1e-14 * cost.max()
        # Of the optimum for its own marginals, which are off by the tolerance of the solver.
        optimum = exact(x, y, coupling.source_weight, coupling.target_weight).cost
        assert optimum < coupling.cost < (1 + coupling.bound) * optimum
        bounds.append(coupling.bound)
    assert bounds[0] > bounds[1] > bounds[2] > 0


def test_couplings_without_duals_claim_no_bound(rng):
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(30, 2))
    coupling = batched(x, y, size=10)
    assert coupling.duals is None and coupling.bound is None and coupling.transposed.duals is None


def test_intervals_solved_side_by_side_come_in_order(rng):
    points = [rng.normal(size=(n, 2)) for n in (5, 40, 3, 20)]
    solved = []
    found = couple(points, on_solved=lambda: solved.append(1))
    assert len(solved) == 3
    for k, coupling in enumerate(found):
        np.testing.assert_array_equal(dense(coupling), dense(exact(points[k], points[k + 1])))


def test_an_unsolved_program_is_an_error(rng, monkeypatch):
    monkeypatch.setattr(module, "MAX_ITERATIONS", 3)
    with pytest.warns(UserWarning, match="numItermax"), pytest.raises(RuntimeError, match="30 and 40 cells"):
        exact(rng.normal(size=(30, 2)), rng.normal(size=(40, 2)))


@pytest.mark.usefixtures("mixed_ranks")
def test_weights_are_the_marginals(rng):
    x, y = rng.normal(size=(20, 2)), rng.normal(size=(30, 2))
    a, b = rng.uniform(size=20), rng.uniform(size=30)
    a[3] = 0
    for solve in (exact, partial(sinkhorn, epsilon=0.05)):
        plan = dense(solve(x, y, a, b))
        # Sinkhorn stops at a marginal error of 1e-3.
        np.testing.assert_allclose(plan.sum(axis=1), a / a.sum(), atol=2e-3)
        np.testing.assert_allclose(plan.sum(axis=0), b / b.sum(), atol=2e-3)


def test_splitting_a_cell_splits_its_weight(rng):
    x, y = rng.normal(size=(6, 2)), rng.normal(size=(9, 2))
    split = exact(x[[0, 0, 1, 2, 3, 4, 5]], y, np.array([0.5, 0.5, 1, 1, 1, 1, 1.0]))
    assert split.cost == pytest.approx(exact(x, y).cost, rel=1e-9)


@pytest.mark.usefixtures("mixed_ranks")
def test_sinkhorn_comes_close_to_exact_as_epsilon_falls(rng):
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(50, 2)) + 1
    optimum = exact(x, y).cost
    costs = [sinkhorn(x, y, epsilon=epsilon).cost for epsilon in (1.0, 0.1, 0.01)]
    assert costs[0] > costs[1] > costs[2] > 0.999 * optimum
    assert costs[2] < 1.05 * optimum


@pytest.mark.usefixtures("mixed_ranks")
def test_sinkhorn_that_does_not_converge_is_an_error(rng):
    with pytest.raises(RuntimeError, match="larger epsilon"):
        sinkhorn(rng.normal(size=(40, 2)), rng.normal(size=(50, 2)) + 3, epsilon=1e-6)


def test_batches_cover_every_cell_and_sum_to_one(rng):
    x, y = rng.normal(size=(50, 2)), rng.normal(size=(75, 2))
    coupling = batched(x, y, size=20, random_state=0)
    plan = dense(coupling)
    assert plan.sum() == pytest.approx(1)
    np.testing.assert_allclose(plan.sum(axis=1), 1 / 50, rtol=1e-9)
    assert (plan.sum(axis=0) > 0).all()
    assert exact(x, y).cost < coupling.cost
    np.testing.assert_array_equal(dense(batched(x, y, size=20, random_state=0)), plan)
    np.testing.assert_allclose(dense(batched(x, y, size=75)), dense(exact(x, y)), atol=1e-12)


def test_an_interrupt_does_not_wait_for_solvers_at_work(rng):
    started, release = threading.Event(), threading.Event()

    def slow(*arguments):
        started.set()
        release.wait(30)
        return exact(*arguments)

    def interrupted(*arguments):
        started.wait(30)
        raise KeyboardInterrupt

    solvers = iter([slow, interrupted])
    with pytest.raises(KeyboardInterrupt):
        couple([rng.normal(size=(5, 2))] * 3, solve=lambda *arguments: next(solvers)(*arguments))
    assert not release.is_set()
    release.set()
