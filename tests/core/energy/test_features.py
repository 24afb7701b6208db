"""Which features a linear potential gets."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.energy.features import RELATIVE_WIDTH, clusters, exponents, grid, linear_potential, mirrored


def test_monomials_are_all_of_them_once():
    assert exponents(2, 2) == ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    assert len(exponents(2, 4)) == 14
    assert len(set(exponents(3, 4))) == 34


def test_the_papers_grid():
    corners = np.array([[-4.0, -4.0], [4.0, 4.0]])
    centers, spacing = grid(corners, 10)
    assert centers.shape == (100, 2) and spacing == pytest.approx(8 / 9)
    assert RELATIVE_WIDTH * spacing**2 == pytest.approx(0.5)


@pytest.mark.parametrize(("n_dims", "degree", "n_centers"), [(1, 4, 50), (2, 4, 200), (5, 4, 200), (30, 2, 200)])
def test_defaults_stay_within_bounds_in_any_dimension(rng, n_dims, degree, n_centers):
    model, weights = linear_potential(rng.normal(size=(2000, n_dims)), degree=None, n_centers=None, random_state=0)
    assert max(map(sum, model.exponents)) == 4
    # Products of coordinates up to a degree that their number allows; beyond it, powers of single ones.
    mixed = [powers for powers in model.exponents if np.count_nonzero(powers) > 1]
    assert max(map(sum, mixed), default=degree) == degree
    assert len(set(model.exponents)) == len(model.exponents) <= 500 + 3 * n_dims
    assert len(weights["centers"]) == n_centers


@pytest.mark.parametrize(("n_dims", "n_centers"), [(1, 15), (2, 225)])
def test_regular_centres_are_a_grid_over_the_range(rng, n_dims, n_centers):
    x = rng.normal(size=(500, n_dims))
    _, weights = linear_potential(x, degree=None, n_centers=None, random_state=0, regular=True)
    centers = weights["centers"]
    assert len(centers) == n_centers
    np.testing.assert_allclose([centers.min(axis=0), centers.max(axis=0)], [x.min(axis=0), x.max(axis=0)], rtol=1e-6)
    _, some = linear_potential(x, degree=None, n_centers=0, random_state=0, regular=True)
    assert len(some["centers"]) == 0


@pytest.mark.parametrize("n_dims", [1, 2])
def test_in_few_dimensions_functions_reach_twice_as_far(rng, n_dims):
    x = rng.normal(size=(500, n_dims))
    _, weights = linear_potential(x, degree=None, n_centers=20, random_state=0)
    centers, spacing = clusters(x, 20, 0)
    np.testing.assert_allclose(weights["centers"], centers, rtol=1e-6)
    assert weights["width"] == pytest.approx(RELATIVE_WIDTH * (2 * spacing) ** 2, rel=1e-6)


def test_mirrored_centres_are_behind_the_centres():
    centers = np.array([[1.0, -2.0], [0.5, 3.0]], np.float32)
    np.testing.assert_array_equal(mirrored(centers), [[1, -2], [0.5, 3], [-1, 2], [-0.5, -3]])


def test_centres_are_where_the_points_are(rng):
    x = np.concatenate([rng.normal(size=(200, 3)), rng.normal(size=(200, 3)) + 20])
    centers, spacing = clusters(x, 20, 0)
    assert np.min(np.linalg.norm(centers[:, None] - x[None], axis=2), axis=1).max() < 2
    assert 0.5 < spacing < 5
    assert len(clusters(np.ones((30, 3)), 20, 0)[0]) == 1
    assert len(clusters(x, 0, 0)[0]) == 0
