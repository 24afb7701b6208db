from __future__ import annotations

import numpy as np
import pytest

from scjko.core.landscape.static import GradientTest, gradient_test


def shift_fit(points):
    """One push for all intervals: 1 − ∫‖r‖² / ∫‖v‖² of the means, and the push as a mover."""
    moves = np.array([y.mean(axis=0) - x.mean(axis=0) for x, y in zip(points[:-1], points[1:], strict=True)])
    push = moves.mean(axis=0)
    explained = 1 - np.sum((moves - push) ** 2) / np.sum(moves**2)
    return float(explained), lambda k, x: x + push


def distance(x, y):
    return float(np.linalg.norm(x.mean(axis=0) - y.mean(axis=0)) + abs(x.std() - y.std()))


@pytest.mark.parametrize(("turn", "follows"), [(0.0, True), (0.8, False)])
def test_a_push_that_turns_is_no_push(turn, follows, rng):
    """Cells pushed alike in every interval are explained as well as simulated ones; cells whose push turns are not."""
    x, points = rng.normal(size=(200, 2)), []
    at = np.zeros(2)
    for k in range(5):
        points.append(rng.permutation(x) + at + 0.05 * rng.normal(size=x.shape))
        at = at + [np.cos(turn * k), np.sin(turn * k)]
    test = gradient_test(points, np.ones(4), shift_fit, distance)
    assert (test.p_value > 0.05) == follows
    assert test.expected.shape == (19,) and test.noise >= 0
    assert (test.explained > 0.9 * np.median(test.expected)) == follows


def test_the_p_value_counts_the_observed_course():
    assert GradientTest(0.5, np.array([0.6, 0.7, 0.8]), 0.0).p_value == 0.25
    assert GradientTest(0.75, np.array([0.6, 0.7, 0.8]), 0.0).p_value == 0.75
