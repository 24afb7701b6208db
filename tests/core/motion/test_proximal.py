"""The proximal step: its optimality condition, a global minimiser, and points that cannot be solved."""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from scjko.core.energy.models import Everywhere, gradients
from scjko.core.motion import proximal as steps
from scjko.core.motion.proximal import TOLERANCE, objectives, proximal

NO_INPUTS = np.zeros((200, 0), np.float32)


def unjitted(model, z, rate):
    """The step outside of its compiled program, so that changed constants count."""
    start = jnp.asarray(z)
    return steps.proximal.__wrapped__(model, {}, start, start, jnp.asarray(NO_INPUTS), jnp.float32(rate))


@dataclass(frozen=True)
class Quadratic(Everywhere):
    def value(self, weights, z, c):
        return 1.5 * jnp.sum(z * z)


@dataclass(frozen=True)
class DoubleWell(Everywhere):
    """Hilly enough that rate · V + ½‖w − z‖² is far from convex."""

    def value(self, weights, z, c):
        return jnp.sum(z**4 - 8 * z**2)


def test_quadratic_potentials_are_solved_in_closed_form(rng):
    z = rng.normal(size=(200, 3)).astype(np.float32)
    solved = proximal(Quadratic(), {}, z, z, NO_INPUTS, np.float32(0.7))
    assert solved.converged.all()
    np.testing.assert_allclose(solved.points, z / (1 + 0.7 * 3), atol=1e-5)


def test_non_convex_potentials_are_solved_to_a_lower_stationary_point(rng):
    z = rng.uniform(-4, 4, size=(200, 2)).astype(np.float32)
    rate = 0.3
    solved = proximal(DoubleWell(), {}, z, z, NO_INPUTS, np.float32(rate))
    assert solved.converged.all()
    w = np.asarray(solved.points)
    slope = rate * np.asarray(gradients(DoubleWell(), {}, w, NO_INPUTS)) + w - z
    # A little above the solver's tolerance: evaluated outside of its program, float32 rounds otherwise.
    assert np.linalg.norm(slope, axis=1).max() < 2 * TOLERANCE
    value = rate * (w**4 - 8 * w**2).sum(axis=1) + ((w - z) ** 2).sum(axis=1) / 2
    start = rate * (z**4 - 8 * z**2).sum(axis=1)
    assert (value <= start + 1e-4).all()
    curvature = rate * (12 * w**2 - 16) + 1
    assert (curvature > -1e-3).all(), "a saddle or a maximum is not a proximal point"


def test_fixed_point_iteration_would_not_do(rng):
    """What the step replaces: z ← z₀ − rate ∇V(z) leaves most points of the same problem unsolved."""
    z0 = rng.uniform(-4, 4, size=(200, 2))
    z = z0.copy()
    for _ in range(50):
        z = np.clip(z0 - 0.3 * (4 * z**3 - 16 * z), -100, 100)
    residual = np.linalg.norm(z - z0 + 0.3 * (4 * z**3 - 16 * z), axis=1)
    assert (residual > TOLERANCE).mean() > 0.5


def test_points_left_unsolved_are_flagged(rng, monkeypatch):
    monkeypatch.setattr(steps, "MAX_ITERATIONS", 2)
    z = rng.uniform(-4, 4, size=(200, 2)).astype(np.float32)
    solved = unjitted(DoubleWell(), z, 0.3)
    assert 0 < solved.converged.sum() < 200


@pytest.mark.parametrize("n_dims", [1, 7])
def test_any_number_of_dimensions(rng, n_dims):
    z = rng.normal(size=(200, n_dims)).astype(np.float32)
    assert proximal(DoubleWell(), {}, z, z, NO_INPUTS, np.float32(0.1)).converged.all()


@dataclass(frozen=True)
class Abyss(Everywhere):
    """Falls without end."""

    def value(self, weights, z, c):
        return -jnp.sum(z**4)


def test_cells_do_not_fall_out_of_the_picture(rng):
    z = rng.normal(size=(200, 2)).astype(np.float32) + 3
    solved = proximal(Abyss(), {}, z, z, NO_INPUTS, np.float32(1.0))
    assert not solved.converged.any()
    assert np.linalg.norm(solved.points - z, axis=1).max() < steps.FARTHEST + steps.LONGEST_MOVE


def test_a_point_that_counts_as_solved_is_solved_to_a_ten_thousandth(rng):
    """In numbers and not by the solver's own constant, which would let it grow."""
    z = rng.uniform(-4, 4, size=(200, 2)).astype(np.float32)
    solved = proximal(DoubleWell(), {}, z, z, NO_INPUTS, np.float32(0.3))
    w = np.asarray(solved.points, np.float64)
    assert np.linalg.norm(0.3 * (4 * w**3 - 16 * w) + w - z, axis=1).max() < 1.2e-4


