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
