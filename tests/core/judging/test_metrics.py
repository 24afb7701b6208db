from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from scjko.core.judging.metrics import difference_error, distance, emd


def test_emd_is_the_mean_distance_of_the_best_assignment(rng):
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 3))
    cost = cdist(x, y)
    assert emd(x, y) == pytest.approx(cost[linear_sum_assignment(cost)].mean(), rel=1e-9)


def test_emd_of_a_shift_is_its_length(rng):
    x = rng.normal(size=(25, 2))
    assert emd(x, x + [3, 4]) == pytest.approx(5, rel=1e-9)
    assert emd(x, x[::-1]) == pytest.approx(0, abs=1e-12)


def test_potentials_certify_the_distance(rng):
    """Feasible potentials of the same value prove that the distance is the optimum, whatever the weights."""
    x, y, a, b = rng.normal(size=(20, 2)), rng.normal(size=(30, 2)), rng.uniform(size=20), rng.uniform(size=30)
    found = distance(x, y, a, b)
    (u, v), (p, q) = found.potentials, found.weights
    assert p @ u + q @ v == pytest.approx(found.value, rel=1e-9)
    assert (u[:, None] + v <= cdist(x, y) + 1e-9).all()
    assert found.value == emd(x, y, a, b)


def test_the_error_of_a_difference_is_the_spread_over_samples():
    """Within a third of the standard deviation over 60 fresh samples, itself known to a tenth; unpaired it is far."""
    differences, paired, unpaired = [], [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(150, 2)), rng.normal(size=(200, 2)) + [1.0, 0.0]
        one, other = distance(x + [0.6, 0.0], y), distance(x + [0.2, 0.0], y)
        differences.append(other.value - one.value)
        paired.append(difference_error(one, other, same_cells=True))
        unpaired.append(difference_error(one, other, same_cells=False))
    assert np.mean(paired) == pytest.approx(np.std(differences), rel=1 / 3)
    assert np.mean(unpaired) > np.mean(paired)


def test_a_prediction_differs_from_itself_by_nothing_for_sure(rng):
    x, y = rng.normal(size=(10, 2)), rng.normal(size=(12, 2))
    assert difference_error(distance(x, y), distance(x, y), same_cells=True) == 0


def test_one_cell_says_nothing_of_the_error(rng):
    found = distance(rng.normal(size=(5, 2)), rng.normal(size=(1, 2)))
    assert difference_error(found, found, same_cells=True) == float("inf")
