from __future__ import annotations

import numpy as np
import pytest

from scjko.core.landscape.action import least_action
from scjko.core.landscape.barriers import barriers_of, merged
from scjko.core.landscape.basins import Support
from scjko.core.landscape.chart import chart
from scjko.core.landscape.relief import Relief, newton
from scjko.core.landscape.strings import POINTS, evenly, relaxed
from scjko.core.landscape.tracks import tracked

SPREAD = 1.0


def separable(value, slope, curvature):
    """A relief whose potential is a sum of one function of each coordinate."""

    def hessian(x):
        return curvature(x)[:, :, None] * np.eye(x.shape[1])

    return Relief(lambda x: value(x).sum(axis=1), slope, hessian, SPREAD)


def double_well(tilt=0.0):
    """(x² − 1)² + tilt x + y²: wells near ±1, a saddle near 0."""

    def value(x):
        return (x[:, 0] ** 2 - 1) ** 2 + tilt * x[:, 0] + np.sum(x[:, 1:] ** 2, axis=1)

    def slope(x):
        return np.concatenate([(4 * x[:, :1] ** 3 - 4 * x[:, :1] + tilt), 2 * x[:, 1:]], axis=1)

    def hessian(x):
        found = np.tile(2 * np.eye(x.shape[1]), (len(x), 1, 1))
        found[:, 0, 0] = 12 * x[:, 0] ** 2 - 4
        return found

    return Relief(value, slope, hessian, SPREAD)


styblinski_tang = separable(
    lambda x: (x**4 - 16 * x**2 + 5 * x) / 2, lambda x: 2 * x**3 - 16 * x + 2.5, lambda x: 6 * x**2 - 16
)
wavy_plateau = separable(
    lambda x: np.cos(np.pi * x) + x**4 / 2 - 3 * x**2 + 1,
    lambda x: -np.pi * np.sin(np.pi * x) + 2 * x**3 - 6 * x,
    lambda x: -(np.pi**2) * np.cos(np.pi * x) + 6 * x**2 - 6,
)
bowl = separable(lambda x: x**2, lambda x: 2 * x, lambda x: np.full(x.shape, 2.0))


def roots(relief, low, high):
    """Stationary values of one coordinate, to the accuracy of a fine grid."""
    grid = np.linspace(low, high, 800_000)
    slope = relief.gradient(grid[:, None])[:, 0]
    at = np.flatnonzero(np.diff(np.sign(slope)))
    return grid[at], np.diff(np.sign(slope))[at] > 0


@pytest.fixture
def cells(rng):
    return rng.uniform(-4, 4, (1000, 2))


def as_set(points):
    return sorted(map(tuple, np.round(points, 2) + 0.0))


@pytest.mark.parametrize("relief", [styblinski_tang, wavy_plateau], ids=["styblinski_tang", "wavy_plateau"])
def test_wells_saddles_and_barriers_are_those_of_a_grid(relief, cells):
    at, low = roots(relief, -4, 4)
    minima, maxima = at[low], at[~low]
    found = chart(relief, cells)
    assert as_set(found.wells.points) == as_set([(a, b) for a in minima for b in minima])
    assert as_set(found.saddles.points) == as_set(
        [(a, b) for a in maxima for b in minima] + [(a, b) for a in minima for b in maxima]
    )
    assert found.wells.solved.all() and found.saddles.solved.all() and found.saddles.supported.all()
    np.testing.assert_allclose(found.wells.heights, relief.potential(found.wells.points))
    rise = relief.potential(np.array([[maxima[0], 0.0]]))[0] - relief.potential(np.array([[minima[0], 0.0]]))[0]
    lowest = int(np.argmin(found.wells.heights))
    assert np.sort(found.barriers[lowest])[1] == pytest.approx(rise, rel=1e-3)
    quadrant = [np.argmin(np.linalg.norm((found.wells.points > 0.2) * 1.0 - (x > 0.2), axis=1)) for x in cells]
    assert np.mean(found.basin == quadrant) > 0.93


@pytest.mark.parametrize("n_dims", [1, 2, 4])
def test_a_double_well_in_any_dimension(n_dims, rng):
    cells = rng.normal(0, [1.0, *[0.3] * (n_dims - 1)], (800, n_dims))
    found = chart(double_well(0.2), cells)
    at = np.sort(np.roots([4, 0, -4, 0.2]).real)
    np.testing.assert_allclose(np.sort(found.wells.points[:, 0]), at[[0, 2]], atol=1e-3)
    np.testing.assert_allclose(found.saddles.points[:, 0], at[1:2], atol=1e-3)
    np.testing.assert_allclose(found.saddles.points[:, 1:], 0, atol=1e-3)
    value = double_well(0.2).potential(np.pad(at[:, None], [(0, 0), (0, n_dims - 1)]))
    deep, shallow = np.argsort(found.wells.heights)
    assert found.barriers[deep, shallow] == pytest.approx(value[1] - value[0], rel=1e-3)
    assert found.barriers[shallow, deep] == pytest.approx(value[1] - value[2], rel=1e-3)
    assert found.wells.resting.all()


def test_a_bowl_has_one_well_and_no_barrier(cells):
    found = chart(bowl, cells)
    np.testing.assert_allclose(found.wells.points, [[0, 0]], atol=1e-6)
    assert len(found.saddles.heights) == 0 and found.passes.tolist() == [[-np.inf]]
    assert (found.basin == 0).all()


def test_a_slope_has_no_well_in_which_cells_rest(cells):
    plane = Relief(
        lambda x: x[:, 0], lambda x: np.tile([1.0, 0.0], (len(x), 1)), lambda x: np.zeros((len(x), 2, 2)), SPREAD
    )
    assert not chart(plane, cells).wells.resting.any()


