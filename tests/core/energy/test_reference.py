"""Everything an energy says, against an implementation in plain numpy and float64 that shares no code with it.

Values, gradients and Hessians of the potential, the force of the interaction, the score, the velocity and the loss, in
the user's units, of a network and of a linear energy with all terms, fitted at both ends or half-way; and the
conditions of optimality of the steps at what they give.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from reference import BETA, TIMES, Reference

from scjko.core.condition import conditions
from scjko.core.energy.density import Mixture
from scjko.core.energy.energy import Energy
from scjko.core.energy.features import linear_potential
from scjko.core.energy.interactions import population
from scjko.core.energy.models import NeuralPotential
from scjko.core.energy.terms import InteractionTerm, InternalTerm, PotentialTerm, Units
from scjko.core.fitting.fit import _explained
from scjko.core.fitting.problem import Course
from scjko.core.motion.proximal import TOLERANCE
from scjko.core.schemes import BOTH, MIDPOINT
from scjko.core.timeline import Timeline
from scjko.core.transport import couple
from scjko.core.variation import Labelled, Separate, Static


def random_network(rng, n_inputs):
    widths = (n_inputs, 8, 8, 1)
    return {
        f"Dense_{i}": {
            "kernel": (rng.normal(size=(m, n)) / np.sqrt(m)).astype(np.float32),
            "bias": rng.normal(size=n).astype(np.float32),
        }
        for i, (m, n) in enumerate(zip(widths[:-1], widths[1:], strict=True))
    }


def random_features(rng, n_mixed):
    model, weights = linear_potential(rng.normal(size=(100, 2)), degree=3, n_centers=4, random_state=0)
    theta = 0.03 * rng.normal(size=(n_mixed, len(model.exponents) + len(weights["centers"])))
    return model, {**weights, "theta": theta.astype(np.float32)}


def random_mixture(rng):
    factors = rng.normal(size=(2, 2, 2))
    precisions = factors @ factors.transpose(0, 2, 1) + np.eye(2)
    return Mixture(np.log([0.6, 0.4]), rng.normal(size=(2, 2)), precisions)


CASES = {
    "neural both": (True, False, False),
    "linear both": (False, False, False),
    "neural half-way, even kernel": (True, True, True),
    "linear half-way": (False, True, False),
}


@pytest.fixture(scope="module", params=CASES.values(), ids=CASES)
def case(request):
    """Snapshots far from zero and of a size other than one, their couplings, an energy of all terms, its reference."""
    rng = np.random.default_rng(0)
    points = [
        50 + 5 * (rng.normal(size=(n, 2)) * np.exp(-t / 3) + [t, 0]) for n, t in zip((10, 14, 12), TIMES, strict=True)
    ]
    neural, static, even = request.param
    timeline, scheme = Timeline(TIMES), MIDPOINT if static else BOTH
    units = Units(np.array([53.0, 50.0]), 5.0, np.array([2.0, 2.0] if static else [3.0, 2.0]))
    course = Course(points, [rng.uniform(size=len(x)) for x in points], couple(points), timeline)
    if neural:
        model, kernel = NeuralPotential((8, 8)), NeuralPotential((8, 8), even)
        potential, interaction = random_network(rng, 2 + (1 if static else 2)), random_network(rng, 2 + 1)
    else:
        (model, potential), (kernel, interaction) = random_features(rng, 1 if static else 4), random_features(rng, 1)
    variation = Static() if static else Labelled() if neural else Separate()
    inner = {
        place: (units.inner(x).astype(np.float64), w) for place in course.places(scheme) for x, w in [course.at(place)]
    }
    populations = {place: population(z, w, 0) for place, (z, w) in inner.items()}
    energy = Energy(
        PotentialTerm(model, potential, units, timeline, scheme, variation, rng.normal(size=(2, 2))),
        InteractionTerm(kernel, interaction, units, 1.5, populations),
        InternalTerm(BETA, units, {place: random_mixture(rng) for place in inner}),
    )
    return course, energy, Reference(energy, neural, static, even)


def places(course, scheme):
    for k in range(len(course.points) - 1):
        for anchor in scheme.anchors:
            yield k, anchor, course.at(k + anchor)[0]


#: Float32 against float64, as a fraction of the largest value: sums of tens of terms that partly cancel.
ROUNDING = 3e-5


def close(found, expected, tolerance=ROUNDING):
    expected = np.asarray(expected)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.abs(expected).max())


def test_populations_are_those_of_every_place(case):
    """At both ends the snapshots; half-way also the middles of intervals, which the condition there is about."""
    course, energy, reference = case
    expected = [0, 0.5, 1, 1.5, 2] if reference.static else [0, 1, 2]
    assert sorted(energy.interaction_term.populations) == expected
    if reference.static:
        plan = course.couplings[0]
        ahead = plan.partners(course.points[1])
        np.testing.assert_allclose(course.at(0.5)[0][:10], (course.points[0] + ahead) / 2)


def test_potential_and_gradient(case):
    course, energy, reference = case
    for k, anchor, x in places(course, energy.scheme):
        place = x, np.full(len(x), k), np.full(len(x), float(anchor))
        close(energy.potential_at(*place), [reference.potential(p, k, anchor) for p in x], 1e-4)
        close(energy.gradient_at(*place), [reference.gradient(p, k, anchor) for p in x])


def test_gradient_and_hessian_are_derivatives(case):
    """Central differences of the float64 potential and gradient at the last snapshot, which has one reading."""
    course, energy, reference = case
    x, h = course.points[2], 1e-3
    steps, place = h * np.eye(2), (1, 0.5 if reference.static else 1.0)
    slope = [
        [(reference.potential(p + s, *place) - reference.potential(p - s, *place)) / (2 * h) for s in steps] for p in x
    ]
    close(energy.gradient(x, TIMES[2]), slope)
    curvature = [
        [(reference.gradient(p + s, *place) - reference.gradient(p - s, *place)) / (2 * h) for s in steps] for p in x
    ]
    close(energy.hessian(x, TIMES[2]), curvature, 1e-4)


def test_interaction(case, rng):
    _, energy, reference = case
    z, length, speed = rng.normal(size=(20, 2)) * 5, energy.units.length, energy.interaction_term.speed
    zero, push = reference.kernel(np.zeros(2))
    found = [reference.kernel(away / length) for away in z]
    close(energy.interaction_gradient(z), [speed * (slope - push) for _, slope in found])
    close(
        energy.interaction(z),
        [speed * length * (v - zero - push @ a / length) for (v, _), a in zip(found, z, strict=True)],
    )
    assert np.allclose(energy.interaction(-z), energy.interaction(z), atol=1e-4) == reference.even


def test_slope_of_all_terms_where_the_condition_holds(case):
    course, energy, reference = case
    for k, anchor, x in places(course, energy.scheme):
        place = x, np.full(len(x), k), np.full(len(x), float(anchor))
        close(energy.slope_at(*place), [reference.slope(p, k, anchor) for p in x])


def test_velocity_of_all_terms_is_that_of_the_field(case):
    """At snapshots the readings of both sides, and between two of them those of either, the nearer with more weight."""
    course, energy, reference = case
    for k, x in enumerate(course.points):
        close(energy.velocity(x, TIMES[k]), [reference.field(p, k) for p in x])
    x = course.points[1]
    between = [0.25 * reference.field(p, 1) + 0.75 * reference.field(p, 2) for p in x]
    close(energy.velocity(x, 0.25 * TIMES[1] + 0.75 * TIMES[2]), between)


def test_the_loss_is_that_of_every_cell_and_its_partners(case):
    """Σ_k ∫‖Δ(∇J(z) + v)‖² dγ less what no energy can change, over the same of a zero energy."""
    course, energy, reference = case
    left = total = 0.0
    for k, anchor, z in places(course, energy.scheme):
        coupling, gap = course.couplings[k], TIMES[k + 1] - TIMES[k]
        plan = np.zeros(coupling.shape)
        np.add.at(plan, (coupling.source, coupling.target), coupling.weight)
        x, y = course.points[k], course.points[k + 1]
        ahead = plan @ y / plan.sum(axis=1)[:, None] - x
        behind = y - plan.T @ x / plan.sum(axis=0)[:, None]
        move, mass = {
            0.0: (ahead, plan.sum(axis=1)),
            1.0: (behind, plan.sum(axis=0)),
            0.5: (np.concatenate([ahead, behind]), np.concatenate([plan.sum(axis=1), plan.sum(axis=0)]) / 2),
        }[anchor]
        slope = np.array([reference.slope(p, k, anchor) for p in z])
        left += mass @ np.sum((gap * slope + move) ** 2, axis=1)
        total += mass @ np.sum(move**2, axis=1)
    rows = conditions(course.points, course.couplings, course.timeline, energy.scheme)
    assert _explained(energy, rows)[1] == pytest.approx(left / total, rel=1e-4)


def test_a_proximal_step_ends_where_its_conditions_of_optimality_hold(case):
    """At m, on the line from x to y: the slope of pΔ(V + ∫U dμ)(m) + ½‖m − x‖² is zero and its curvature positive.

    It is also below its start. p is the anchor: one for an implicit step, a half for one of the midpoint rule.
    """
    course, energy, reference = case
    points, units = course.points, energy.units
    still = replace(energy, internal_term=None)  # the step alone, without the noise that follows it
    moved = still.move(points[0], *TIMES[:2], scheme=None if reference.static else "implicit")
    anchor = 0.5 if reference.static else 1.0
    assert moved.converged.mean() > 0.9
    rate = anchor * (TIMES[1] - TIMES[0]) * units.speed[0] / units.length
    share, inputs = energy.interaction_term.speed / units.speed[0], reference.inputs(0, anchor)

    def value_and_slope(w, z):
        (alone, down), (among, felt) = reference.value_and_slope("potential", w, inputs), reference.felt(w, anchor)
        return rate * (alone + share * among) + np.sum((w - z) ** 2) / 2, rate * (down + share * felt) + w - z

    h = 1e-4 * np.eye(2)
    for x, y in zip(points[0][moved.converged], moved.positions[moved.converged], strict=True):
        z, w = reference.inner(x), reference.inner(x + anchor * (y - x))
        value, slope = value_and_slope(w, z)
        # Up to what float32 makes of the slope that the solver saw.
        assert np.linalg.norm(slope) < 2 * TOLERANCE
        assert value <= value_and_slope(z, z)[0] + 1e-6
        curvature = np.array([(value_and_slope(w + e, z)[1] - value_and_slope(w - e, z)[1]) / 2e-4 for e in h])
        assert np.linalg.eigvalsh((curvature + curvature.T) / 2).min() > 0
