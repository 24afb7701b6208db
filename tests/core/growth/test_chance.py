"""Gains that chance explains: proportions of two samples, and no more than that."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.growth.chance import BUDGET, chance_gains
from scjko.core.timeline import Timeline
from scjko.core.transport import grown, uniform

TIMES = Timeline(np.array([0.0, 1.0]))


def fates(rng, n_left, n_right):
    """Cells of two fates far from each other."""
    return np.concatenate([rng.normal(-10, 1, (n_left, 2)), rng.normal(10, 1, (n_right, 2))])


def masses(x, y, budget=BUDGET):
    weights = uniform(x), uniform(y)
    (gain,) = chance_gains([x, y], weights, TIMES, budget)
    return grown(weights[0], gain)


def test_proportions_that_differ_by_chance_become_those_of_the_next_sample(rng):
    x, y = fates(rng, 100, 100), fates(rng, 92, 108)
    assert masses(x, y)[:100].sum() == pytest.approx(0.46, abs=0.005)


def test_no_more_changes_than_chance_explains(rng):
    """Three quarters of 200 cells are not half of them by chance: KL is at its budget, and the rest is transport."""
    x, y = fates(rng, 100, 100), fates(rng, 150, 50)
    r = masses(x, y)
    divergence = 100 * r @ np.log(r * len(x))
    assert 0.3 * BUDGET < divergence <= BUDGET
    assert 0.52 < r[:100].sum() < 0.65
    assert masses(x, y, budget=0.01)[:100].sum() == pytest.approx(0.5, abs=0.02)


def test_cells_without_weight_have_no_say(rng):
    x, y = fates(rng, 100, 100), fates(rng, 92, 108)
    beyond = np.concatenate([x, rng.normal(0, 30, (50, 2))])
    weight = np.concatenate([uniform(x), np.zeros(50)])
    (gain,) = chance_gains([beyond, y], [weight, uniform(y)], TIMES)
    np.testing.assert_allclose(grown(weight, gain)[:200], masses(x, y), rtol=1e-6)


def test_cells_that_are_all_in_one_place_have_no_gains():
    x = np.zeros((10, 2))
    (gain,) = chance_gains([x, x], [uniform(x)] * 2, TIMES)
    assert (gain == 0).all()
