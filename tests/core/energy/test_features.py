"""Which features a linear potential gets."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.energy.features import RELATIVE_WIDTH, clusters, exponents, grid, linear_potential


def test_monomials_are_all_of_them_once():
    assert exponents(2, 2) == ((1, 0), (0, 1), (2, 0), (1, 1), (0, 2))
    assert len(exponents(2, 4)) == 14
    assert len(set(exponents(3, 4))) == 34


def test_the_papers_grid():
    corners = np.array([[-4.0, -4.0], [4.0, 4.0]])
    centers, spacing = grid(corners, 10)
    assert centers.shape == (100, 2) and spacing == pytest.approx(8 / 9)
    assert RELATIVE_WIDTH * spacing**2 == pytest.approx(0.5)


@pytest.mark.parametrize(("n_dims", "degree", "n_centers"), [(1, 4, 15), (2, 4, 225), (5, 4, 200), (30, 2, 200)])
def test_defaults_stay_within_bounds_in_any_dimension(rng, n_dims, degree, n_centers):
    model, weights = linear_potential(rng.normal(size=(2000, n_dims)), degree=None, n_centers=None, random_state=0)
    assert max(map(sum, model.exponents)) == 4
    # Products of coordinates up to a degree that their number allows; beyond it, powers of single ones.
    mixed = [powers for powers in model.exponents if np.count_nonzero(powers) > 1]
    assert max(map(sum, mixed), default=degree) == degree
    assert len(set(model.exponents)) == len(model.exponents) <= 500 + 3 * n_dims
    assert len(weights["centers"]) == n_centers


def test_centres_are_where_the_points_are(rng):
    x = np.concatenate([rng.normal(size=(200, 3)), rng.normal(size=(200, 3)) + 20])
    centers, spacing = clusters(x, 20, 0)
    assert np.min(np.linalg.norm(centers[:, None] - x[None], axis=2), axis=1).max() < 2
    assert 0.5 < spacing < 5
    assert len(clusters(np.ones((30, 3)), 20, 0)[0]) == 1
    assert len(clusters(x, 0, 0)[0]) == 0
