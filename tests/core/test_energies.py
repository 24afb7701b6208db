"""The fitted energy in the user's units."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import scjko as sj
from scjko.core import blocks, motion
from scjko.core.energy.energies import Energy
from scjko.core.energy.models import NeuralPotential
from scjko.core.timeline import Intervals


def make(rng, scheme="both", time_varying=True, n_dims=2):
    n_labels = 2 if scheme == "both" and time_varying else 1
    widths = (n_dims + n_labels, 6, 1)
    weights = {
        f"Dense_{i}": {
            "kernel": rng.normal(size=(m, n)).astype(np.float32),
            "bias": rng.normal(size=n).astype(np.float32),
        }
        for i, (m, n) in enumerate(zip(widths[:-1], widths[1:], strict=True))
    }
    return Energy(
        model=NeuralPotential((6,)),
        weights={"potential": weights},
        intervals=Intervals(np.array([0.0, 1.0, 3.0])),
        scheme=scheme,
        mixing="label" if time_varying else "constant",
        center=np.full(n_dims, 10.0),
        length=5.0,
        speed=0.2,
        offsets=np.array([[0.0, 1.0], [2.0, 3.0]]),
    )


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


def test_which_interval_and_end_answers(rng, x):
    """At a snapshot the interval that starts there; at the last one the last interval from its end."""
    energy = make(rng)
    for t, interval, end in ((0, 0, 0.0), (1, 1, 0.0), (2, 1, 0.5), (3, 1, 1.0)):
        expected = energy.gradient_at(x, np.full(9, interval), np.full(9, end))
        np.testing.assert_array_equal(energy.gradient(x, t), expected)
    assert not np.allclose(energy.gradient(x, 2.99), energy.gradient(x, 0.99))


def test_a_static_energy_is_the_same_at_all_times(rng, x):
    energy = make(rng, time_varying=False)
    np.testing.assert_array_equal(energy.gradient(x, 0), energy.gradient(x, 3))


def test_explicit_steps_follow_the_gradient_one_interval_at_a_time(rng, x):
    energy = make(rng)
    halfway = x - 1.0 * energy.gradient(x, 0)
    np.testing.assert_allclose(energy.step(x, 0, 1), halfway)
    np.testing.assert_allclose(energy.step(x, 0, 2), halfway - 1.0 * energy.gradient(halfway, 1))
    np.testing.assert_allclose(energy.step(x, 3, 5), x - 2.0 * energy.gradient(x, 3))
    np.testing.assert_array_equal(energy.step(x, 1, 1), x)


def test_backward_steps_undo_along_the_end_of_the_interval(rng, x):
    energy = make(rng)
    expected = x + 1.0 * energy.gradient_at(x, np.zeros(9, int), np.ones(9))
    np.testing.assert_allclose(energy.step(x, 1, 0), expected)
    with pytest.raises(ValueError, match="scheme='both' or 'implicit'"):
        make(rng, "explicit").step(x, 1, 0)


def test_implicit_steps_satisfy_their_own_condition(rng, x):
    """y = x − Δ ∇V(y, end): the JKO step."""
    energy = make(rng, "implicit")
    y = energy.step(x, 1, 3)
    slope = energy.gradient_at(y, np.ones(9, int), np.ones(9))
    # The solver's tolerance is 1e-4 of the length, 5.
    np.testing.assert_allclose(y, x - 2 * slope, atol=1e-3)
    np.testing.assert_allclose(energy.step(x, 1, 2), (x + y) / 2)


def test_a_simulation_is_a_chain_of_steps(rng, x):
    energy = make(rng)
    path = energy.simulate(x, [0, 1, 3])
    assert path.shape == (3, 9, 2)
    np.testing.assert_array_equal(path[0], x)
    np.testing.assert_array_equal(path[2], energy.step(energy.step(x, 0, 1), 1, 3))


def test_what_is_asked_for_on_the_way_does_not_change_a_simulation(rng, x):
    """Times inside an interval lie on the straight line of its one step."""
    energy = make(rng)
    fine = energy.simulate(x, np.linspace(0, 5, 21))
    coarse = energy.simulate(x, [0, 1, 3, 5])
    np.testing.assert_allclose(fine[[0, 4, 12, 20]], coarse, rtol=1e-12)
    np.testing.assert_allclose(fine[2], (coarse[0] + coarse[1]) / 2, rtol=1e-12)
    np.testing.assert_allclose(energy.simulate(x, [3, 1, 0])[-1], energy.step(x, 3, 0), rtol=1e-12)


def test_results_do_not_depend_on_the_block_a_point_is_in(rng, monkeypatch):
    energy = make(rng)
    x = rng.normal(10, 5, size=(150, 2))
    whole = energy.gradient(x, 0.5)
    monkeypatch.setattr(blocks, "BLOCKS", (64,))
    # One program for 512 rows and one for 64 round differently in the last bits of float32.
    np.testing.assert_allclose(energy.gradient(x, 0.5), whole, rtol=1e-5)
    assert energy.gradient(np.empty((0, 2)), 0.5).shape == (0, 2)


def test_unsolved_steps_are_reported(rng, x, caplog, monkeypatch):
    monkeypatch.setattr(motion, "proximal", lambda model, weights, z, c, rate: (z, np.arange(len(z)) % 2 == 0))
    energy = make(rng, "implicit")
    assert not energy.move(x, 0, 1).converged.all()
    energy.step(x, 0, 1)
    assert "4 of 9 cells" in caplog.text


def test_bad_questions_are_answered_by_errors(rng, x):
    energy = make(rng)
    with pytest.raises(ValueError, match=r"shape \(9, 3\).*\(n, 2\)"):
        energy.gradient(np.zeros((9, 3)), 0)
    with pytest.raises(ValueError, match="NaN"):
        energy.potential(np.full((1, 2), np.nan), 0)
    with pytest.raises(ValueError, match="one time, or one for each of the 9 points"):
        energy.potential(x, [0, 1])
    with pytest.raises(ValueError, match="'both', 'explicit', 'implicit'"):
        energy.step(x, 0, 1, scheme="leapfrog")
    with pytest.raises(ValueError, match="first snapshot is at 0"):
        energy.step(x, -1, 1)
    for bad in (np.nan, [1.0], "1", None):
        with pytest.raises(ValueError, match="must be one finite time"):
            energy.step(x, 0, bad)
    with pytest.raises(ValueError, match="over 100 times"):
        energy.step(x, 0, 1e9)
    for times in ([], [0, np.nan], [0, 2, 1]):
        with pytest.raises(ValueError, match="times must"):
            energy.simulate(x, times)
    with pytest.raises(ValueError, match="no beta.*'internal' among the terms"):
        energy.beta  # noqa: B018
    with pytest.raises(ValueError, match="no interaction.*'interaction' among the terms"):
        energy.interaction(x)


def test_the_units_of_time_scale_only_the_velocity(adata):
    """Days or hours: the same predictions, velocities 24 times smaller, potentials too."""
    adata.obs["hour"] = 24 * adata.obs["day"]
    options = {"use_rep": "X_latent", "epochs": 30, "progress": False}
    sj.tl.fit_energy(adata, "day", key_added="days", **options)
    sj.tl.fit_energy(adata, "hour", key_added="hours", **options)
    # Rounding of the scaled inputs, amplified by training.
    np.testing.assert_allclose(adata.obsm["hours_predicted"], adata.obsm["days_predicted"], atol=1e-2)
    np.testing.assert_allclose(24 * adata.obsm["hours_velocity"], adata.obsm["days_velocity"], atol=1e-2)


def test_offsets_shift_only_the_potential(rng, x):
    energy = make(rng)
    raised = replace(energy, offsets=energy.offsets + 7)
    np.testing.assert_allclose(raised.potential(x, 1.5) - energy.potential(x, 1.5), 7, rtol=1e-6)
    np.testing.assert_array_equal(raised.gradient(x, 1.5), energy.gradient(x, 1.5))


def test_an_energy_says_what_it_is_in_a_line(fitted):
    """And not all its weights, which would fill the screen of a notebook."""
    energy = sj.get.energy(fitted)
    assert repr(energy) == "Energy(neural potential; 2 dimensions, 5 time points from 0 to 7, scheme='both')"


def test_a_time_that_is_none_is_named(fitted):
    energy, x = sj.get.energy(fitted), fitted.obsm["X_jko"][:3]
    with pytest.raises(ValueError, match="t must be finite, not nan"):
        energy.potential(x, np.nan)
    with pytest.raises(ValueError, match="t must be finite, not inf"):
        energy.potential(x, [0, np.inf, 1])
    with pytest.raises(ValueError, match=r"one for each of the 3 points, not \(2,\)"):
        energy.potential(x, [0, 1])
