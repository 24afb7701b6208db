"""Steps over parts of intervals: they compose, they are those that the fit makes exact, and they find low minima."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

from scjko.core.energy.energy import Energy
from scjko.core.energy.models import Everywhere
from scjko.core.energy.terms import PotentialTerm, Units
from scjko.core.schemes import BOTH, EXPLICIT, IMPLICIT, MIDPOINT
from scjko.core.timeline import Timeline
from scjko.core.variation import Labelled, Static

TIMES = np.array([0.0, 1.0, 3.0, 3.5])
SPREAD = 4.0
SCHEMES = {"explicit": EXPLICIT, "implicit": IMPLICIT, "both": BOTH, "midpoint": MIDPOINT}


@dataclass(frozen=True)
class Bumpy(Everywhere):
    """A bumpy bowl that differs from place to place, and is curved by at most 0.9."""

    def value(self, weights, z, c):
        return 0.2 * (1 + 0.3 * c[0]) * jnp.sum(z * z) + 0.2 * jnp.sum(jnp.sin(z + jnp.sum(c)))


def energy_of(model, scheme, *, speed=1.2, length=SPREAD, times=TIMES):
    static = scheme is MIDPOINT
    timeline = Timeline(np.asarray(times))
    units = Units(np.array([1.0, -2.0]), length, np.full(timeline.n_intervals, speed))
    variation = Static() if static else Labelled()
    return Energy(PotentialTerm(model, {}, units, timeline, scheme, variation, np.zeros((timeline.n_intervals, 2))))


@pytest.fixture
def x(rng):
    return SPREAD * rng.normal(size=(40, 2)) + [1.0, -2.0]


#: From a snapshot and from inside an interval, to inside the same one, a later one, and the last snapshot.
PATHS = [(0.0, 0.4, 1.0), (0.3, 0.5, 0.8), (0.3, 1.0, 2.2), (0.6, 1.5, 3.4), (0.0, 2.0, 3.5), (1.0, 3.0, 3.5)]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_steps_compose(x, scheme, path):
    """t0 → t1 → t2 is t0 → t2, forward and back, to a thousandth of the spread: the solver's tolerance is 1e-4."""
    energy = energy_of(Bumpy(), scheme)
    for t0, t1, t2 in (path, path[::-1])[: 1 if scheme is EXPLICIT else 2]:
        whole = energy.move(x, t0, t2)
        parts = energy.step(energy.step(x, t0, t1), t1, t2)
        assert whole.converged.all()
        assert np.abs(whole.positions - x).max() > 0.05 * SPREAD, "nothing moves"
        np.testing.assert_allclose(parts, whole.positions, atol=1e-3 * SPREAD)
        np.testing.assert_allclose(energy.simulate(x, [t0, t1, t2])[-1], whole.positions, atol=1e-3 * SPREAD)


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_what_is_sampled_on_the_path_does_not_change_a_simulation(x, scheme):
    """Times inside an interval lie on the straight line of its one step."""
    energy = energy_of(Bumpy(), scheme)
    coarse, fine = energy.simulate(x, [0, 1, 3]), energy.simulate(x, np.linspace(0, 3, 13))
    np.testing.assert_allclose(fine[[0, 4, 12]], coarse, atol=1e-3 * SPREAD)
    np.testing.assert_allclose(fine[2], (coarse[0] + coarse[1]) / 2, atol=1e-3 * SPREAD)


@pytest.mark.parametrize("scheme", [IMPLICIT, MIDPOINT], ids=["implicit", "midpoint"])
def test_one_anchor_for_both_directions_leads_back_to_the_start(x, scheme):
    energy = energy_of(Bumpy(), scheme)
    there = energy.step(x, 0.2, 3.2)
    np.testing.assert_allclose(energy.step(there, 3.2, 0.2), x, atol=3e-3 * SPREAD)  # four lines each way


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_every_line_satisfies_the_condition_at_its_anchor(x, scheme):
    """From fraction f to g of an interval: the displacement is −(g − f)Δ∇J(m), m being on the line at the anchor."""
    energy = energy_of(Bumpy(), scheme)
    start, stop, gap = 0.25, 0.75, 2.0
    for f, g in ((start, stop), (stop, start))[: 1 if scheme is EXPLICIT else 2]:
        anchor = scheme.forward if g > f else scheme.backward
        y = energy.step(x, 1 + f * gap, 1 + g * gap)
        m = x + (anchor - f) / (g - f) * (y - x)
        slope = energy.gradient_at(m, np.ones(40, int), np.full(40, anchor))
        np.testing.assert_allclose(y, x - (g - f) * gap * slope, atol=2e-3 * SPREAD)


@dataclass(frozen=True)
class TwoWells(Everywhere):
    """A deep well on the left and a shallow one on the right."""

    def value(self, weights, z, c):
        return z[0] ** 4 - 2 * z[0] ** 2 + 0.8 * z[0] + z[1] ** 2


def lowest(z, rate):
    """The minimiser of rate · V(w) + ½(w − z)² along the first axis, by brute force."""
    w = np.linspace(-3, 3, 20001)
    objective = rate * (w**4 - 2 * w**2 + 0.8 * w) + (w - z[:, None]) ** 2 / 2
    return w[np.argmin(objective, axis=1)]


def test_of_several_minima_the_lowest_that_is_found_is_used_and_this_is_logged(caplog):
    """A cell on the shallow side of the ridge has neighbours that roll into the deep well, where it is lower for it."""
    energy = energy_of(TwoWells(), IMPLICIT, speed=1.5, length=1.0, times=[0.0, 1.0])
    center = energy.units.center
    z = np.stack([np.linspace(-1.2, 1.2, 97), np.zeros(97)], axis=1)
    alone = np.concatenate([energy.step(z[[i]] + center, 0, 1) for i in range(97)])[:, 0] - center[0]
    with caplog.at_level(logging.INFO, "scjko"):
        moved = energy.move(z + center, 0, 1)
    assert moved.converged.all()
    found, expected = moved.positions[:, 0] - center[0], lowest(z[:, 0], 1.5)
    # The five neighbours of a cell reach to the second on either side: the two next to the divide are corrected.
    deep = np.flatnonzero(alone < 0).max()
    corrected = np.flatnonzero(np.abs(found - alone) > 0.1)
    assert set(corrected) >= {deep + 1, deep + 2}
    np.testing.assert_allclose(found[: corrected.max() + 1], expected[: corrected.max() + 1], atol=1e-3)
    others = np.setdiff1d(np.arange(97), corrected)
    np.testing.assert_allclose(found[others], alone[others], atol=1e-3)
    assert f"{len(corrected)} of 97 cells has more than one minimum; the lowest that was found is used" in caplog.text


def test_with_one_minimum_nothing_is_said(x, caplog):
    with caplog.at_level(logging.INFO, "scjko"):
        energy_of(Bumpy(), IMPLICIT).step(x, 0, 1)
    assert caplog.text == ""


def test_a_line_whose_anchor_does_not_exist_is_flagged(x):
    """Back from inside an interval an explicit line is followed to its start, if the map there has an inverse."""
    energy = energy_of(Bumpy(), EXPLICIT)
    steep = energy_of(Bumpy(), EXPLICIT, speed=60.0)
    assert energy.move(x, 0.9, 1.0).converged.all()
    assert not steep.move(x, 0.9, 1.0).converged.any()
