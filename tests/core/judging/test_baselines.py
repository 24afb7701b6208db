"""Baselines against loops and direct solves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.spatial.distance import cdist, pdist

from scjko.core.judging import baselines
from scjko.core.judging.baselines import (
    BANDWIDTHS,
    NEIGHBOURS,
    RIDGES,
    Cloud,
    best_n_neighbours,
    best_settings,
    best_transport,
    kantorovich,
    kernel_ridge,
    last_mean_shift,
    linear_map,
    mean_shift,
    midpoint,
    mixture,
    transport,
)
from scjko.core.judging.metrics import emd
from scjko.core.transport import batched, exact


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


def test_transport_weighs_neighbours_by_their_mass(rng):
    """A neighbour of weight two counts twice, and one of weight zero is passed over."""
    source, target, weight = np.arange(3.0)[:, None], rng.normal(size=(8, 1)), np.array([2.0, 0.0, 1.0])
    coupling = exact(source, target, weight)
    steps = coupling.partners(target) - source
    moved = transport(np.array([[0.9]]), source, target, coupling, 2)
    np.testing.assert_allclose(moved[0], 0.9 + (2 * steps[0] + steps[2]) / 3)


def test_few_cells_are_all_the_nearest(rng):
    source, target = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    moved = transport(np.zeros((1, 2)), source, target, exact(source, target), 5)
    np.testing.assert_allclose(moved[0], (target - source).mean(axis=0))


def test_the_number_of_neighbours_is_that_with_the_smallest_error_between_halves(rng):
    """Against the rule spelt out cell by cell."""
    source, target = rng.normal(size=(60, 2)), rng.normal(size=(80, 2)) + 2
    a, b = rng.uniform(0.5, 1.5, 60), rng.uniform(0.5, 1.5, 80)
    a[0] = 0
    coupling = exact(source, target, a, b)
    a, b, draw = coupling.source_weight, coupling.target_weight, np.random.default_rng(3)
    errors = dict.fromkeys(NEIGHBOURS, 0.0)
    for _ in range(5):
        rows, columns = (draw.permutation(np.flatnonzero(mass)) for mass in (a, b))
        for here, other in ((0, 1), (1, 0)):
            i, j = rows[other::2], columns[other::2]
            steps = exact(source[i], target[j], a[i], b[j]).partners(target[j]) - source[i]
            held, goal = rows[here::2], columns[here::2]
            for n in NEIGHBOURS:
                near = [np.argsort(np.linalg.norm(source[i] - x, axis=1))[:n] for x in source[held]]
                moved = source[held] + [np.average(steps[one], axis=0, weights=a[i][one]) for one in near]
                errors[n] += emd(moved, target[goal], a[held], b[goal])
    best = min(errors, key=errors.get)
    assert best_n_neighbours(source, target, coupling, random_state=3) == best


def test_more_neighbours_where_displacements_are_noise_and_few_where_they_differ(rng):
    source = rng.normal(size=(300, 2))
    branches = np.where(np.sin(4 * source[:, :1]) > 0, 1.0, -1.0) * [[0.0, 20.0]]
    noise = 3 * rng.normal(size=(300, 2))
    few, many = (best_n_neighbours(source, y, exact(source, y)) for y in (source + branches, noise))
    assert few <= 3 < 8 <= many


def test_the_best_transport_has_the_chosen_number_of_neighbours(rng):
    source, target = rng.normal(size=(40, 2)), rng.normal(size=(50, 2))
    x, plan = rng.normal(size=(9, 2)), (source, target, exact(source, target))
    chosen = best_n_neighbours(*plan)
    np.testing.assert_array_equal(best_transport(x, *plan), transport(x, *plan, chosen))


def test_the_choice_of_neighbours_is_a_second_s_work_for_many_cells(rng, monkeypatch):
    """Couplings and distances have a bounded number of cells, however many there are."""
    sizes = []
    for name, solve in (("exact", exact), ("emd", emd)):
        monkeypatch.setattr(baselines, name, lambda x, y, *w, f=solve: sizes.append(max(len(x), len(y))) or f(x, y, *w))
    monkeypatch.setattr(baselines, "MAX_COUPLED", 50)
    monkeypatch.setattr(baselines, "MAX_PREDICTED", 20)
    source, target = rng.normal(size=(400, 2)), rng.normal(size=(300, 2))
    best_n_neighbours(source, target, exact(source, target))
    assert sorted(set(sizes)) == [20, 50] and len(sizes) == 2 + 2 * len(NEIGHBOURS)


def test_the_linear_map_solves_the_weighted_normal_equations(rng):
    source, target = rng.normal(size=(50, 3)) + 5, rng.normal(size=(40, 3)) * [1, 2, 3]
    x, coupling = rng.normal(size=(7, 3)), exact(source, target, rng.uniform(0.2, 2.0, 50))
    mass = np.diag(coupling.source_weight)
    design = np.hstack([source, np.ones((50, 1))])
    solved = np.linalg.solve(design.T @ mass @ design, design.T @ mass @ coupling.partners(target))
    moved = linear_map(x, source, target, coupling)
    np.testing.assert_allclose(moved, np.hstack([x, np.ones((7, 1))]) @ solved, rtol=1e-9)


def test_the_linear_map_finds_the_affine_map_of_gaussians(rng):
    """The gradient of a quadratic is the optimal map, and a linear one."""
    source, x = rng.normal(size=(80, 3)), rng.normal(size=(10, 3))
    stretch, shift = np.diag([0.5, 1.0, 2.0]), np.array([1.0, -2.0, 3.0])
    target = source @ stretch + shift
    np.testing.assert_allclose(linear_map(x, source, target, exact(source, target)), x @ stretch + shift, atol=1e-9)


def test_a_linear_map_of_few_cells_in_many_dimensions_has_the_smallest_slope(rng):
    """30 cells in 60 dimensions: training cells go where they went, and what is off their plane does not turn."""
    source, target = rng.normal(size=(30, 60)), rng.normal(size=(35, 60))
    coupling = exact(source, target)
    displacement = coupling.partners(target) - source
    centred, shift = source - source.mean(axis=0), displacement.mean(axis=0)
    x = rng.normal(size=(5, 60))
    expected = x + shift + (x - source.mean(axis=0)) @ np.linalg.pinv(centred) @ (displacement - shift)
    np.testing.assert_allclose(linear_map(x, source, target, coupling), expected, atol=1e-9)
    np.testing.assert_allclose(linear_map(source, source, target, coupling), source + displacement, atol=1e-9)


def test_the_kantorovich_potential_is_the_envelope_of_parabolas(rng, monkeypatch):
    monkeypatch.setattr(baselines, "PAIRS", 100)
    source, target = rng.normal(size=(30, 2)) + 7, 2 * rng.normal(size=(45, 2))
    weight = rng.uniform(0.5, 1.5, 30)
    weight[4] = 0
    coupling = exact(source, target, weight)
    f, means = coupling.duals[0], coupling.partners(target)
    x = rng.normal(size=(20, 2)) + 7
    for here, moved in zip(x, kantorovich(x, source, target, coupling), strict=True):
        envelope = {
            i: np.sum((here - means[i]) ** 2) - (np.sum((source[i] - means[i]) ** 2) - f[i])
            for i in np.flatnonzero(weight)
        }
        np.testing.assert_allclose(moved, means[min(envelope, key=envelope.get)], rtol=1e-12)


def test_the_kantorovich_potential_takes_coupled_cells_to_their_partners(rng):
    """Its gradient at the cells of the coupling is the coupling, and in between it is that of one convex function."""
    source, target = rng.normal(size=(40, 3)), rng.normal(size=(60, 3))
    coupling = exact(source, target)
    moved = kantorovich(source, source, target, coupling)
    np.testing.assert_allclose(moved, coupling.partners(target), atol=1e-12)
    x = rng.normal(size=(50, 3))
    y = kantorovich(x, source, target, coupling)
    assert (np.einsum("ijk,ijk->ij", x[:, None] - x, y[:, None] - y) >= -1e-9).all(), "it is monotone"


def test_the_kantorovich_potential_needs_duals(rng):
    x = rng.normal(size=(20, 2))
    coupling = batched(x, x, size=10)
    assert coupling.duals is None
    with pytest.raises(ValueError, match="no Kantorovich potentials"):
        kantorovich(x, x, x, coupling)


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


@pytest.mark.parametrize("n_dims", [1, 3])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("predict", [best_transport, kantorovich, linear_map])
def test_predictions_are_finite_and_near_the_targets_on_awkward_cells(rng, predict, scale, n_dims):
    """One cell, cells in one place, duplicates, two sizes, an outlier and cells without mass."""
    one, place = np.zeros((1, n_dims)), np.ones((9, n_dims))
    clump = np.repeat(rng.normal(size=(3, n_dims)), 20, axis=0)
    outlier = np.concatenate([rng.normal(size=(30, n_dims)), np.full((1, n_dims), 1e3)])
    targets = rng.normal(size=(25, n_dims)), one, place
    cases = (one, None), (place, None), (clump, None), (outlier, None), (outlier, np.append(np.ones(30), 0.0))
    for (cells, a), goal in itertools.product(cases, targets):
        source, target, x = (scale * (points + 100) for points in (cells, goal, rng.normal(size=(8, n_dims))))
        coupling = exact(source, target, a)
        moved = predict(x, source, target, coupling)
        furthest = np.abs(coupling.partners(target) - source)[coupling.source_weight > 0].max()
        assert np.isfinite(moved).all()
        assert np.abs(moved - x).max() <= 10 * max(furthest, scale)


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
