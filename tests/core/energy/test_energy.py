"""The fitted energy in the user's units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scjko.core.compute import blocks
from scjko.core.energy.energy import Energy
from scjko.core.energy.models import NeuralPotential
from scjko.core.energy.terms import PotentialTerm, Units
from scjko.core.motion import lines
from scjko.core.motion.forecast import Forecast
from scjko.core.schemes import scheme_of
from scjko.core.timeline import Timeline
from scjko.core.variation import Labelled, Static

TIMES = np.array([0.0, 1.0, 3.0])


def make(rng, scheme="both", time_varying=True, n_dims=2):
    where = scheme_of(scheme, static=not time_varying)
    widths = (n_dims + len(where.anchors), 6, 1)
    weights = {
        f"Dense_{i}": {
            "kernel": rng.normal(size=(m, n)).astype(np.float32),
            "bias": rng.normal(size=n).astype(np.float32),
        }
        for i, (m, n) in enumerate(zip(widths[:-1], widths[1:], strict=True))
    }
    variation = Labelled() if time_varying else Static()
    # A displacement of the same size in each interval, as fits have it, or one speed.
    units = Units(np.full(n_dims, 10.0), 5.0, np.array([0.4, 0.2]) if time_varying else np.full(2, 0.3))
    offsets = np.array([[0.0, 1.0], [2.0, 3.0]]) if time_varying else np.zeros((2, 2))
    potential = PotentialTerm(NeuralPotential((6,)), weights, units, Timeline(TIMES), where, variation, offsets)
    return Energy(potential)


@pytest.fixture
def x(rng):
    return rng.normal(10, 5, size=(9, 2))


@pytest.mark.parametrize("scheme", ["both", "explicit", "implicit"])
@pytest.mark.parametrize("time_varying", [True, False])
def test_gradient_and_hessian_are_derivatives_in_the_users_units(rng, x, scheme, time_varying):
    energy = make(rng, scheme, time_varying)
    t, h = np.linspace(0, 3, 9), 0.02
    numeric = np.stack(
        [(energy.potential(x + h * e, t) - energy.potential(x - h * e, t)) / (2 * h) for e in np.eye(2)], axis=1
    )
    # Central differences of float32 potentials of order one, over 0.04.
    np.testing.assert_allclose(energy.gradient(x, t), numeric, atol=1e-4)
    curvature = np.stack(
        [(energy.gradient(x + h * e, t) - energy.gradient(x - h * e, t)) / (2 * h) for e in np.eye(2)], axis=2
    )
    np.testing.assert_allclose(energy.hessian(x, t), curvature, atol=1e-4)


def test_the_field_at_a_snapshot_is_the_mean_of_the_secants_on_either_side(rng, x):
    """Each weighted by the length of the other interval: here gaps of one and two."""
    energy = make(rng)

    def at(interval, anchor):
        return energy.gradient_at(x, np.full(9, interval), np.full(9, anchor))

    np.testing.assert_array_equal(energy.gradient(x, 0), at(0, 0.0))
    inner = 2 / 3 * at(0, 1.0) + 1 / 3 * at(1, 0.0)
    np.testing.assert_allclose(energy.gradient(x, 1), inner, rtol=1e-12)
    np.testing.assert_array_equal(energy.gradient(x, 3), at(1, 1.0))
    np.testing.assert_allclose(energy.gradient(x, 2.5), 0.25 * inner + 0.75 * at(1, 1.0), rtol=1e-12)
    np.testing.assert_array_equal(energy.velocity(x, 1), -energy.gradient(x, 1))
    assert not np.allclose(at(0, 1.0), at(1, 0.0))


@pytest.mark.parametrize(("scheme", "intervals"), [("explicit", (0, 1, 1)), ("implicit", (0, 0, 1))])
def test_with_one_end_the_field_is_the_secant_anchored_at_the_snapshot(rng, x, scheme, intervals):
    energy = make(rng, scheme)
    anchor = float(scheme == "implicit")
    for t, k in zip(TIMES, intervals, strict=True):
        expected = energy.gradient_at(x, np.full(9, k), np.full(9, anchor))
        np.testing.assert_array_equal(energy.gradient(x, t), expected)


def test_potential_and_gradient_are_read_alike_for_many_times_at_once(rng, x):
    energy = make(rng)
    t = np.linspace(-1, 4, 9)
    for read in (energy.potential, energy.gradient, energy.hessian, energy.velocity):
        one_by_one = np.concatenate([read(x[[i]], t[i]) for i in range(9)])
        np.testing.assert_allclose(read(x, t), one_by_one, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(read(x, -1), read(x, 0))
        np.testing.assert_array_equal(read(x, 9), read(x, 3))


@pytest.mark.parametrize("scheme", ["both", "explicit", "implicit"])
def test_a_static_energy_is_the_same_at_all_times(rng, x, scheme):
    energy = make(rng, scheme, time_varying=False)
    np.testing.assert_array_equal(energy.gradient(x, 0), energy.gradient(x, 3))
    np.testing.assert_allclose(energy.gradient(x, 0.7), energy.gradient(x, 3), rtol=1e-12)


def test_explicit_steps_follow_the_forward_map_one_interval_at_a_time(rng, x):
    """The map of an interval, from its start, and not the field, which is the mean of two."""
    energy = make(rng)

    def slope(z, k):
        return energy.gradient_at(z, np.full(9, k), np.zeros(9))

    halfway = x - 1.0 * slope(x, 0)
    np.testing.assert_allclose(energy.step(x, 0, 1), halfway)
    np.testing.assert_allclose(energy.step(x, 0, 2), halfway - 1.0 * slope(halfway, 1))
    np.testing.assert_array_equal(energy.step(x, 1, 1), x)


def test_backward_steps_undo_along_the_end_of_the_interval(rng, x):
    energy = make(rng)
    expected = x + 1.0 * energy.gradient_at(x, np.zeros(9, int), np.ones(9))
    np.testing.assert_allclose(energy.step(x, 1, 0), expected)
    with pytest.raises(ValueError, match="scheme='both' or 'implicit'"):
        make(rng, "explicit").step(x, 1, 0)


def test_implicit_steps_satisfy_their_own_condition(rng, x):
    """y = x − Δ ∇V(y, end): the JKO step; half of it is half-way."""
    energy = make(rng, "implicit")
    y = energy.step(x, 1, 3)
    slope = energy.gradient_at(y, np.ones(9, int), np.ones(9))
    # The solver's tolerance is 1e-4 of the length, 5.
    np.testing.assert_allclose(y, x - 2 * slope, atol=1e-3)
    np.testing.assert_allclose(energy.step(x, 1, 2), (x + y) / 2)


def test_a_static_fit_of_both_steps_by_the_midpoint_rule(rng, x):
    """y = x − Δ ∇V((x + y) / 2), forward and back."""
    energy = make(rng, time_varying=False)
    for t0, t1 in ((1, 3), (3, 1)):
        y = energy.step(x, t0, t1)
        slope = energy.gradient((x + y) / 2, 0)
        np.testing.assert_allclose(y, x - (t1 - t0) * slope, atol=2e-3)


def test_a_simulation_is_a_chain_of_steps(rng, x):
    energy = make(rng)
    path = energy.simulate(x, [0, 1, 3])
    assert path.shape == (3, 9, 2)
    np.testing.assert_array_equal(path[0], x)
    np.testing.assert_array_equal(path[2], energy.step(energy.step(x, 0, 1), 1, 3))


def test_results_do_not_depend_on_the_block_a_point_is_in(rng, monkeypatch):
    energy = make(rng)
    x = rng.normal(10, 5, size=(600, 2))
    whole = energy.gradient(x, 0.5)
    monkeypatch.setattr(blocks, "BLOCKS", (64,))
    # One program for 512 rows and one for 64 round differently in the last bits of float32.
    np.testing.assert_allclose(energy.gradient(x, 0.5), whole, rtol=1e-5)
    for read in (energy.gradient, energy.velocity):
        assert read(np.empty((0, 2)), 0.5).shape == (0, 2)


def test_unsolved_steps_are_reported(rng, x, caplog, monkeypatch):
    def unsolved(model, weights, z, start, c, rate):
        return z, np.zeros(len(z), np.float32), np.arange(len(z)) % 2 == 0

    monkeypatch.setattr(lines, "proximal", unsolved)
    energy = make(rng, "implicit")
    assert not energy.move(x, 0, 1).converged.all()
    energy.step(x, 0, 1)
    assert "4 of 9 cells" in caplog.text


def test_forecasts_are_announced_and_those_that_were_not_earned_warned_of(rng, x, caplog):
    energy = replace(make(rng), forecast=Forecast(0.25, 0.5, 2))
    last = energy.times[-1]
    with caplog.at_level("INFO", "scjko"):
        energy.announce_forecast([0, last])
        assert not caplog.records
        energy.step(x, 0, last + 1)
    assert [record.levelname for record in caplog.records] == ["INFO"]
    assert f"Forecast to {last + 1:g}, beyond the last time point ({last:g})." in caplog.text
    caplog.clear()
    replace(energy, forecast=Forecast(0.25, 0.99, 2)).step(x, 0, last + 1)
    assert "do not rely on it, on known snapshots its error was 0.99 times that of not moving" in caplog.text


def test_bad_questions_are_answered_by_errors(rng, x):
    energy = make(rng)
    with pytest.raises(ValueError, match=r"shape \(9, 3\).*\(n, 2\)"):
        energy.gradient(np.zeros((9, 3)), 0)
    with pytest.raises(ValueError, match="NaN"):
        energy.potential(np.full((1, 2), np.nan), 0)
    with pytest.raises(ValueError, match=r"one time, or one for each of the 9 points, not \(2,\)"):
        energy.potential(x, [0, 1])
    with pytest.raises(ValueError, match="t must be finite, not nan"):
        energy.potential(x, np.nan)
    with pytest.raises(ValueError, match="t must be finite, not inf"):
        energy.velocity(x[:3], [0, np.inf, 1])
    with pytest.raises(ValueError, match="'both', 'explicit', 'implicit'"):
        energy.step(x, 0, 1, scheme="leapfrog")
    with pytest.raises(ValueError, match="first snapshot is at 0"):
        energy.step(x, -1, 1)
    for bad in (np.nan, [1.0], "1", None):
        with pytest.raises(ValueError, match="must be one finite time"):
            energy.step(x, 0, bad)
    with pytest.raises(ValueError, match="more than 100 times"):
        energy.step(x, 0, 1e9)
    for times in ([], [0, np.nan], [0, 2, 1]):
        with pytest.raises(ValueError, match="times must"):
            energy.simulate(x, times)
    with pytest.raises(ValueError, match="no beta.*'internal' among the terms"):
        energy.beta  # noqa: B018
    with pytest.raises(ValueError, match="no interaction.*'interaction' among the terms"):
        energy.interaction(x)


def test_offsets_shift_only_the_potential(rng, x):
    energy = make(rng)
    raised = replace(energy, potential_term=replace(energy.potential_term, offsets=energy.potential_term.offsets + 7))
    for t in (0, 1, 1.5, 3):
        np.testing.assert_allclose(raised.potential(x, t) - energy.potential(x, t), 7, rtol=1e-6)
    np.testing.assert_array_equal(raised.gradient(x, 1.5), energy.gradient(x, 1.5))


def test_an_energy_says_what_it_is_in_a_line(rng):
    """And not all its weights, which would fill the screen of a notebook."""
    expected = "Energy(neural potential; 2 dimensions, 3 time points from 0 to 3, scheme='both')"
    assert repr(make(rng)) == repr(make(rng, time_varying=False)) == expected
