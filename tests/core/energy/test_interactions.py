"""Interaction against a numpy double loop."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from scjko.core.energy.density import Mixture
from scjko.core.energy.features import linear_potential
from scjko.core.energy.interactions import NO_INPUT, Among, feature_forces, interaction_gradients, population
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
        away = (z[:, None] - others[None]).reshape(-1, 2)  # every pair
        slopes = np.asarray(gradients(model, weights, away, np.tile(NO_INPUT, (210, 1)))).reshape(7, 30, 2)
        expected = np.array([sum(weight[j] * slopes[i, j] for j in range(30)) for i in range(7)])
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
    """V + s ∫U dμ + β log ρ, each term where it is felt."""
    z, others = points
    weight = np.full(30, 1 / 30, np.float32)
    factors = rng.normal(size=(2, 2, 2))
    mixture = Mixture(np.log([0.6, 0.4]), rng.normal(size=(2, 2)), factors @ factors.transpose(0, 2, 1) + np.eye(2))
    for kernel, kernel_weights in kernels(rng):
        weights = {
            "potential": kernel_weights,
            "interaction": kernel_weights,
            "population": {"points": others, "weight": weight},
            "share": np.float32(0.3),
        }
        inputs = np.ones((7, 1), np.float32)
        alone = gradients(kernel, kernel_weights, z, inputs)
        felt = 0.3 * interaction_gradients(kernel, kernel_weights, z, others, weight)
        np.testing.assert_allclose(gradients(Among(kernel, kernel), weights, z, inputs), alone + felt, atol=1e-4)
        dense = {"potential": kernel_weights, "density": {"beta": np.float32(0.7), **mixture.single}}
        spread = 0.7 * mixture.score(z.astype(np.float64))
        np.testing.assert_allclose(gradients(Among(kernel, None), dense, z, inputs), alone + spread, atol=1e-4)
        every = gradients(Among(kernel, kernel), {**weights, **dense}, z, inputs)
        np.testing.assert_allclose(every, alone + felt + spread, atol=1e-4)
        assert potentials(Among(kernel, kernel), weights, z, inputs).shape == (7,)


def test_populations_filled_up_to_few_sizes_push_as_they_did(rng, points):
    z, others = points
    whole = population(others.astype(np.float64), rng.uniform(size=30), 0)
    filled = whole.filled
    assert filled.points.shape == (32, 2) and filled.weight[30:].tolist() == [0, 0]
    for model, weights in kernels(rng):
        found, expected = (interaction_gradients(model, weights, z, *among) for among in (filled, whole))
        np.testing.assert_allclose(found, expected, atol=1e-4)


def test_small_populations_are_whole_and_large_ones_sampled(rng):
    x, weight = rng.normal(size=(50, 2)), rng.uniform(size=50)
    whole = population(x, weight, 0)
    np.testing.assert_allclose(whole.points, x, rtol=1e-6)
    np.testing.assert_allclose(whole.weight, weight / weight.sum(), rtol=1e-6)
    part = population(x, weight, 0, size=20)
    assert part.points.shape == (20, 2) and part.weight.sum() == pytest.approx(1)
    np.testing.assert_array_equal(part.points, population(x, weight, 0, size=20).points)


def test_cells_without_weight_are_not_felt(rng):
    x = rng.normal(size=(5, 2))
    found = population(x, np.array([1.0, 0, 2, 0, 1]), 0)
    np.testing.assert_allclose(found.points, x[[0, 2, 4]], rtol=1e-6)
    np.testing.assert_allclose(found.weight, [0.25, 0.5, 0.25])
