"""The closed form against numpy's least squares."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import LinAlgError

from scjko.core.fitting.closed_form import (
    FLOOR,
    LOW,
    OWN,
    RELATIVE,
    RIDGES,
    Block,
    Ridge,
    accumulate,
    feature_scale,
    held_out_ridge,
    leave_one_out_ridge,
    solve,
)


@pytest.fixture
def rows(rng):
    """y (n, features, d), velocities, weights and a basis that mixes the first three features in time."""
    n = 60
    y = rng.normal(size=(n, 3 + 2, 2))
    basis = np.eye(2)[rng.integers(2, size=n)]
    return y, rng.normal(size=(n, 2)), rng.uniform(0.1, 1, size=n), basis


def normal_equations(y, velocity, weight, basis, n_shared, kinds=None):
    """Of forces y (n, n_features + n_shared, d) that are written out, each with a scale of its own unless said."""
    forces = np.concatenate([y, velocity[:, None]], axis=1)

    def products(chosen):
        return np.einsum("n,nid,njd->ij", weight[chosen], forces[chosen], forces[chosen])

    kinds = np.full(y.shape[1], OWN) if kinds is None else np.asarray(kinds)
    return accumulate(products, weight, basis, n_shared=n_shared, n_dims=y.shape[2], kinds=kinds)


def dense(y, basis):
    """Every row written out: (n · d, mixed features + shared ones)."""
    mixed = np.einsum("nm,nid->nmid", basis, y[:, :3]).reshape(len(y), -1, 2)
    return np.concatenate([mixed, y[:, 3:]], axis=1).transpose(0, 2, 1).reshape(2 * len(y), -1)


def test_the_solution_is_that_of_least_squares_with_its_minus(rows):
    y, velocity, weight, basis = rows
    solution = solve(normal_equations(y, velocity, weight, basis, 2), Ridge(1e-12))
    root = np.sqrt(np.repeat(weight, 2))
    expected, *_ = np.linalg.lstsq(root[:, None] * dense(y, basis), -root * velocity.ravel(), rcond=None)
    np.testing.assert_allclose(solution.theta, expected, rtol=1e-6)
    assert solution.degrees_of_freedom == pytest.approx(8, rel=1e-6)


@pytest.mark.parametrize("ridge", [Ridge(1e-3), Ridge(1e-6, 1e-2)])
def test_coefficients_that_share_no_row_are_solved_apart_and_come_out_as_together(rows, ridge):
    """Intervals with coefficients of their own would otherwise cost the cube of their number."""
    y, velocity, weight, basis = rows
    ends = np.repeat(basis, 2, axis=1) * np.tile(np.random.default_rng(1).uniform(1, 2, (len(y), 1)), (1, 4))
    ends = ends[:, [0, 2, 1, 3]]  # columns 0 and 2 are mixed by some rows, 1 and 3 by the others
    normal = normal_equations(y, velocity, weight, ends, 0)
    assert [block.columns.tolist() for block in normal.blocks] == [
        [*range(5), *range(10, 15)],
        [*range(5, 10), *range(15, 20)],
    ]
    written_out = np.einsum("nm,nid->nmid", ends, y).reshape(len(y), -1, 2)
    np.testing.assert_allclose(normal.gram, np.einsum("n,nid,njd->ij", weight, written_out, written_out) / weight.sum())
    together = replace(normal, blocks=(Block(np.arange(20), normal.gram),))
    apart, expected = solve(normal, ridge), solve(together, ridge)
    np.testing.assert_allclose(apart.theta, expected.theta, rtol=1e-9, atol=1e-9 * abs(expected.theta).max())
    assert apart.ridge == expected.ridge == ridge.strength
    assert apart.condition_number == pytest.approx(expected.condition_number, rel=1e-6)
    assert apart.degrees_of_freedom == pytest.approx(expected.degrees_of_freedom, rel=1e-6)


def brute_force(halves, ridges, kind):
    """The strength and the relative ridge of low monomials that do best across halves, solved one by one."""
    scale = feature_scale(np.mean([half.diagonal for half in halves], axis=0), kind)
    errors = {}
    for low in RELATIVE if (kind == LOW).any() else (1.0,):
        for strength in ridges:
            penalty = np.diag(strength * scale**2 * np.where(kind == LOW, low, 1.0))
            total = 0.0
            for one, other in (halves, halves[::-1]):
                theta = -np.linalg.solve(one.gram + penalty, one.moment)
                total += theta @ other.gram @ theta + 2 * other.moment @ theta + other.square
            errors[float(strength), low] = total
    return errors


@pytest.mark.parametrize("kinds", [[OWN] * 30, [LOW] * 5 + [0] * 25, [LOW] * 3 + [OWN] * 7 + [1] * 20])
def test_the_ridge_is_that_of_the_smallest_error_across_halves(rng, kinds):
    theta, kind = rng.normal(size=30) * (np.arange(30) < 8), np.array(kinds)
    size = np.where(kind >= 0, rng.uniform(0.05, 1, 30), 1.0)
    halves = []
    for _ in range(2):
        y = rng.normal(size=(60, 30, 1)) * size[:, None]
        velocity = -(y[..., 0] @ theta)[:, None] + 0.7 * rng.normal(size=(60, 1))
        halves.append(normal_equations(y, velocity, np.ones(60), np.ones((60, 1)), 0, kinds))
    errors = brute_force(halves, RIDGES, halves[0].kind)
    chosen = held_out_ridge(halves)
    assert errors[chosen.ridge] == pytest.approx(min(errors.values()), rel=1e-6)
    assert chosen.left == pytest.approx(min(errors.values()) / (halves[0].square + halves[1].square), rel=1e-6)
    assert RIDGES[0] < chosen.ridge.strength < RIDGES[-1]


def test_the_ridge_of_several_halvings_is_that_of_the_smallest_sum_of_errors(rng):
    theta, halvings = rng.normal(size=30) * (np.arange(30) < 8), []
    for noise in (0.3, 3.0):  # the one asks for less, the other for more
        pair = []
        for _ in range(2):
            y = rng.normal(size=(60, 30, 1))
            velocity = -(y[..., 0] @ theta)[:, None] + noise * rng.normal(size=(60, 1))
            pair.append(normal_equations(y, velocity, np.ones(60), np.ones((60, 1)), 0, [0] * 30))
        halvings.append(pair)
    alone = [held_out_ridge(pair).ridge.strength for pair in halvings]
    assert alone[0] <= held_out_ridge(*halvings).ridge.strength <= alone[1] and alone[0] < alone[1]
    twice, once = held_out_ridge(halvings[0], halvings[0]), held_out_ridge(halvings[0])
    assert twice.ridge == once.ridge and twice.left == pytest.approx(once.left)


def test_of_equal_errors_the_strongest_ridge_is_chosen(rng):
    """Where nothing moves all are the same: nothing asks for coefficients of any size."""
    y = rng.normal(size=(20, 3, 1))
    half = normal_equations(y, np.zeros((20, 1)), np.ones(20), np.ones((20, 1)), 0)
    assert held_out_ridge([half, half]).ridge.strength == RIDGES[-1]


def test_automatic_ridge_is_near_the_best_for_unseen_rows(rng):
    """Many noisy features, few rows: what either half says of the other, or rows left out one by one."""
    theta, n, p = rng.normal(size=40) * (np.arange(40) < 5), 100, 40
    y, unseen = rng.normal(size=(n, p, 1)), rng.normal(size=(2000, p, 1))
    velocity = -(y[..., 0] @ theta)[:, None] + 2 * rng.normal(size=(n, 1))

    def normal(rows):
        return normal_equations(y[rows], velocity[rows], np.ones(n)[rows], np.ones((n, 1))[rows], 0)

    whole = normal(slice(None))

    def error(ridge):
        return np.mean((unseen[..., 0] @ (solve(whole, ridge).theta - theta)) ** 2)

    errors = [error(Ridge(ridge)) for ridge in RIDGES]
    halved = held_out_ridge([normal(slice(0, 50)), normal(slice(50, None))])
    for chosen in (halved, leave_one_out_ridge(whole)):
        assert error(chosen.ridge) <= 1.3 * min(errors)
        assert error(chosen.ridge) < 0.9 * errors[0]


def test_the_leave_one_out_error_is_that_of_generalised_cross_validation(rng):
    """‖v − Hv‖² / n over (1 − tr H / n)², with the hat matrix H written out."""
    n, p = 80, 12
    y = rng.normal(size=(n, p, 1))
    velocity = y[..., 0] @ rng.normal(size=(p, 1)) + rng.normal(size=(n, 1))
    normal = normal_equations(y, velocity, np.ones(n), np.ones((n, 1)), 0)
    assert normal.n_rows == n
    scaled = y[..., 0] / np.sqrt(np.mean(y[..., 0] ** 2, axis=0))
    errors = []
    for ridge in RIDGES:
        hat = scaled @ np.linalg.solve(scaled.T @ scaled + n * ridge * np.eye(p), scaled.T)
        errors.append(np.sum((velocity - hat @ velocity) ** 2) / (1 - np.trace(hat) / n) ** 2)
    chosen = leave_one_out_ridge(normal)
    assert chosen.ridge == (RIDGES[np.argmin(errors)], 1.0)
    assert chosen.left == pytest.approx(min(errors) / np.sum(velocity**2), rel=1e-6)


def test_a_family_has_one_scale_and_others_their_own():
    diagonal = np.array([4.0, 1.0, 9.0, 16.0, 1e-8, 25.0])
    kind = np.array([LOW, OWN, 0, 0, 0, 3])
    np.testing.assert_allclose(feature_scale(diagonal, kind), [2, 1, 4, 4, 4, 5])
    np.testing.assert_allclose(feature_scale(diagonal), [2, 1, 3, 4, FLOOR * 5, 5])
    np.testing.assert_allclose(feature_scale(np.zeros(3)), 1)


def test_a_centre_that_a_single_cell_feels_is_not_fitted_to_its_noise(rng):
    """Scaled by its own size it would weigh as much as one that all feel, and its coefficient would be huge."""
    n = 200
    y = rng.normal(size=(n, 2, 1))
    y[:, 1] = 0
    y[0, 1] = 1e-3
    velocity = -y[:, 0] + 0.5 * rng.normal(size=(n, 1))
    velocity[0] = 5.0
    of = {
        name: solve(normal_equations(y, velocity, np.ones(n), np.ones((n, 1)), 0, kinds), Ridge(1e-4)).theta
        for name, kinds in (("own", [OWN, OWN]), ("family", [0, 0]))
    }
    assert abs(of["family"][1]) < 1.0 < abs(of["own"][1])
    assert of["family"][0] == pytest.approx(1, abs=0.1)


def test_families_of_different_times_have_scales_of_their_own(rng):
    """Coefficients of the same centre in different intervals do not set each other's scale."""
    n = 40
    y, basis = rng.normal(size=(n, 3, 1)), np.eye(2)[np.arange(n) % 2]
    normal = normal_equations(y, rng.normal(size=(n, 1)), np.ones(n), basis, 0, [LOW, 0, 0])
    assert normal.kind.tolist()[0] == normal.kind.tolist()[3] == LOW
    first, second = normal.kind[1:3], normal.kind[4:6]
    assert len(set(first)) == len(set(second)) == 1 and first[0] != second[0]
    assert (normal.kind[[1, 2, 4, 5]] >= 0).all()


