"""Trends: known curves are recovered, their bands cover them, and weights choose the cells."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.genes.trends import effective, trends


def curves(s):
    return np.column_stack([np.sin(3 * s), 2 * s - 1, np.exp(-((s - 0.5) ** 2) / 0.02)])


def test_known_curves_are_within_bands(rng):
    """Of 20 simulations, 95 % bands cover the truth at 85 to 99 % of the points: splines have a little bias."""
    at = np.linspace(0.02, 0.98, 25)
    covered = []
    for _ in range(20):
        s = rng.uniform(size=400)
        noise = rng.normal(size=(400, 3)) * (0.2 + 0.4 * s[:, None])
        made = trends(s, np.ones(400), curves(s) + noise, at, n_knots=8)
        covered.append(np.abs(made.mean - curves(at)) < 1.96 * made.error)
    assert 0.85 < np.mean(covered) < 0.99
    # A straight line is smoothed more than a peak.
    assert made.penalty[1] > made.penalty[2]


def test_weights_choose_cells(rng):
    s = rng.uniform(size=300)
    group = np.arange(300) % 2
    x = (group * np.sin(3 * s) + 0.01 * rng.normal(size=300))[:, None]
    at = np.array([0.3, 0.6])
    made = trends(s, group.astype(float), x, at)
    np.testing.assert_allclose(made.mean[:, 0], np.sin(3 * at), atol=0.02)
    only = trends(s[group == 1], np.ones(150), x[group == 1], at)
    np.testing.assert_allclose(made.mean, only.mean)
    np.testing.assert_allclose(made.error, only.error)


@pytest.mark.parametrize(("weight", "n"), [(np.ones(7), 7), (np.array([1.0, 0, 0]), 1), (np.array([2.0, 2.0]), 2)])
def test_effective_numbers(weight, n):
    assert effective(weight) == pytest.approx(n)