@dataclass(frozen=True)
class Valley(Everywhere):
    """Steep walls and a sharp bottom: Newton's steps, each of which is short enough, jump from wall to wall."""

    def value(self, weights, z, c):
        return 10 * jnp.sum(jnp.sqrt(1e-4 + z * z))


def test_steps_that_go_uphill_are_refused(rng):
    z = rng.uniform(-3, 3, size=(200, 2)).astype(np.float32)
    solved = proximal(Valley(), {}, z, z, NO_INPUTS, np.float32(1.0))
    assert solved.converged.all()
    w = np.asarray(solved.points, np.float64)
    # 10 w / √(1e-4 + w²) = z − w: nearly at the bottom, on the side where the point came from.
    np.testing.assert_allclose(w, 1e-3 * z, atol=2e-4)


@dataclass(frozen=True)
class HighUp(Everywhere):
    """A bowl whose height drowns what a step gains in it: float32 tells 3000 from 3000.0002, but no closer."""

    def value(self, weights, z, c):
        return 3000 + 1.5 * jnp.sum(z * z) + jnp.sum(jnp.sin(3 * z))


def test_rounding_of_the_height_does_not_stop_a_step(rng):
    z = rng.normal(size=(200, 3)).astype(np.float32)
    solved = proximal(HighUp(), {}, z, z, NO_INPUTS, np.float32(1.0))
    assert solved.converged.all()
    w = np.asarray(solved.points, np.float64)
    np.testing.assert_allclose(3 * w + 3 * np.cos(3 * w) + w - z, 0, atol=2e-4)


def test_one_iteration_goes_at_most_half_a_spread(rng, monkeypatch):
    monkeypatch.setattr(steps, "MAX_ITERATIONS", 1)
    z = rng.normal(size=(200, 2)).astype(np.float32) + 3
    moved = unjitted(Quadratic(), z, 10.0)
    distance = np.linalg.norm(moved.points - z, axis=1)
    np.testing.assert_allclose(distance, 0.5, rtol=1e-4)


def test_no_point_is_carried_further_than_five_spreads_and_a_step(rng):
    z = rng.normal(size=(200, 2)).astype(np.float32) + 3
    solved = proximal(Abyss(), {}, z, z, NO_INPUTS, np.float32(1.0))
    distance = np.linalg.norm(solved.points - z, axis=1)
    assert distance.min() >= 5 and distance.max() < 5.51


@dataclass(frozen=True)
class Tilted(Everywhere):
    """A bowl whose axes are not those of the coordinates: what one coordinate feels depends on the others."""

    def value(self, weights, z, c):
        return jnp.sum(z * z) + 1.8 * z[0] * z[1]


def test_one_newton_step_solves_a_quadratic_potential_of_any_orientation(rng, monkeypatch):
    monkeypatch.setattr(steps, "MAX_ITERATIONS", 1)
    z = rng.uniform(-0.3, 0.3, size=(200, 2)).astype(np.float32)
    solved = unjitted(Tilted(), z, 0.5)
    expected = z @ np.linalg.inv(np.eye(2) + 0.5 * np.array([[2, 1.8], [1.8, 2]]))
    np.testing.assert_allclose(solved.points, expected, atol=1e-5)
    assert solved.converged.all()


def alone(*z):
    """One point, and what is known of its place: nothing."""
    return np.array([z], np.float32), np.zeros((1, 0), np.float32)


@dataclass(frozen=True)
class Ledge(Everywhere):
    """A narrow hole, and next to it a ledge high above where the slope is small."""

    def value(self, weights, z, c):
        return jnp.sum(-5 * jnp.exp(-200 * z * z) + 3 * (z + 0.42) ** 2)


def test_a_small_slope_higher_up_is_not_taken_for_a_solution():
    """Newton's first step leads out of the hole to the ledge, where the slope is a hundredth of what it was."""
    z, c = alone(0.0475)
    solved = proximal(Ledge(), {}, z, z, c, np.float32(1.0))
    assert solved.converged.all()
    np.testing.assert_allclose(solved.points, -0.00124, atol=1e-4)


def test_a_point_that_is_solved_already_stays():
    z, c = alone(1e-5, -1e-5)
    solved = proximal(Quadratic(), {}, z, z, c, np.float32(1.0))
    assert solved.converged.all()
    np.testing.assert_array_equal(solved.points, z)


@dataclass(frozen=True)
class Push(Everywhere):
    """The same force everywhere."""

    def value(self, weights, z, c):
        return 8 * z[0]


