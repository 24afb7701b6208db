"""Which products of coordinates a linear potential asks for, against loops over pairs and potentials that are known."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.energy.features import exponents, has_all, linear_potential
from scjko.core.fitting.fit import fit
from scjko.core.fitting.parametrizations import Linear
from scjko.core.fitting.problem import Problem
from scjko.core.fitting.screening import KINDS, missing_products, significance
from scjko.core.timeline import Timeline
from scjko.core.transport import couple
from scjko.core.variation import Separate, Smooth, Static


def problem_of(rng, n, n_dims, *, anchors=(0.0,), variation=None):
    """Two intervals of ``n`` points each, or four ends of intervals, with skewed coordinates and uneven weights."""
    interval, anchor = (np.tile(a.ravel(), n) for a in np.meshgrid([0, 1], anchors))
    z = rng.gamma(4.0, 0.5, size=(len(anchor), n_dims)) - 2
    return Problem(
        z=z.astype(np.float32),
        inputs=(variation or Static()).inputs(Timeline(np.arange(3.0)), interval, anchor, anchors),
        velocity=rng.normal(size=z.shape),
        weight=rng.uniform(0.5, 1.5, size=len(z)),
        interval=interval,
        anchor=anchor,
        pace=np.ones(len(z)),
        score=np.zeros((len(z), 0, n_dims)),
    )


@pytest.mark.parametrize("variation", [Static(), Separate(), Smooth()], ids=["static", "separate", "smooth"])
@pytest.mark.parametrize(("a", "b"), KINDS)
def test_matrix_products_are_the_sums_over_cells_of_every_pair(rng, a, b, variation):
    problem = problem_of(rng, 6, 4, anchors=(0.0, 1.0), variation=variation)
    residual, z = rng.normal(size=problem.z.shape), problem.z.astype(np.float64)
    found = significance(problem, residual, a, b)
    for i in range(4):
        for j in set(range(4)) - {i}:
            # The force of the product, written as the derivatives along its two coordinates.
            term = a * z[:, i] ** (a - 1) * z[:, j] ** b * residual[:, i]
            term += b * z[:, i] ** a * z[:, j] ** (b - 1) * residual[:, j]
            ratios = []
            for told in problem.inputs.T:
                pushed = problem.weight * term * told
                ends = [pushed[(problem.interval == k) & (problem.anchor == end)] for k in (0, 1) for end in (0, 1)]
                ratios.append(abs(pushed.sum()) / sum(np.sqrt(np.sum(part**2)) for part in ends))
            assert found[i, j] == pytest.approx(max(ratios), rel=1e-5)


def test_noise_asks_for_hardly_anything(rng):
    """Noise whose size differs from cell to cell and along coordinates: of 100 such fits one chose a product."""
    asked = []
    for _ in range(20):
        problem = problem_of(rng, 100, 15)
        noise = rng.normal(size=problem.z.shape) * np.exp(problem.z[:, :1]) * 2.0 ** -np.arange(15)
        asked.append(len(missing_products(problem, noise, (), 100)))
    assert np.count_nonzero(asked) <= 2


def test_rounding_asks_for_nothing(rng):
    problem = problem_of(rng, 100, 15)
    push = 1e-7 * problem.z * problem.z[:, ::-1]
    assert missing_products(problem, push, (), 100) == ()
    assert missing_products(problem, 1e5 * push, (), 100) != ()


def test_a_product_of_one_interval_is_found_with_what_it_contains(rng):
    """Its coefficients in the two intervals cancel: a potential constant in time has no use for it."""
    wanted = {
        (2, 1): tuple(2 * (k == 3) + (k == 7) for k in range(12)),
        (1, 1): tuple(int(k in (3, 7)) for k in range(12)),
    }
    for variation in (Static(), Separate()):
        problem = problem_of(rng, 300, 12, variation=variation)
        z = problem.z.astype(np.float64)
        residual = rng.normal(size=z.shape)
        sign = np.where(problem.interval == 0, 1.0, -1.0)
        residual[:, 3] += sign * 2 * z[:, 3] * z[:, 7]
        residual[:, 7] += sign * z[:, 3] ** 2
        found = missing_products(problem, residual, (), 100)
        assert wanted[2, 1] not in found if variation.static else set(wanted.values()) <= set(found)
    assert missing_products(problem, residual, (), 1) == found[:1]
    assert not set(missing_products(problem, residual, found, 100)) & set(found)


def test_a_sparse_potential_is_recovered_where_not_all_products_fit(rng):
    """V = ½‖x‖² + x₀² x₅ + x₃ x₈² / 2 in fourteen dimensions, of which a default potential has no cubic products.

    Once they are in, rounding is left, which asks for no more, whatever the unit of time: here velocities are large.
    """
    x = rng.uniform(-1, 1, size=(400, 14))
    slope = x.copy()
    slope[:, 0] += 2 * x[:, 0] * x[:, 5]
    slope[:, 5] += x[:, 0] ** 2
    slope[:, 3] += x[:, 8] ** 2 / 2
    slope[:, 8] += x[:, 3] * x[:, 8]
    points, timeline = [x, x - 0.01 * slope], Timeline(np.array([0.0, 1e-5]))
    options = {"scheme": "explicit", "time_varying": False}
    # A ridge far below what is sought: one chosen on halves, whose cells are not the same, would shrink by as much as
    # their sampling asks for.
    fitted = fit(points, couple(points), timeline, parametrization=Linear(n_centers=0, ridge=1e-12), **options)
    default = linear_potential(x, degree=None, n_centers=0, random_state=0)[0].exponents
    added = fitted.energy.potential_term.model.exponents[len(default) :]
    cubic = {tuple(2 * (k == i) + (k == j) for k in range(14)) for i, j in ((0, 5), (8, 3))}
    assert set(added) == cubic
    assert fitted.losses[-1] < 1e-10
    np.testing.assert_allclose(fitted.energy.gradient(x, 0.0), 1000 * slope, atol=0.1)
    # A degree that is asked for is what one gets.
    asked = fit(points, couple(points), timeline, parametrization=Linear(degree=2, n_centers=0), **options)
    assert asked.energy.potential_term.model.exponents == exponents(14, 2)
    assert asked.losses[-1] > 1e-3


def test_up_to_eight_dimensions_a_potential_has_them_all():
    assert has_all(8) and not has_all(9)
    for n_dims in (2, 8, 9):
        model, _ = linear_potential(np.ones((5, n_dims)), degree=None, n_centers=0, random_state=0)
        assert (set(model.exponents) >= set(exponents(n_dims, 4))) == has_all(n_dims)
