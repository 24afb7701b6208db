"""Populations between snapshots, on motions whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.fitting.fit import fit
from scjko.core.fitting.parametrizations import Linear
from scjko.core.judging.baselines import Cloud
from scjko.core.motion.interpolation import STRENGTHS, best_strength, between, towards_observed
from scjko.core.timeline import Timeline
from scjko.core.transport import couple


def cloud(points):
    return Cloud(points, np.full(len(points), 1 / len(points)))


@pytest.mark.parametrize("time_varying", [True, False])
def test_a_shift_is_interpolated_from_both_sides(rng, time_varying):
    x = rng.normal(size=(60, 2))
    points = [x, x + [3.0, 0.0]]
    shift = Linear(degree=1, n_centers=0, ridge=1e-9)
    timeline = Timeline(np.array([0.0, 2.0]))
    energy = fit(points, couple(points), timeline, parametrization=shift, time_varying=time_varying).energy
    found = between(energy, *map(cloud, points), (0.0, 2.0), 0.5)
    np.testing.assert_allclose(found.cloud.points, np.tile(x + [0.75, 0.0], (2, 1)), atol=1e-3)
    np.testing.assert_allclose(found.cloud.weight, np.repeat([0.75 / 60, 0.25 / 60], 60))
    np.testing.assert_array_equal(found.side, np.repeat([0, 1], 60))
    np.testing.assert_array_equal(found.source, np.tile(np.arange(60), 2))
    assert found.converged.all()


def test_points_are_pulled_part_of_the_way_to_observed_ones():
    observed, points = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 2.0]])
    np.testing.assert_allclose(towards_observed(points, observed, 0.25), [[0.25, 0.0], [1.0, 1.5]])
    np.testing.assert_array_equal(towards_observed(points, observed, 0.0), points)


def on_a_circle(rng, angle, n=300):
    radius = 5 + 0.1 * rng.normal(size=n)
    spread = angle + 0.15 * rng.normal(size=n)
    return np.stack([radius * np.cos(spread), radius * np.sin(spread)], axis=1)


def test_the_prior_is_strong_where_lines_leave_the_cells_and_absent_where_they_do_not(rng):
    """Cells on a circle: chords cut through its inside. Cells on a line: nothing to correct."""
    angles = np.linspace(0, 2 * np.pi, 9)
    bent = [cloud(on_a_circle(rng, angle)) for angle in angles]
    straight = [cloud(rng.normal(size=(300, 2)) * 0.3 + [3 * k, 0]) for k in range(9)]
    times = np.arange(9.0)
    # On the circle a cell two steps away is nearer to a chord's middle than none: some pull helps, at random places.
    assert best_strength(straight, times) == 0
    crossing = [*bent, *bent[1:-1]]  # a second turn, whose cells tell where those of the first can be
    assert best_strength(crossing, np.arange(float(len(crossing)))) > 0


def test_two_snapshots_give_no_reason_for_a_prior(rng):
    assert best_strength([cloud(rng.normal(size=(5, 2)))] * 2, np.arange(2.0)) == STRENGTHS[0] == 0


def test_large_snapshots_are_sampled_alike(rng):
    big = [cloud(rng.normal(size=(1500, 2)) + [k, 0]) for k in range(3)]
    assert best_strength(big, np.arange(3.0)) == best_strength(big, np.arange(3.0))
    assert best_strength(big, np.arange(3.0)) == pytest.approx(0.0, abs=0.25)
