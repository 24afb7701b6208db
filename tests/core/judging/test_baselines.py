"""Baselines against loops and direct solves."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from scjko.core.judging import baselines
from scjko.core.judging.baselines import (
    BANDWIDTHS,
    RIDGES,
    Cloud,
    best_settings,
    kernel_ridge,
    last_mean_shift,
    mean_shift,
    midpoint,
    mixture,
    transport,
)
from scjko.core.transport import exact


def test_transport_is_the_mean_displacement_of_the_nearest_cells(rng):
    source, target, x = rng.normal(size=(20, 3)), rng.normal(size=(30, 3)), rng.normal(size=(7, 3))
    coupling = exact(source, target)
    plan = np.zeros((20, 30))
    plan[coupling.source, coupling.target] = coupling.weight
    for n_neighbours in (1, 5):
        for here, moved in zip(x, transport(x, source, target, coupling, n_neighbours), strict=True):
            nearest = np.argsort(np.linalg.norm(source - here, axis=1))[:n_neighbours]
            steps = [plan[i] @ target / plan[i].sum() - source[i] for i in nearest]
            np.testing.assert_allclose(moved, here + np.mean(steps, axis=0))


def test_few_cells_are_all_the_nearest(rng):
    source, target = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    moved = transport(np.zeros((1, 2)), source, target, exact(source, target), 5)
    np.testing.assert_allclose(moved[0], (target - source).mean(axis=0))


def test_the_midpoint_of_a_shift_is_half_a_shift(rng):
    source = rng.normal(size=(10, 2))
    target = source + [4.0, 0.0]
    cloud = midpoint(source, target, exact(source, target), 0.25)
    np.testing.assert_allclose(np.sort(cloud.points, axis=0), np.sort(source + [1.0, 0.0], axis=0))
    assert cloud.weight.sum() == pytest.approx(1)


def test_a_mixture_weighs_by_nearness():
    one, two = Cloud(np.zeros((2, 1)), np.full(2, 0.5)), Cloud(np.ones((1, 1)), np.ones(1))
    mixed = mixture(one, two, 0.25)
    np.testing.assert_allclose(mixed.weight, [0.375, 0.375, 0.25])
    np.testing.assert_allclose(mixed.points[:, 0], [0, 0, 1])


def test_the_mean_shift_moves_all_by_the_mass_weighted_displacement(rng):
    source, target = rng.normal(size=(6, 2)), rng.normal(size=(9, 2))
    a, b = rng.uniform(size=6), rng.uniform(size=9)
    x = rng.normal(size=(4, 2))
    # Whatever the coupling, the mean displacement is the difference of the weighted means.
    shift = b @ target / b.sum() - a @ source / a.sum()
    np.testing.assert_allclose(mean_shift(x, source, target, exact(source, target, a, b)), x + shift)


def test_the_last_mean_shift_goes_on_at_the_same_velocity():
    before = Cloud(np.array([[0.0, 0.0], [4.0, 0.0]]), np.array([0.75, 0.25]))  # mean (1, 0)
    last = Cloud(np.array([[3.0, 2.0], [3.0, 6.0]]), np.array([0.5, 0.5]))  # mean (3, 4), two time units later
    moved = last_mean_shift(before, last, 2.0, 0.5)
    np.testing.assert_allclose(moved.points, last.points + [0.5, 1.0])
    np.testing.assert_array_equal(moved.weight, last.weight)


def _weighted_ridge(x, points, values, weight, bandwidth, ridge):
    """Kernel ridge regression as its textbook formula: k(x) (K + ridge W⁻¹)⁻¹ values."""
    gram = np.exp(-cdist(points, points, "sqeuclidean") / (2 * bandwidth**2))
    coefficients = np.linalg.solve(gram + ridge * np.diag(1 / weight), values)
    return np.exp(-cdist(x, points, "sqeuclidean") / (2 * bandwidth**2)) @ coefficients


def _parting(x):
    return np.stack([np.tanh(3 * x[:, 0]), np.zeros(len(x))], axis=1)


def _branching(rng, n=60):
    """Two branches that part: the force of a convex potential, so that the optimal coupling is the motion."""
    source = rng.normal(size=(n, 2))
    target = source + _parting(source)
    weight = rng.uniform(0.5, 1.5, n)
    return source, target, exact(source, target, weight, weight)


def test_kernel_ridge_is_the_direct_solve(rng, monkeypatch):
    monkeypatch.setattr(baselines, "BANDWIDTHS", (0.5,))
    monkeypatch.setattr(baselines, "RIDGES", (0.1,))
    monkeypatch.setattr(baselines, "BLOCK", 7)
    source, target, coupling = _branching(rng)
    x, mass = rng.normal(size=(20, 2)), coupling.source_weight
    displacement = coupling.partners(target) - source
    typical = np.sqrt(np.median(pdist(source, "sqeuclidean")))
    weight, shift = mass / mass.mean(), mass @ displacement
    expected = x + shift + _weighted_ridge(x, source, displacement - shift, weight, 0.5 * typical, 0.1)
    # Two solvers of one well-conditioned system, in float64.
    np.testing.assert_allclose(kernel_ridge(x, source, target, coupling), expected, rtol=1e-9)


def test_the_settings_have_the_smallest_error_left_out(rng):
    """The closed form of the leave-one-out error against fits without each cell in turn."""
    points, weight = rng.normal(size=(15, 2)), rng.uniform(0.2, 1.8, 15)
    values, typical = np.sin(2 * points) + 0.3 * rng.normal(size=(15, 2)), np.sqrt(np.median(pdist(points) ** 2))
    errors = {}
    for multiple in BANDWIDTHS:
        for ridge in RIDGES:
            left = [
                np.sum((values[i] - _weighted_ridge(points[[i]], *parts, multiple * typical, ridge)[0]) ** 2)
                for i in range(15)
                for parts in [[np.delete(each, i, axis=0) for each in (points, values, weight)]]
            ]
            errors[multiple * typical, ridge] = weight @ left
    assert best_settings(points, values, weight) == pytest.approx(min(errors, key=errors.get))


def test_kernel_ridge_follows_branches_that_the_mean_does_not(rng):
    source, target, coupling = _branching(rng, 200)
    x = rng.normal(size=(100, 2))
    truth = x + _parting(x)
    error, of_mean = (np.mean((f(x, source, target, coupling) - truth) ** 2) for f in (kernel_ridge, mean_shift))
    assert error < 0.05 * of_mean  # 0.01 with 200 noiseless cells


def test_kernel_ridge_without_structure_is_the_mean_shift():
    """Displacements that are the same everywhere, cells in one place, and two cells leave nothing to regress on."""
    x = np.linspace(-1, 1, 5)[:, None]
    shifted = np.arange(6.0)[:, None]
    cases = [(shifted, shifted + 2), (np.zeros((4, 1)), np.arange(4.0)[:, None]), (np.zeros((1, 1)), np.ones((1, 1)))]
    for source, target in cases:
        plan = (source, target, exact(source, target))
        np.testing.assert_allclose(kernel_ridge(x, *plan), mean_shift(x, *plan), atol=1e-12)


@pytest.mark.parametrize("n_dims", [1, 2])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_kernel_ridge_is_finite_and_moderate_on_awkward_cells(rng, n_dims, scale):
    """Two cells, duplicates, cells without mass and an outlier, in any units and far from the origin."""
    clump = np.repeat(rng.normal(size=(3, n_dims)), 20, axis=0)
    outlier = np.concatenate([rng.normal(size=(30, n_dims)), np.full((1, n_dims), 1e3)])
    weight = np.append(np.ones(30), 0.0)
    for source, a in ((clump[[0, -1]], None), (clump, None), (outlier, None), (outlier, weight)):
        source = scale * (source + 100)
        target = source + scale * rng.normal(size=source.shape)
        coupling = exact(source, target, a)
        x = scale * (rng.normal(size=(8, n_dims)) + 100)
        moved = kernel_ridge(x, source, target, coupling) - x
        furthest = np.abs(coupling.partners(target) - source)[coupling.source_weight > 0].max()
        assert np.isfinite(moved).all()
        assert np.abs(moved).max() <= 3 * furthest


def test_kernel_ridge_of_many_cells_takes_a_sample_and_always_the_same(rng, monkeypatch):
    monkeypatch.setattr(baselines, "MAX_CELLS", 100)
    monkeypatch.setattr(baselines, "MAX_CHOICE_CELLS", 40)
    source, target, coupling = _branching(rng, 300)
    x = rng.normal(size=(50, 2))
    moved = kernel_ridge(x, source, target, coupling)
    np.testing.assert_array_equal(moved, kernel_ridge(x, source, target, coupling))
    truth = x + _parting(x)
    assert np.mean((moved - truth) ** 2) < 0.1 * np.mean((x - truth) ** 2)