def test_shared_features_keep_their_family(rng):
    n = 30
    y, basis = rng.normal(size=(n, 3, 1)), np.eye(2)[np.arange(n) % 2]
    normal = normal_equations(y, rng.normal(size=(n, 1)), np.ones(n), basis, 1, [0, 0, 1])
    assert len(normal.kind) == 5
    assert normal.kind[-1] not in normal.kind[:-1]


def test_low_monomials_are_shrunk_less(rows):
    """By the relative ridge: (A + λ diag(s² · low))⁻¹ b."""
    y, velocity, weight, _ = rows
    normal = normal_equations(y, velocity, weight, np.ones((60, 1)), 0, [LOW, LOW, OWN, OWN, OWN])
    scale = np.diag(normal.gram) * np.array([1e-2, 1e-2, 1, 1, 1])
    expected = -np.linalg.solve(normal.gram + 0.5 * np.diag(scale), normal.moment)
    np.testing.assert_allclose(solve(normal, Ridge(0.5, 1e-2)).theta, expected, rtol=1e-9)


def test_singular_equations_are_an_error_that_says_what_to_do(rows):
    y, velocity, weight, basis = rows
    y[:, 1] = y[:, 0]
    normal = normal_equations(y, velocity, weight, basis, 2)
    with pytest.raises(LinAlgError, match="ridge='auto'"):
        solve(normal, Ridge(1e-300))
    assert np.isfinite(solve(normal, held_out_ridge([normal, normal]).ridge).theta).all()


def test_features_that_overflow_are_an_error(rows):
    y, velocity, weight, basis = rows
    y[3, 2, 1] = np.inf
    with pytest.raises(FloatingPointError, match="lower degree"):
        normal_equations(y, velocity, weight, basis, 2)
