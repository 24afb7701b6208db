"""Couplings against a brute-force solver and their own invariants."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist

from scjko.core import couplings
from scjko.core.couplings import couple, exact


def dense(coupling):
    plan = np.zeros(coupling.shape)
    plan[coupling.source, coupling.target] = coupling.weight
    return plan


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
def test_the_plan_does_not_depend_on_the_units(rng, scale):
    x, y = rng.normal(size=(20, 3)), rng.normal(size=(25, 3))
    plain, scaled = exact(x, y), exact(scale * x, scale * y)
    np.testing.assert_allclose(dense(scaled), dense(plain), atol=1e-12)
    assert scaled.cost == pytest.approx(scale**2 * plain.cost, rel=1e-9)


def test_partners_are_the_means_over_the_plan(rng):
    x, y = rng.normal(size=(7, 2)), rng.normal(size=(11, 2))
    coupling = exact(x, y)
    plan = dense(coupling)
    np.testing.assert_allclose(coupling.partners(y), plan @ y / plan.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_allclose(coupling.transposed.partners(x), plan.T @ x / plan.sum(axis=0)[:, None], rtol=1e-12)


def test_identical_cells_are_coupled_at_no_cost():
    assert exact(np.ones((3, 2)), np.ones((5, 2))).cost == 0


def test_intervals_solved_side_by_side_come_in_order(rng):
    points = [rng.normal(size=(n, 2)) for n in (5, 40, 3, 20)]
    solved = []
    found = couple(points, on_solved=lambda: solved.append(1))
    assert len(solved) == 3
    for k, coupling in enumerate(found):
        np.testing.assert_array_equal(dense(coupling), dense(exact(points[k], points[k + 1])))


def test_an_unsolved_plan_is_an_error(rng, monkeypatch):
    monkeypatch.setattr(couplings, "MAX_ITERATIONS", 3)
    with pytest.warns(UserWarning, match="numItermax"), pytest.raises(RuntimeError, match="30 and 40 cells"):
        exact(rng.normal(size=(30, 2)), rng.normal(size=(40, 2)))
