from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from scjko.core.compute.neighbours import nearest

TREE, BRUTE = 3, 30


@pytest.mark.parametrize("n_dims", [TREE, BRUTE])
@pytest.mark.parametrize("far", [0.0, 1e4])
def test_neighbours_are_those_of_all_distances(rng, n_dims, far):
    """Both searches, also far from the origin, where expanded squares would lose the distances."""
    points, queries = rng.normal(size=(80, n_dims)) + far, rng.normal(size=(25, n_dims)) + far
    distance, index = nearest(points, queries, 4)
    everything = cdist(queries, points)
    np.testing.assert_array_equal(index, np.argsort(everything, axis=1)[:, :4])
    np.testing.assert_allclose(distance, np.sort(everything, axis=1)[:, :4], rtol=1e-9)  # float64, but for rounding


@pytest.mark.parametrize("n_dims", [TREE, BRUTE])
def test_a_point_is_at_distance_zero_of_itself_and_of_duplicates(rng, n_dims):
    points = np.repeat(rng.normal(size=(5, n_dims)), 3, axis=0)
    distance, index = nearest(points, points, 3)
    np.testing.assert_array_equal(distance, 0)
    np.testing.assert_array_equal(index, np.repeat(np.arange(15).reshape(5, 3), 3, axis=0))


@pytest.mark.parametrize("n_dims", [TREE, BRUTE])
def test_of_few_points_all_are_found(rng, n_dims):
    distance, index = nearest(rng.normal(size=(2, n_dims)), rng.normal(size=(4, n_dims)), 5)
    assert distance.shape == index.shape == (4, 2)
    assert (np.diff(distance, axis=1) >= 0).all()
