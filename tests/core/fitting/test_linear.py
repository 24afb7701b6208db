"""Linear energies: their features, kernels that are even, and a ridge that suits the data."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.energy.specification import Interaction, Terms
from scjko.core.fitting.closed_form import LOW, OWN
from scjko.core.fitting.fit import fit
from scjko.core.fitting.linear import features_of, kernel_forces
from scjko.core.fitting.parametrizations import Linear, Neural
from scjko.core.timeline import Timeline
from scjko.core.transport import couple

ATTRACTION = 0.5
TIMELINE = Timeline(np.array([0.0, 0.3, 0.6]))


def attracted(rng, n=120):
    """Cells that drift and attract each other by U = ½ a‖z‖²: each is pulled to the mean of all, which moves on."""
    points = [rng.normal(size=(n, 2)) * [1.5, 1]]
    for gap in TIMELINE.gaps:
        x = points[-1]
        points.append(x - gap * (ATTRACTION * (x - x.mean(axis=0)) - [3.0, 3.0]))
    return points


@pytest.fixture(scope="module", params=[True, False], ids=["even", "any"])
def case(request):
    points = attracted(np.random.default_rng(0))
    terms = Terms.of(["potential", Interaction(even=request.param)])
    options = {"scheme": "explicit", "time_varying": False}
    linear = Linear(degree=3, n_centers=9, ridge=1e-6)
    couplings = couple(points)
    fits = {
        "linear": fit(points, couplings, TIMELINE, parametrization=linear, terms=terms, **options),
        "neural": fit(
            points, couplings, TIMELINE, parametrization=Neural(layers=(16,), epochs=40), terms=terms, **options
        ),
    }
    return request.param, fits


@pytest.mark.parametrize("parametrization", ["linear", "neural"])
def test_even_kernels_are_even_and_others_need_not_be(case, rng, parametrization):
    even, fits = case
    energy, z = fits[parametrization].energy, 2 * rng.normal(size=(50, 2))
    # Where both are rounded alike, so that what is left is the kernel's own.
    size = np.abs(energy.interaction(z)).max()
    odd = np.abs(energy.interaction(z) - energy.interaction(-z)).max() / size
    pushes = np.abs(energy.interaction_gradient(z) + energy.interaction_gradient(-z)).max()
    assert odd < 1e-4 if even else odd > 1e-3
    assert pushes < 1e-4 * np.abs(energy.interaction_gradient(z)).max() if even else pushes > 0
    np.testing.assert_allclose(energy.interaction(np.zeros((1, 2))), 0, atol=1e-6 * size)
    if even:  # then no push is common to all cells
        assert np.abs(energy.interaction_term.common_push).max() < 1e-5


def test_a_linear_kernel_is_recovered_along_the_motion_of_the_mean(case):
    """Across it, attraction to the mean cannot be distinguished from a potential well."""
    _, fits = case
    along = np.array([1.0, 1.0]) / np.sqrt(2)
    distance = np.linspace(-2, 2, 21)
    slope = fits["linear"].energy.interaction_gradient(distance[:, None] * along) @ along
    assert np.sqrt(np.mean((slope - ATTRACTION * distance) ** 2)) < 0.1 * ATTRACTION
    assert fits["linear"].losses[-1] < 1e-4


def test_an_even_kernel_has_even_monomials_and_mirrored_centres(case):
    even, fits = case
    problem = fits["linear"].problem
    features = features_of(problem, Linear(degree=3, n_centers=9), 0)
    degrees = {sum(powers) for powers in features.kernel.exponents}
    centers = features.kernel_weights["centers"]
    assert degrees == ({2} if even else {2, 3})
    assert features.n_kernel == len(features.kernel.exponents) + 9
    if even:
        np.testing.assert_array_equal(centers[9:], -centers[:9])
        theta = features.kernel_theta(np.arange(float(features.n_kernel)))[0]
        np.testing.assert_array_equal(theta[-9:], theta[-18:-9])
    forces = kernel_forces(problem, features, np.arange(5))
    assert forces.shape == (5, features.n_kernel, 2)


def test_radial_functions_are_families_and_low_monomials_are_marked(case):
    _, fits = case
    features = features_of(fits["linear"].problem, Linear(degree=3, n_centers=9), 0)
    kinds = features.kinds
    expected = [LOW if sum(p) <= 2 else OWN for p in features.potential.exponents] + [0] * 9
    expected += [LOW if sum(p) <= 2 else OWN for p in features.kernel.exponents] + [1] * 9
    assert kinds.tolist() == expected


def test_a_chosen_ridge_keeps_noise_from_carrying_cells_away(rng):
    """Few cells in five dimensions that only shift: held-out cells go on by the shift, and none is thrown far."""
    shift = np.array([1.0, 0, 0, 0, 0])
    points = [rng.normal(size=(150, 5)) + k * shift for k in range(3)]
    timeline = Timeline(np.arange(3.0))
    unseen = rng.normal(size=(500, 5))
    couplings = couple(points)
    error = {}
    for ridge in ("auto", 1e-10):
        energy = fit(points, couplings, timeline, parametrization=Linear(ridge=ridge)).energy
        moved = energy.step(unseen, 0, 1) - unseen
        error[ridge] = np.sqrt(np.mean((moved - shift) ** 2))
    assert error["auto"] < 0.25  # means of 150 cells are known to 0.12 in each dimension
    assert error["auto"] < 0.5 * error[1e-10]