def test_ripples_are_no_wells_unless_they_are_asked_for(cells):
    def value(x):
        return x**2 + 0.1 * np.cos(6 * x)

    relief = separable(value, lambda x: 2 * x - 0.6 * np.sin(6 * x), lambda x: 2 - 3.6 * np.cos(6 * x))
    assert len(chart(relief, cells).wells.heights) == 1
    inner = cells[np.abs(cells).max(axis=1) < 1.0]
    assert len(chart(relief, np.concatenate([inner, inner / 2, inner / 4]), shallow=0.0).wells.heights) > 1


def test_a_saddle_without_cells_is_marked(rng):
    cells = rng.normal(0, 0.2, (400, 2)) + np.where(rng.random(400) < 0.5, 1, -1)[:, None] * [1, 0]
    cells = cells[np.abs(cells[:, 0]) > 0.6]
    found = chart(double_well(), cells)
    assert len(found.wells.heights) == 2 and not found.saddles.supported.any()


def test_newton_reports_the_curvature_of_where_it_ends():
    found = newton(double_well(), np.array([[0.1, 0.1], [0.9, 0.2]]))
    assert found.converged.all()
    np.testing.assert_allclose(found.points, [[0, 0], [1, 0]], atol=1e-6)
    np.testing.assert_allclose(found.curvature, [[-4, 2], [2, 8]], atol=1e-4)


def test_merging_keeps_a_well_on_its_own_side_of_a_barrier():
    """A ripple of the shallower of two wells belongs to that, whichever is the deepest of all."""
    wells, between = np.array([0.0, 1.0, 1.9]), np.array([[0, 1], [1, 2]])
    assert merged(wells, between, np.array([1.5, 2.0]), least=0.2).tolist() == [0, 1, 1]
    assert merged(wells, between, np.array([5.0, 2.0]), least=0.2).tolist() == [0, 1, 1]
    assert merged(wells, between, np.array([5.0, 2.0]), least=0.0).tolist() == [0, 1, 2]
    assert merged(wells, between, np.array([5.0, 2.0]), least=9.0).tolist() == [0, 0, 0]


def test_the_lowest_pass_may_lead_over_other_wells():
    passes = barriers_of(4, np.array([[0, 1], [1, 2], [0, 2]]), np.array([1.0, 2.0, 5.0]))
    assert passes[0, 2] == passes[2, 0] == 2.0 and passes[0, 1] == 1.0
    assert np.isinf(passes[3, :3]).all()


def test_strings_end_on_the_circle_that_costs_nothing():
    """V = (‖x‖ − 1)² is zero on a circle: a path between two of its points follows it."""

    def slope(x):
        size = np.linalg.norm(x, axis=1, keepdims=True)
        return 2 * (size - 1) * x / size

    relief = Relief(lambda x: (np.linalg.norm(x, axis=1) - 1) ** 2, slope, None, SPREAD)
    path = relaxed(relief, np.array([[[1.0, 0.0], [0.5, 0.5], [-1.0, 0.01]]]))[0]
    assert path.shape == (POINTS, 2)
    assert np.abs(np.linalg.norm(path, axis=1) - 1).max() < 0.02
    np.testing.assert_allclose(path[[0, -1]], [[1, 0], [-1, 0.01]])


def test_polylines_are_spread_evenly():
    np.testing.assert_allclose(evenly(np.array([[0.0], [1.0], [4.0]]), 5)[:, 0], [0, 1, 2, 3, 4])


def test_support_is_where_cells_are(rng):
    there = Support(rng.normal(size=(500, 2)), 0.99)
    assert there.holds(np.array([[0.0, 0.0], [9.0, 0.0]])).tolist() == [True, False]


def test_the_action_of_an_ornstein_uhlenbeck_process_is_its_closed_form():
    """Of dx = −k x dt + dW it is (x₁ − x₀ e^{−kT})² over twice the variance (1 − e^{−2kT}) / 2k."""
    k, duration, x0, x1 = 1.5, 2.0, 0.3, 1.2
    found = least_action(
        lambda x, t: k * x, lambda x, t: np.full((len(x), 1, 1), k), np.array([x0]), np.array([x1]), 0.0, duration
    )
    excess = x1 - x0 * np.exp(-k * duration)
    assert found.action == pytest.approx(k * excess**2 / (1 - np.exp(-2 * k * duration)), rel=5e-3)
    assert found.points[0, 0] == x0 and found.points[-1, 0] == x1


def test_downhill_costs_nothing():
    end = np.exp(-1.0) * np.array([1.0, -2.0])
    found = least_action(
        lambda x, t: x, lambda x, t: np.tile(np.eye(2), (len(x), 1, 1)), np.array([1.0, -2.0]), end, 0.0, 1.0
    )
    assert found.action < 1e-4


def test_wells_are_followed_until_they_merge(rng):
    cells = rng.normal(0, [1.0, 0.3], (600, 2))
    one = [chart(bowl, cells)]
    two = [chart(double_well(tilt), cells) for tilt in (0.0, 0.1)]
    split = tracked([*one, *two])
    assert [len(track) for track in split.numbers] == [1, 2, 2]
    assert [(event.kind, event.before) for event in split.events] == [("splits", 0)]
    left = [chart.wells.points[:, 0].argmin() for chart in two]
    assert split.numbers[1][left[0]] == split.numbers[2][left[1]]
    joined = tracked([*two, *one])
    assert [(event.kind, event.before) for event in joined.events] == [("merges", 1)]
    assert tracked([]).numbers == ()


def test_the_chart_does_not_depend_on_the_order_of_cells(cells):
    one, other = chart(styblinski_tang, cells), chart(styblinski_tang, cells[::-1])
    assert as_set(one.wells.points) == as_set(other.wells.points)
