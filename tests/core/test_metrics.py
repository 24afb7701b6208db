from __future__ import annotations

import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from scjko.core.judging.metrics import emd


def test_emd_is_the_mean_distance_of_the_best_assignment(rng):
    x, y = rng.normal(size=(40, 3)), rng.normal(size=(40, 3))
    cost = cdist(x, y)
    assert emd(x, y) == pytest.approx(cost[linear_sum_assignment(cost)].mean(), rel=1e-9)


def test_emd_of_a_shift_is_its_length(rng):
    x = rng.normal(size=(25, 2))
    assert emd(x, x + [3, 4]) == pytest.approx(5, rel=1e-9)
    assert emd(x, x[::-1]) == pytest.approx(0, abs=1e-12)
