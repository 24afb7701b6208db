"""Populations between snapshots, on motions whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.fitting.fit import fit
from scjko.core.fitting.parametrizations import Linear
from scjko.core.judging.baselines import Cloud, progress
from scjko.core.motion.interpolation import UNJUDGED, Rule, best_rule, between, towards_observed
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


def shifted(x, y):
    """An energy that moves cells by (3, 0) in two units of time, and the snapshots it is fitted to."""
    shift = Linear(degree=1, n_centers=0, ridge=1e-9)
    points = [x, y]
    return fit(points, couple(points), Timeline(np.array([0.0, 2.0])), parametrization=shift).energy, map(cloud, points)


def test_a_side_weighs_by_its_time_and_by_its_cells(rng):
    """Copies of a few cells are a poor sample of a population that many cells are known of."""
    x = rng.normal(size=(60, 2))
    energy, sides = shifted(x[:20], x + [3.0, 0.0])
    found = between(energy, *sides, (0.0, 2.0), 0.5)
    share = 0.75 * 20 / (0.75 * 20 + 0.25 * 60)
    assert found.cloud.weight[found.side == 0].sum() == pytest.approx(share)
    assert found.cloud.weight.sum() == pytest.approx(1)


def test_asynchronous_cells_are_ahead_or_behind_on_the_same_lines(rng):
    x = rng.normal(size=(200, 2))
    energy, sides = shifted(x, x + [3.0, 0.0])
    found = between(energy, *sides, (0.0, 2.0), 0.5, asynchrony=0.2)
    starts = np.where(found.side == 0, 0.0, 3.0) + x[found.source, 0]
    came = (found.cloud.points[:, 0] - starts + np.where(found.side == 0, 0.0, 3.0)) / 3
    assert came.min() > -1e-3 and came.max() < 1 + 1e-3, "no cell leaves its line"
    # Mean and variance of the distribution, but for what 200 quantiles and the ridge of the fit leave.
    assert came.mean() == pytest.approx(0.25, abs=2e-3)
    assert came.var() == pytest.approx(0.2 * 0.25 * 0.75, rel=0.02)
    np.testing.assert_allclose(found.cloud.points[:, 1], x[found.source, 1], atol=1e-3)


@pytest.mark.parametrize("asynchrony", [0.0, 0.1, 0.5, 0.999])
def test_progress_has_the_mean_and_the_variance_it_says(asynchrony):
    found = progress(4000, 0.3, asynchrony)
    assert found.mean() == pytest.approx(0.3, abs=1e-3)  # midpoints of 4000 quantiles are that near
    assert found.var() == pytest.approx(asynchrony * 0.3 * 0.7, abs=1e-3)


def test_the_asynchrony_of_cells_is_found(rng):
    """Cells on a line, together or each with a clock of its own: 0.5 of the variance that a mixture would have."""

    def snapshots(jitter):
        clocks = [k + jitter * rng.uniform(-1, 1, size=400) for k in range(6)]
        return [cloud(np.column_stack([5 * clock, 0.1 * rng.normal(size=400)])) for clock in clocks]

    times = np.arange(6.0)
    assert best_rule(snapshots(0.0), times).asynchrony == 0
    assert best_rule(snapshots(1.0), times).asynchrony == 0, "order along a line is kept, which asynchrony would undo"
    # Cells that jump at a time of their own are on both sides of the gap until all have: a mixture.
    jumped = [
        cloud(np.where(rng.random((400, 1)) < k / 5, 10.0, 0.0) + 0.1 * rng.normal(size=(400, 2))) for k in range(6)
    ]
    assert best_rule(jumped, times).asynchrony > 0


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
    assert best_rule(straight, times) == Rule(0, 0)
    crossing = [*bent, *bent[1:-1]]  # a second turn, whose cells tell where those of the first can be
    assert best_rule(crossing, np.arange(float(len(crossing)))).strength > 0


def test_two_snapshots_give_no_reason_for_a_prior(rng):
    assert best_rule([cloud(rng.normal(size=(5, 2)))] * 2, np.arange(2.0)) == Rule(0, UNJUDGED)


def test_large_snapshots_are_sampled_alike(rng):
    big = [cloud(rng.normal(size=(1500, 2)) + [k, 0]) for k in range(3)]
    assert best_rule(big, np.arange(3.0)) == best_rule(big, np.arange(3.0))
    assert best_rule(big, np.arange(3.0)).strength == pytest.approx(0.0, abs=0.25)
