"""Mixture densities and their score."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from scjko.core.energy.density import Mixture, fit_mixture


@pytest.fixture
def mixture(rng):
    factors = rng.normal(size=(3, 2, 2))
    return Mixture(np.log([0.5, 0.3, 0.2]), rng.normal(size=(3, 2)), factors @ factors.transpose(0, 2, 1) + np.eye(2))


def test_density_is_the_sum_of_its_gaussians(rng, mixture):
    x = rng.normal(size=(20, 2))
    expected = sum(
        np.exp(w) * multivariate_normal(m, np.linalg.inv(p)).pdf(x)
        for w, m, p in zip(mixture.log_weights, mixture.means, mixture.precisions, strict=True)
    )
    np.testing.assert_allclose(np.exp(mixture.log_density(x)), expected, rtol=1e-10)


def test_score_is_the_derivative_of_the_log_density(rng, mixture):
    def log_density(x):
        away = x[None] - mixture.means
        squared = jnp.einsum("ja,jab,jb->j", away, mixture.precisions, away)
        log_det = np.linalg.slogdet(mixture.precisions)[1]
        return jax.scipy.special.logsumexp(mixture.log_weights + log_det / 2 - squared / 2)

    x = rng.normal(size=(20, 2)) * 2
    # autodiff in float32
    np.testing.assert_allclose(mixture.score(x), jax.vmap(jax.grad(log_density))(x), rtol=1e-4, atol=1e-4)


def test_score_holds_far_out_and_in_many_dimensions(rng):
    far = Mixture(np.log([0.5, 0.5]), np.zeros((2, 50)), np.stack([np.eye(50), 2 * np.eye(50)]))
    x = 100 * rng.normal(size=(4, 50))
    score = far.score(x)
    # The narrower component has no share so far out: the score is that of the wider one.
    np.testing.assert_allclose(score, -x, rtol=1e-9)


def test_a_gaussian_population_gets_one_gaussian(rng):
    mixture = fit_mixture(rng.normal(size=(2000, 2)) * 2, np.ones(2000), 10, 0)
    assert len(mixture.log_weights) == 1
    x = rng.normal(size=(50, 2))
    # 2000 cells tell a variance to a few per cent.
    np.testing.assert_allclose(mixture.score(x), -x / 4, atol=0.08)


def test_two_clusters_get_more_and_small_snapshots_fewer(rng):
    two = np.concatenate([rng.normal(size=(500, 2)) - 5, rng.normal(size=(500, 2)) + 5])
    assert len(fit_mixture(two, np.ones(1000), 10, 0).log_weights) >= 2
    assert len(fit_mixture(two[::125], np.ones(8), 10, 0).log_weights) == 1


def test_weights_count(rng):
    x = np.concatenate([rng.normal(size=(500, 1)) - 5, rng.normal(size=(500, 1)) + 5])
    weight = np.repeat([0.0, 1.0], 500)
    assert fit_mixture(x, weight, 1, 0).means[0, 0] == pytest.approx(5, abs=0.2)


def test_copies_of_few_cells_make_no_more_gaussians_than_places(rng):
    """More would be a warning of scikit-learn's for every one of them."""
    places = rng.normal(size=(2, 2))
    mixture = fit_mixture(places[rng.integers(0, 2, 200)], np.full(200, 1 / 200), 10, 0)
    assert len(mixture.log_weights) <= 2
    assert np.isfinite(mixture.score(rng.normal(size=(5, 2)))).all()


def test_cells_without_weight_are_not_in_a_density(rng):
    x = rng.normal(size=(60, 2))
    with_far = fit_mixture(np.vstack([x, [[1e6, 1e6]]]), np.append(np.full(60, 1 / 60), 0.0), 3, 0)
    alone = fit_mixture(x, np.full(60, 1 / 60), 3, 0)
    np.testing.assert_array_equal(with_far.means, alone.means)