def test_a_point_that_is_five_spreads_away_goes_no_further():
    """Steps of half a spread, and nothing to round: the tenth ends at five. Along the other axis there is no slope."""
    z, c = alone(0.0, 0.0)
    solved = proximal(Push(), {}, z, z, c, np.float32(1.0))
    np.testing.assert_array_equal(solved.points, [[-5, 0]])
    assert not solved.converged.any()


@dataclass(frozen=True)
class Sink(Everywhere):
    """Falls to minus infinity at one, and is minus infinity from there on."""

    def value(self, weights, z, c):
        return jnp.sum(jnp.log(jnp.maximum(1 - z, 0)))


def test_no_point_goes_where_the_potential_is_not_finite():
    z, c = alone(0.0)
    solved = proximal(Sink(), {}, z, z, c, np.float32(1.0))
    assert not solved.converged.any()
    assert 0.5 < solved.points[0, 0] < 1


@dataclass(frozen=True)
class SharpValley(Everywhere):
    """As Valley, but so sharp that many points need more than fifty iterations."""

    def value(self, weights, z, c):
        return 10 * jnp.sum(jnp.sqrt(1e-7 + z * z))


def test_a_hundred_iterations_solve_a_sharp_valley(rng):
    z = rng.uniform(-3, 3, size=(200, 2)).astype(np.float32)
    solved = proximal(SharpValley(), {}, z, z, NO_INPUTS, np.float32(1.0))
    assert solved.converged.mean() > 0.9  # all of them; after fifty iterations 0.64


@dataclass(frozen=True)
class FarUp(Everywhere):
    """So high that no step changes the value, and with a bottom so far off that none halves the slope."""

    def value(self, weights, z, c):
        return 1e10 + 1.5 * jnp.sum(z * z)


def test_a_step_that_changes_no_digit_of_the_height_is_taken():
    z, c = alone(3.0)
    solved = proximal(FarUp(), {}, z, z, c, np.float32(1.0))
    assert solved.converged.all()
    np.testing.assert_allclose(solved.points, 0.75, atol=1e-4)


def test_a_negative_rate_inverts_an_explicit_step(rng):
    """From where w − r∇V(w) = z leads back to w, as long as the objective is convex there."""
    w = rng.uniform(-1, 1, size=(200, 2))
    z = (w - 0.02 * (4 * w**3 - 16 * w)).astype(np.float32)
    solved = proximal(DoubleWell(), {}, z, z, NO_INPUTS, np.float32(-0.02))
    assert solved.converged.all()
    np.testing.assert_allclose(solved.points, w, atol=2e-4)


def test_a_quadratic_potential_is_inverted_in_closed_form(rng):
    z = rng.uniform(-1, 1, size=(200, 3)).astype(np.float32)
    solved = proximal(Quadratic(), {}, z, z, NO_INPUTS, np.float32(-0.2))
    assert solved.converged.all()
    np.testing.assert_allclose(solved.points, z / (1 - 0.2 * 3), atol=2e-4)


def test_an_inverse_that_does_not_exist_is_flagged(rng):
    """At a rate beyond the inverse curvature no minimum is left: the point goes no further than five spreads."""
    z = (rng.normal(size=(200, 2)) + 1).astype(np.float32)
    solved = proximal(Quadratic(), {}, z, z, NO_INPUTS, np.float32(-0.5))
    assert not solved.converged.any()
    assert np.isfinite(solved.points).all()


def test_the_minimum_is_the_one_that_descent_from_the_start_leads_to():
    """Between two wells either is found, and the value says which is lower."""
    z, c = np.full((2, 1), 0.1, np.float32), np.zeros((2, 0), np.float32)
    start = np.array([[-1.5], [1.5]], np.float32)
    solved = proximal(DoubleWell(), {}, z, start, c, np.float32(0.3))
    assert solved.converged.all()
    left, right = np.asarray(solved.points)[:, 0]
    assert left < -1 and right > 1
    assert solved.value[1] < solved.value[0]
    np.testing.assert_allclose(solved.value, objectives(DoubleWell(), {}, z, solved.points, c, np.float32(0.3)))


def test_objectives_are_rate_times_potential_plus_half_the_squared_distance(rng):
    z, w = rng.normal(size=(2, 200, 2)).astype(np.float32)
    expected = 0.3 * (w**4 - 8 * w**2).sum(axis=1) + ((w - z) ** 2).sum(axis=1) / 2
    np.testing.assert_allclose(objectives(DoubleWell(), {}, z, w, NO_INPUTS, np.float32(0.3)), expected, atol=1e-4)
