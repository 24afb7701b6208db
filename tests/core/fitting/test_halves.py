"""Cells dealt out in parts that are coupled separately."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.fitting.halves import MAX_CELLS, MAX_HALVINGS, followed, halves, halvings
from scjko.core.fitting.problem import Course
from scjko.core.growth.estimate import known_growth
from scjko.core.timeline import Timeline
from scjko.core.transport import Partial, couple, exact, grown, uniform, within


def course_of(points, weights=None):
    weights = [np.full(len(x), 1 / len(x)) for x in points] if weights is None else weights
    return Course(points, weights, couple(points, weights), Timeline(np.arange(float(len(points)))))


def test_every_cell_is_in_one_half_and_each_half_has_couplings_of_its_own(rng):
    course = course_of([rng.normal(size=(n, 2)) for n in (21, 30, 24)])
    parts = halves(course, 0)
    for k, x in enumerate(course.points):
        together = np.concatenate([part.points[k] for part in parts])
        np.testing.assert_array_equal(together[np.lexsort(together.T)], x[np.lexsort(x.T)])
        assert abs(len(parts[0].points[k]) - len(parts[1].points[k])) <= 1
    for part in parts:
        assert [w.sum() for w in part.weights] == pytest.approx([1, 1, 1])
        for k, coupling in enumerate(part.couplings):
            assert coupling.cost == pytest.approx(exact(part.points[k], part.points[k + 1]).cost)


def test_halves_follow_the_seed(rng):
    course = course_of([rng.normal(size=(20, 2)) for _ in range(2)])
    one, again, other = (halves(course, seed)[0].points[0] for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, again)
    assert one.shape == other.shape and not np.array_equal(one, other)


def test_weights_go_along_and_cells_without_weight_are_left_out(rng):
    points = [np.arange(40.0).reshape(20, 2), rng.normal(size=(20, 2))]
    weight = np.where(np.arange(20) % 4 == 0, 0.0, np.arange(20) + 1.0)
    course = course_of(points, [weight / weight.sum(), np.full(20, 1 / 20)])
    for part in halves(course, 0):
        chosen = (part.points[0][:, 0] / 2).astype(int)
        assert (weight[chosen] > 0).all()
        np.testing.assert_allclose(part.weights[0], weight[chosen] / weight[chosen].sum())


def test_large_snapshots_are_cut_and_tiny_ones_are_in_both(rng):
    course = course_of([rng.normal(size=(n, 2)) for n in (3, 50)])
    for part in halves(course, 0, most=10):
        np.testing.assert_array_equal(part.points[0], course.points[0])
        assert len(part.points[1]) == 10


@pytest.mark.parametrize(("n", "times"), [(30, MAX_HALVINGS), (MAX_CELLS, 2), (2 * MAX_CELLS, 1), (3 * MAX_CELLS, 1)])
def test_few_cells_are_halved_again_and_again_and_many_once(rng, monkeypatch, n, times):
    monkeypatch.setattr("scjko.core.fitting.halves._coupled", lambda *pair: None)  # how often is asked, not how
    points, weights = [rng.normal(size=(size, 2)) for size in (20, n)], [np.ones(20), np.ones(n)]
    course = Course(points, weights, [exact(points[0], points[1][:20])], Timeline([0.0, 1.0]))
    found = halvings(course, 0)
    assert len(found) == times
    first = [parts[0].points[1] for parts in found]
    assert all(not np.array_equal(first[0], other) for other in first[1:])
    np.testing.assert_array_equal(first[0], halves(course, 0)[0].points[1])


def test_halves_leave_over_what_is_as_far_apart_as_in_a_partial_coupling_of_all(rng):
    """Else they would be judged by mass that crosses where none does, and be dearer than the whole by that."""
    x = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(40, 2)) + 20])
    y = np.concatenate([rng.normal(size=(50, 2)), rng.normal(size=(50, 2)) + 20])
    weights = [np.full(100, 0.01)] * 2
    course = Course([x, y], weights, couple([x, y], weights, Partial(price=3)), Timeline([0.0, 1.0]))
    (cap,) = {coupling.cap for coupling in course.couplings}
    for part in halves(course, 0):
        (coupling,) = part.couplings
        assert coupling.cost < 5 and coupling.dropped > 0
        whole = exact(*part.points, cap=cap)
        assert coupling.cost == pytest.approx(within(whole, *part.points, cap).cost)
    assert not followed(course, halves(course, 0))
    # Cells of which no two are near enough are coupled whatever the distance.
    far = Course([x, y + 1e3], weights, course.couplings, course.timeline)
    assert all(part.couplings[0].cost > 1e5 for part in halves(far, 0))


@pytest.mark.parametrize("n_dims", [1, 2, 5])
def test_followed_particles_are_distinguished_from_different_cells(rng, n_dims):
    """A population that moves by a tenth of its spread: the same particles, or others."""
    x = rng.normal(size=(200, n_dims))
    for same in (True, False):
        y = (rng.permutation(x) if same else rng.normal(size=(200, n_dims))) + 0.1
        course = course_of([x, y])
        assert followed(course, halves(course, 0)) == same


def test_halves_grow_as_the_whole_does(rng):
    points = [rng.normal(size=(40, 2)), rng.normal(size=(40, 2))]
    weights, timeline = [uniform(x) for x in points], Timeline(np.array([0.0, 2.0]))
    growth = known_growth(points, weights, timeline, [x[:, 0] for x in points])
    couplings = couple(points, weights, gains=growth.gains)
    for half in halves(Course(points, weights, couplings, timeline, growth), 0):
        gain = 2 * half.points[0][:, 0]
        np.testing.assert_allclose(half.couplings[0].source_weight, grown(uniform(gain), gain), atol=1e-12)


def test_matched_halves_have_as_many_cells_in_every_branch(rng):
    """By chance the halves of 200 cells in two branches differ by some ten cells."""
    points = [np.concatenate([rng.normal(size=(n, 2)), rng.normal(size=(200 - n, 2)) + 20.0]) for n in (100, 60)]
    course = course_of(points)
    for part in halves(course, 0, matched=True):
        for own, n in zip(part.points, (100, 60), strict=True):
            assert len(own) == 100
            assert abs(int((own[:, 0] < 10).sum()) - n // 2) <= 1
    together = np.concatenate([part.points[0] for part in halves(course, 0, matched=True)])
    np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(points[0], axis=0))
