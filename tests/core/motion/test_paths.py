"""Cells moved through time: Brownian noise, and cells that run away."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax.numpy as jnp
import numpy as np
import pytest

from scjko.core.energy.density import Mixture
from scjko.core.energy.energy import Energy
from scjko.core.energy.models import Everywhere
from scjko.core.energy.terms import InternalTerm, PotentialTerm, Units
from scjko.core.schemes import BOTH, EXPLICIT, IMPLICIT, MIDPOINT
from scjko.core.timeline import Timeline
from scjko.core.variation import Labelled, Static

SCHEMES = {"explicit": EXPLICIT, "implicit": IMPLICIT, "both": BOTH, "midpoint": MIDPOINT}
BETA = 0.3


@dataclass(frozen=True)
class Flat(Everywhere):
    def value(self, weights, z, c):
        return 0.0 * jnp.sum(z)


@dataclass(frozen=True)
class Bowl(Everywhere):
    def value(self, weights, z, c):
        return 0.5 * jnp.sum(z * z)


def energy_of(model, scheme, times, *, beta=None, reach=np.inf, speed=1.0):
    timeline, n = Timeline(np.asarray(times, dtype=float)), len(times) - 1
    units = Units(np.zeros(2), 1.0, np.full(n, speed))
    variation = Static() if scheme is MIDPOINT else Labelled()
    potential = PotentialTerm(model, {}, units, timeline, scheme, variation, np.zeros((n, 2)))
    if beta is None:
        return Energy(potential, reach=reach)
    normal = Mixture(np.zeros(1), np.zeros((1, 2)), np.eye(2)[None])
    internal = InternalTerm(beta, units, dict.fromkeys(np.arange(0, n + 0.5, 0.5).tolist(), normal))
    return Energy(potential, None, internal, reach)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_noise_is_brownian(scheme):
    """Increments over disjoint times are uncorrelated, inside an interval and across, and of variance 2βΔ."""
    energy = energy_of(Flat(), scheme, [0, 1, 2.5], beta=BETA)
    times = np.array([0.0, 0.3, 0.5, 1.0, 1.7, 2.5])
    path = energy.simulate(np.zeros((5000, 2)), times)
    increments = np.diff(path, axis=0)
    # Variances of 10000 normal numbers are known to 1.4 %.
    np.testing.assert_allclose(np.var(increments, axis=(1, 2)), 2 * BETA * np.diff(times), rtol=0.06)
    for coordinate in range(2):
        r = np.corrcoef(increments[..., coordinate])
        assert np.abs(r[np.triu_indices(5, 1)]).max() < 0.05
    assert abs(np.corrcoef(increments[..., 0].ravel(), increments[..., 1].ravel())[0, 1]) < 0.05


def test_the_variance_of_noise_does_not_depend_on_where_the_path_is_sampled():
    energy = energy_of(Flat(), BOTH, [0, 1, 2.5], beta=BETA)
    for times in ([0, 2], [0, 0.9, 2], np.linspace(0, 2, 21)):
        end = energy.simulate(np.zeros((5000, 2)), times)[-1]
        assert np.var(end) == pytest.approx(2 * BETA * 2, rel=0.06)


def test_noise_is_drawn_by_the_seed_and_only_forward():
    energy = energy_of(Flat(), BOTH, [0, 1, 2], beta=BETA)
    x = np.zeros((20, 2))
    np.testing.assert_array_equal(energy.step(x, 0, 2), energy.simulate(x, [0, 2])[-1])
    np.testing.assert_array_equal(energy.step(x, 0, 2, random_state=7), energy.step(x, 0, 2, random_state=7))
    assert not np.allclose(energy.step(x, 0, 2), energy.step(x, 0, 2, random_state=7))
    # Back, cells climb the density instead: here −βΔ∇log ρ = βΔx, which is zero in the middle.
    np.testing.assert_array_equal(energy.step(x, 2, 0), x)
    np.testing.assert_allclose(energy.step(x + 1, 2, 1), (x + 1) * (1 - BETA), rtol=1e-6)


def test_noise_is_not_that_of_cells_drawn_with_the_same_seed():
    energy = energy_of(Flat(), BOTH, [0, 1], beta=0.5)
    x = np.random.default_rng(0).standard_normal((5000, 2))
    noise = energy.step(x, 0, 1, random_state=0) - x
    assert abs(np.corrcoef(noise.ravel(), x.ravel())[0, 1]) < 0.05


@pytest.mark.parametrize("model", [Flat(), Bowl()], ids=["flat", "bowl"])
def test_without_an_internal_energy_there_is_no_noise(model, rng):
    x = rng.normal(size=(20, 2))
    energy = energy_of(model, BOTH, [0, 1, 2])
    np.testing.assert_array_equal(energy.step(x, 0, 2), energy.step(x, 0, 2, random_state=1))


@dataclass(frozen=True)
class Abyss(Everywhere):
    """Falls without end, as polynomials do far from the cells."""

    def value(self, weights, z, c):
        return -jnp.sum(z**4)


@dataclass(frozen=True)
class Wall(Everywhere):
    """So steep that its slope is not finite in float32 ten spreads out."""

    def value(self, weights, z, c):
        return jnp.sum(jnp.exp(z * z))


@pytest.mark.parametrize("model", [Abyss(), Wall()], ids=["abyss", "wall"])
@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_cells_that_run_away_are_flagged_and_finite(scheme, model, rng):
    """However far they went, and at every later time; the cells that stay near are trusted."""
    near, far = 1e-3 * rng.normal(size=(30, 2)), rng.normal(size=(10, 2)) + 12
    energy = energy_of(model, scheme, [0, 1, 2, 3, 4], reach=3.0, speed=0.1)
    moved = energy.move(np.concatenate([near, far]), 0, 4)
    assert np.isfinite(moved.positions).all()
    assert moved.converged[:30].all()
    assert not moved.converged[30:].any()


def test_a_cell_that_left_the_data_on_the_path_stays_flagged(rng):
    """Thrown out in the first interval and back in the second: where it comes to stand says nothing."""

    @dataclass(frozen=True)
    class Thrown(Everywhere):
        def value(self, weights, z, c):
            return 20 * c[0] * jnp.sum(z)  # the ranks of two intervals are minus and plus a half

    energy = energy_of(Thrown(), EXPLICIT, [0, 1, 2], reach=3.0)
    x = rng.normal(size=(20, 2))
    moved = energy.move(x, 0, 2)
    np.testing.assert_allclose(moved.positions, x, atol=1e-5)
    assert not moved.converged.any()
    assert energy.move(x, 0, 0.1).converged.all()


def test_cells_that_cannot_be_trusted_are_counted_in_one_warning(caplog, rng):
    energy = energy_of(Abyss(), EXPLICIT, [0, 1, 2, 3], reach=3.0)
    x = np.concatenate([1e-3 * rng.normal(size=(4, 2)), rng.normal(size=(3, 2)) + 20])
    energy.step(x, 0, 3)
    energy.simulate(x, [0, 1.5, 3])
    expected = "3 of 7 cells moved from 0 to 3 left the range of the data or were not solved"
    assert [expected in record.message for record in caplog.records] == [True, True]


def test_twice_the_reach_is_the_range_of_the_data():
    energy = replace(energy_of(Flat(), EXPLICIT, [0, 1]), reach=3.0)
    moved = energy.move(np.array([[5.9, 0.0], [6.1, 0.0]]), 0, 1)
    np.testing.assert_array_equal(moved.converged, [True, False])
