"""The closed form against numpy's least squares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from scjko.core import linear
from scjko.core.fitting.closed_form import Block, accumulate, solve


@pytest.fixture
def rows(rng):
    """y (n, features, d), velocities, weights and a basis that mixes the first three features in time."""
    n = 60
    y = rng.normal(size=(n, 3 + 2, 2))
    basis = np.eye(2)[rng.integers(2, size=n)]
    return y, rng.normal(size=(n, 2)), rng.uniform(0.1, 1, size=n), basis


def normal_equations(y, velocity, weight, basis, n_features, n_shared):
    """Of forces y (n, n_features + n_shared, d) that are written out."""
    forces = np.concatenate([y, velocity[:, None]], axis=1)

    def products(chosen):
        return np.einsum("n,nid,njd->ij", weight[chosen], forces[chosen], forces[chosen])

    sizes = {"n_features": n_features, "n_shared": n_shared, "n_dims": y.shape[2]}
    return accumulate(products, weight, basis, **sizes)


def dense(y, basis):
    """Every row written out: (n · d, mixed features + shared ones)."""
    mixed = np.einsum("nm,nid->nmid", basis, y[:, :3]).reshape(len(y), -1, 2)
    return np.concatenate([mixed, y[:, 3:]], axis=1).transpose(0, 2, 1).reshape(2 * len(y), -1)


def test_the_solution_is_that_of_least_squares_with_its_minus(rows):
    y, velocity, weight, basis = rows
    solution = solve(normal_equations(y, velocity, weight, basis, 3, 2), 1e-12)
    root = np.sqrt(np.repeat(weight, 2))
    expected, *_ = np.linalg.lstsq(root[:, None] * dense(y, basis), -root * velocity.ravel(), rcond=None)
    np.testing.assert_allclose(solution.theta, expected, rtol=1e-6)
    assert solution.degrees_of_freedom == pytest.approx(8, rel=1e-6)


@pytest.mark.parametrize("ridge", [1e-3, "auto"])
def test_coefficients_that_share_no_row_are_solved_apart_and_come_out_as_together(rows, ridge):
    """Intervals with coefficients of their own would otherwise cost the cube of their number."""
    y, velocity, weight, basis = rows
    ends = np.repeat(basis, 2, axis=1) * np.tile(np.random.default_rng(1).uniform(1, 2, (len(y), 1)), (1, 4))
    ends = ends[:, [0, 2, 1, 3]]  # columns 0 and 2 are mixed by some rows, 1 and 3 by the others
    normal = normal_equations(y, velocity, weight, ends, 5, 0)
    assert [block.columns.tolist() for block in normal.blocks] == [
        [*range(5), *range(10, 15)],
        [*range(5, 10), *range(15, 20)],
    ]
    written_out = np.einsum("nm,nid->nmid", ends, y).reshape(len(y), -1, 2)
    np.testing.assert_allclose(normal.gram, np.einsum("n,nid,njd->ij", weight, written_out, written_out) / weight.sum())
    together = replace(normal, blocks=(Block(np.arange(20), normal.gram),))
    apart, expected = solve(normal, ridge), solve(together, ridge)
    np.testing.assert_allclose(apart.theta, expected.theta, rtol=1e-9, atol=1e-9 * abs(expected.theta).max())
    assert apart.ridge == expected.ridge
    assert apart.condition_number == pytest.approx(expected.condition_number, rel=1e-6)
    assert apart.degrees_of_freedom == pytest.approx(expected.degrees_of_freedom, rel=1e-6)


def test_without_its_last_coefficient_a_problem_is_that_of_the_others(rows):
    y, velocity, weight, basis = rows
    shorter = normal_equations(y, velocity, weight, basis, 3, 2).without_last()
    expected = normal_equations(y[:, :4], velocity, weight, basis, 3, 1)
    np.testing.assert_allclose(shorter.gram, expected.gram, rtol=1e-12)
    np.testing.assert_allclose(shorter.moment, expected.moment, rtol=1e-12)


def test_automatic_ridge_is_near_the_best_for_unseen_rows(rng):
    """Many noisy features, few rows: what generalised cross-validation chooses is close to the best of all."""
    theta, n, p = rng.normal(size=40) * (np.arange(40) < 5), 100, 40
    y, unseen = rng.normal(size=(n, p, 1)), rng.normal(size=(2000, p, 1))
    velocity = -(y[..., 0] @ theta)[:, None] + 2 * rng.normal(size=(n, 1))
    normal = normal_equations(y, velocity, np.ones(n), np.ones((n, 1)), p, 0)

    def error(ridge):
        return np.mean((unseen[..., 0] @ (solve(normal, ridge).theta - theta)) ** 2)

    errors = [error(ridge) for ridge in linear.RIDGES]
    assert error("auto") <= 1.3 * min(errors)
    assert error("auto") < 0.9 * errors[0]


def test_singular_equations_are_an_error_that_says_what_to_do(rows):
    y, velocity, weight, basis = rows
    y[:, 1] = y[:, 0]
    normal = normal_equations(y, velocity, weight, basis, 3, 2)
    with pytest.raises(LinAlgError, match="ridge='auto'"):
        solve(normal, 1e-300)
    assert np.isfinite(solve(normal, "auto").theta).all()


def test_features_that_overflow_are_an_error(rows):
    y, velocity, weight, basis = rows
    y[3, 2, 1] = np.inf
    with pytest.raises(FloatingPointError, match="lower degree"):
        normal_equations(y, velocity, weight, basis, 3, 2)
