"""The neural potential against numpy."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from scjko.core.energy.models import NeuralPotential, gradients, hessians, potentials


@pytest.fixture
def network(rng):
    model = NeuralPotential((8, 5))
    widths = (3 + 2, 8, 5, 1)
    weights = {
        f"Dense_{i}": {
            "kernel": rng.normal(size=(m, n)).astype(np.float32),
            "bias": rng.normal(size=n).astype(np.float32),
        }
        for i, (m, n) in enumerate(zip(widths[:-1], widths[1:], strict=True))
    }
    return model, weights, rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=(6, 2)).astype(np.float32)


def numpy_potential(weights, z, c):
    h = np.concatenate([z, c], axis=1).astype(np.float64)
    for name in ("Dense_0", "Dense_1"):
        h = np.logaddexp(0, h @ weights[name]["kernel"] + weights[name]["bias"])
    return (h @ weights["Dense_2"]["kernel"] + weights["Dense_2"]["bias"])[:, 0]


def test_potential_is_the_perceptron_it_says(network):
    model, weights, z, c = network
    # float32 against float64 of values of order ten
    np.testing.assert_allclose(potentials(model, weights, z, c), numpy_potential(weights, z, c), atol=1e-5)


def test_gradient_and_hessian_are_those_of_the_potential(network):
    model, weights, z, c = network
    h, unit = 1e-4, np.eye(3)

    def slope(z):
        ahead, behind = ([numpy_potential(weights, z + sign * h * e, c) for e in unit] for sign in (1, -1))
        return (np.array(ahead) - np.array(behind)).T / (2 * h)

    z64 = z.astype(np.float64)
    np.testing.assert_allclose(gradients(model, weights, z, c), slope(z64), atol=1e-4)
    curvature = np.stack([(slope(z64 + h * e) - slope(z64 - h * e)) / (2 * h) for e in unit], axis=2)
    np.testing.assert_allclose(hessians(model, weights, z, c), curvature, atol=1e-3)


def test_the_same_under_jit(network):
    model, weights, z, c = network
    inside = jax.jit(lambda w, z, c: gradients(model, w, z, c))(weights, z, c)
    np.testing.assert_allclose(inside, gradients(model, weights, z, c), rtol=1e-5, atol=1e-6)


def test_an_even_network_is_the_mean_of_itself_and_its_mirror_image(network):
    model, weights, z, c = network
    even = NeuralPotential(model.layers, even=True)
    expected = (numpy_potential(weights, z, c) + numpy_potential(weights, -z, c)) / 2
    np.testing.assert_allclose(potentials(even, weights, z, c), expected, atol=1e-5)
    np.testing.assert_array_equal(potentials(even, weights, -z, c), potentials(even, weights, z, c))
    np.testing.assert_allclose(gradients(even, weights, -z, c), -gradients(even, weights, z, c), atol=1e-6)
    np.testing.assert_allclose(gradients(even, weights, np.zeros((6, 3), np.float32), c), 0, atol=1e-6)


@pytest.fixture
def wide(network, rng):
    """The same perceptron with sums of four units for each coordinate and of six ridge functions beside it."""
    model, weights, z, c = network
    shapes = {"unit": dict.fromkeys(("slope", "shift", "height"), (4, 3)), "ridge": {"slope": (5, 6)}}
    shapes["ridge"] |= dict.fromkeys(("shift", "height"), (6,))
    sums = {
        f"{kind}_{part}": rng.normal(size=shape).astype(np.float32)
        for kind, parts in shapes.items()
        for part, shape in parts.items()
    }
    return NeuralPotential(model.layers, n_units=4, n_ridges=6), {**weights, **sums}, z, c


def numpy_wide(weights, z, c):
    told = np.concatenate([z, c], axis=1).astype(np.float64)
    units = np.logaddexp(0, z[:, None, :] * weights["unit_slope"].astype(np.float64) + weights["unit_shift"])
    ridges = np.logaddexp(0, told @ weights["ridge_slope"] + weights["ridge_shift"])
    sums = (weights["unit_height"] * units).sum(axis=(1, 2)) + ridges @ weights["ridge_height"]
    return numpy_potential(weights, z, c) + sums


def test_sums_beside_the_perceptron_are_those_it_says(wide):
    model, weights, z, c = wide
    np.testing.assert_allclose(potentials(model, weights, z, c), numpy_wide(weights, z, c), atol=2e-5)


def test_gradient_and_hessian_of_the_sums_are_those_of_the_potential(wide):
    """The softplus of the sums has a derivative written by hand."""
    model, weights, z, c = wide
    h, unit, z64 = 1e-4, np.eye(3), z.astype(np.float64)

    def slope(z):
        ahead, behind = ([numpy_wide(weights, z + sign * h * e, c) for e in unit] for sign in (1, -1))
        return (np.array(ahead) - np.array(behind)).T / (2 * h)

    np.testing.assert_allclose(gradients(model, weights, z, c), slope(z64), atol=1e-4)
    curvature = np.stack([(slope(z64 + h * e) - slope(z64 - h * e)) / (2 * h) for e in unit], axis=2)
    np.testing.assert_allclose(hessians(model, weights, z, c), curvature, atol=1e-3)


def test_gradients_of_the_sums_are_finite_far_away(wide):
    model, weights, z, c = wide
    assert np.isfinite(gradients(model, weights, 1e6 * z, c)).all()
    assert np.isfinite(hessians(model, weights, 1e6 * z, c)).all()


def test_an_even_network_with_sums_is_even(wide):
    model, weights, z, c = wide
    even = NeuralPotential(model.layers, True, model.n_units, model.n_ridges)
    expected = (numpy_wide(weights, z, c) + numpy_wide(weights, -z, c)) / 2
    np.testing.assert_allclose(potentials(even, weights, z, c), expected, atol=2e-5)


def test_sums_are_zero_at_the_start_and_leave_the_perceptron_as_it_was(network, wide):
    key = jax.random.key(3)
    plain, more = (model.start(key, 3, 2) for model in (network[0], wide[0]))
    for name, layer in plain.items():
        np.testing.assert_array_equal(more[name]["kernel"], layer["kernel"])
    np.testing.assert_array_equal(potentials(wide[0], more, *wide[2:]), potentials(network[0], plain, *network[2:]))
