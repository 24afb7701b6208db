"""What is fitted: populations at every place, and conditions in units of order one."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.condition import conditions
from scjko.core.fitting.problem import Course, Formulation, common_speed, units_of
from scjko.core.schemes import BOTH, EXPLICIT, MIDPOINT
from scjko.core.timeline import Timeline
from scjko.core.transport import couple
from scjko.core.variation import Labelled, Static

TIMELINE = Timeline(np.array([0.0, 0.5, 4.5]))


@pytest.fixture
def course(rng):
    points = [50 + 3 * rng.normal(size=(40, 2)) + [2 * k, 0] for k in range(3)]
    weights = [np.full(40, 1 / 40)] * 3
    return Course(points, weights, couple(points), TIMELINE)


def test_places_are_the_snapshots_and_where_the_condition_holds(course):
    assert course.places(BOTH) == course.places(EXPLICIT) == [0, 1, 2]
    assert course.places(MIDPOINT) == [0, 0.5, 1, 1.5, 2]


def test_half_way_the_population_is_that_of_the_middles_of_all_pairs(course):
    """So that cells which interact feel the others where they are, and not where they were or will be."""
    x, weight = course.at(1.5)
    plan = course.couplings[1]
    middles = (course.points[1][plan.source] + course.points[2][plan.target]) / 2
    # One partner each: the pairs from either side, twice.
    np.testing.assert_allclose(x[np.lexsort(x.T)], np.repeat(middles[np.lexsort(middles.T)], 2, axis=0))
    assert weight.sum() == pytest.approx(1)
    np.testing.assert_array_equal(course.at(1.0)[0], course.points[1])


def test_populations_and_densities_are_there_for_every_place(course):
    formulation = Formulation.of(course, MIDPOINT, Static())
    felt, units = formulation.populations(course, 0), formulation.units
    assert sorted(felt) == [0, 0.5, 1, 1.5, 2]
    np.testing.assert_allclose(felt[0.5].points, (course.at(0.5)[0] - units.center) / units.length, atol=1e-5)
    assert sorted(formulation.densities(course, 2, 0)) == [0, 0.5, 1, 1.5, 2]


def test_units_make_the_problem_of_order_one(course):
    for scheme, variation in ((BOTH, Labelled()), (MIDPOINT, Static())):
        formulation = Formulation.of(course, scheme, variation)
        rows, units = formulation.conditions(course), formulation.units
        problem = formulation.problem(rows)
        assert np.mean(problem.weight) == pytest.approx(1)
        # Mean square displacements weigh alike, so that one is their mean in these units.
        assert problem.weight @ np.mean(problem.velocity**2, axis=1) / len(rows.weight) == pytest.approx(1, rel=1e-6)
        cells = np.concatenate(course.points)
        np.testing.assert_allclose(units.center, cells.mean(axis=0))
        assert units.length == pytest.approx(np.sqrt(np.mean((cells - cells.mean(axis=0)) ** 2)))


def test_intervals_with_potentials_of_their_own_have_speeds_of_their_own(course):
    """Of equal displacements, not velocities: otherwise the short interval would hide the long one."""
    rows = conditions(course.points, course.couplings, TIMELINE, BOTH)
    own, shared = units_of(course, rows, Labelled()), units_of(course, rows, Static())
    np.testing.assert_allclose(own.speed[0] / own.speed[1], 8)
    assert shared.speed[0] == shared.speed[1]
    assert common_speed(own) == own.speed[1]
    problem = Formulation(TIMELINE, BOTH, Labelled(), own).problem(rows)
    np.testing.assert_allclose(problem.pace, own.speed[1] / own.speed[rows.interval])
    # Errors of prediction count alike in all intervals.
    np.testing.assert_allclose(problem.weight, 1)


def test_some_rows_of_a_problem_are_a_problem(course):
    formulation = Formulation.of(course, BOTH, Labelled())
    problem = formulation.problem(formulation.conditions(course))
    some = problem.rows(np.array([3, 90]))
    np.testing.assert_array_equal(some.z, problem.z[[3, 90]])
    np.testing.assert_array_equal(some.place, problem.place[[3, 90]])
