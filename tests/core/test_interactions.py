"""Interaction against a numpy double loop."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from scjko.core.energy.features import linear_potential
from scjko.core.energy.interactions import NO_LABEL, WithInteraction, feature_forces, interaction_gradients, population
from scjko.core.energy.models import LinearPotential, NeuralPotential, gradients, potentials


@pytest.fixture
def points(rng):
    return rng.normal(size=(7, 2)).astype(np.float32), rng.normal(size=(30, 2)).astype(np.float32)


def kernels(rng):
    neural = NeuralPotential((6,))
    yield neural, neural.start(jax.random.key(0), 2, 1)
    linear, weights = linear_potential(rng.normal(size=(200, 2)), degree=3, n_centers=9, random_state=0)
    n_features = len(linear.exponents) + len(weights["centers"])
    yield linear, {**weights, "theta": rng.normal(size=(1, n_features)).astype(np.float32)}


def test_the_force_is_the_weighted_mean_over_the_population(rng, points):
    z, others = points
    weight = rng.uniform(size=30).astype(np.float32)
    weight /= weight.sum()
    for model, weights in kernels(rng):
        expected = np.zeros((7, 2))
        for i in range(7):
            for j in range(30):
                away = (z[i] - others[j])[None]
                expected[i] += weight[j] * np.asarray(gradients(model, weights, away, NO_LABEL[None]))[0]
        # float32 sums of thirty terms of order one to ten
        np.testing.assert_allclose(interaction_gradients(model, weights, z, others, weight), expected, atol=1e-4)


def test_feature_forces_are_means_of_feature_gradients(rng, points):
    z, others = points
    weight = np.full(30, 1 / 30, np.float32)
    _, (model, weights) = kernels(rng)
    away = (z[:, None] - others[None]).reshape(-1, z.shape[1])
    gradients_of = jax.jit(jax.vmap(jax.jacfwd(model.features, argnums=1), (None, 0)))
    expected = np.asarray(gradients_of(weights, away)).reshape(len(z), len(others), -1, z.shape[1]).mean(axis=1)
    np.testing.assert_allclose(feature_forces(model, weights, z, others, weight), expected, atol=1e-4)


def test_monomials_and_bumps_are_what_they_say(rng):
    model = LinearPotential(((1, 0), (0, 2), (2, 1)))
    weights = {"centers": np.array([[1.0, -1.0]], np.float32), "width": np.float32(0.7)}
    x, y = 0.3, -1.2
    expected = [x, y**2, x**2 * y, np.exp(-((x - 1) ** 2 + (y + 1) ** 2) / 0.7)]
    np.testing.assert_allclose(model.features(weights, np.array([x, y], np.float32)), expected, rtol=1e-5)


def test_the_potential_among_others_has_their_force(rng, points):
    z, others = points
    weight = np.full(30, 1 / 30, np.float32)
    for kernel, kernel_weights in kernels(rng):
        model = WithInteraction(kernel, kernel)
        weights = {
            "potential": kernel_weights,
            "interaction": kernel_weights,
            "population": {"points": others, "weight": weight},
        }
        labels = np.ones((7, 1), np.float32)
        alone = gradients(kernel, kernel_weights, z, labels)
        felt = interaction_gradients(kernel, kernel_weights, z, others, weight)
        np.testing.assert_allclose(gradients(model, weights, z, labels), alone + felt, atol=1e-4)
        assert potentials(model, weights, z, labels).shape == (7,)


def test_small_populations_are_whole_and_large_ones_sampled(rng):
    x, weight = rng.normal(size=(50, 2)), rng.uniform(size=50)
    whole = population(x, weight, 0)
    np.testing.assert_allclose(whole.points, x, rtol=1e-6)
    np.testing.assert_allclose(whole.weight, weight / weight.sum(), rtol=1e-6)
    part = population(x, weight, 0, size=20)
    assert part.points.shape == (20, 2) and part.weight.sum() == pytest.approx(1)
    np.testing.assert_array_equal(part.points, population(x, weight, 0, size=20).points)
