"""Kantorovich potentials from couplings: they send coupled cells to their partners, forward and back."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.fitting.fit import fit
from scjko.core.fitting.parametrizations import Kantorovich
from scjko.core.fitting.problem import Course
from scjko.core.fitting.stacked import envelopes
from scjko.core.fitting.stacked.envelopes import Envelope, members, softnesses
from scjko.core.timeline import Timeline
from scjko.core.transport import couple


def course_of(points):
    weights = [np.full(len(x), 1 / len(x)) for x in points]
    return Course(points, weights, couple(points), Timeline(np.arange(float(len(points)))))


@pytest.fixture
def course(rng):
    """Cells that go to either side, which no smooth map does."""
    x, y = rng.normal(size=(2, 60, 2))
    return course_of([x, y + np.where(y[:, :1] > 0, 2.0, -2.0) * [1, 0], rng.normal(size=(45, 2)) + [0, 3]])


def test_the_envelope_of_a_plan_touches_its_dual_potential_at_every_cell(course):
    x, y, coupling = *course.points[1:], course.couplings[1]
    envelope = Envelope.of(x, y, coupling)
    parabolas = np.sum((x[:, None] - envelope.points) ** 2, axis=2) - envelope.heights
    np.testing.assert_allclose(parabolas.min(axis=1), coupling.duals[0], atol=1e-9)


def test_one_plan_sends_cells_to_their_partners_forward_and_back(course):
    """The first-order condition holds without training.

    Not at every cell: the potentials of a simplex are also tight at some pairs that share no mass, so that a cell may
    stand where two parabolas meet and go half-way between two partners.
    """
    found = fit(
        course.points,
        course.couplings,
        course.timeline,
        parametrization=Kantorovich(n_members=1, softness=1e-4),
    )
    assert (found.explained > 0.9).all()
    energy, (x, y, _), coupling = found.energy, course.points, course.couplings[0]
    for moved, there in (
        (energy.step(x, 0.0, 1.0), coupling.partners(y)),
        (energy.step(y, 1.0, 0.0), coupling.transposed.partners(x)),
    ):
        assert np.mean(np.sum((moved - there) ** 2, axis=1)) < 0.1 * coupling.cost


def test_potentials_of_both_ends_differ_by_what_a_pair_pays(course):
    """Hopf and Lax: V(x, start) − V(y, end) = ‖x − y‖² / 2Δ on every coupled pair, up to one constant."""
    found = fit(
        course.points, course.couplings, course.timeline, parametrization=Kantorovich(n_members=1, softness=1e-4)
    )
    coupling, (x, y, _) = course.couplings[0], course.points
    start, end = (np.zeros(len(side)) for side in (x, y))
    fall = (
        found.energy.potential_at(x, np.zeros(len(x), int), start)[coupling.source]
        - found.energy.potential_at(y, np.zeros(len(y), int), end + 1)[coupling.target]
    )
    paid = np.sum((x[coupling.source] - y[coupling.target]) ** 2, axis=1) / 2
    assert np.std(fall - paid) < 0.01 * np.std(paid)


def test_members_are_all_cells_two_by_two(course):
    parts = members(course, 4, random_state=0)
    assert len(parts) == 4
    for one, other in (parts[:2], parts[2:]):
        together = np.concatenate([one.points[0], other.points[0]])
        np.testing.assert_array_equal(np.sort(together, axis=0), np.sort(course.points[0], axis=0))
    assert not np.array_equal(parts[0].points[0], parts[2].points[0])


def test_one_member_is_all_cells_with_the_couplings_they_have(course):
    assert members(course, 1, random_state=0)[0] is course


def test_large_snapshots_have_fewer_members_and_no_more_parabolas_than_are_evaluated_in_time(course, monkeypatch):
    monkeypatch.setattr(envelopes, "FEWEST_PARABOLAS", 10)
    monkeypatch.setattr(envelopes, "MOST_PARABOLAS", 40)
    parts = members(course, 8, random_state=0)
    assert len(parts) == 2
    assert all(len(x) <= 20 for part in parts for x in part.points)


def test_softness_is_a_part_of_the_cost_without_the_shift_of_the_mean(course):
    shifted = [course.points[0], course.points[1] + [0.0, 100.0], course.points[2]]
    np.testing.assert_allclose(softnesses(course_of(shifted), 0.1)[0], softnesses(course, 0.1)[0], rtol=1e-6)
    x, y = course.points[:2]
    cost = course.couplings[0].cost - np.sum((y.mean(axis=0) - x.mean(axis=0)) ** 2)
    assert softnesses(course, 0.1)[0] == pytest.approx(0.1 * cost)
