"""Plans in whole quanta: nothing is lost to rounding."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.transport.programs.plan import QUANTA, Plan, quanta


@pytest.mark.parametrize(("n", "m"), [(7, 7), (7, 5), (38143, 38073), (1, 9)])
def test_equal_weights_stay_equal_and_sums_are_exact(n, m):
    a, b = quanta(np.ones(n), np.ones(m))
    assert np.ptp(a) == np.ptp(b) == 0
    assert a.sum() == b.sum() <= 2**53


def test_random_weights_are_rounded_to_one_quantum(rng):
    weights = rng.uniform(size=1000), rng.uniform(size=700)
    masses = quanta(*weights)
    assert masses[0].sum() == masses[1].sum()
    for weight, mass in zip(weights, masses, strict=True):
        np.testing.assert_array_equal(mass, np.rint(mass))
        # Rounded to the nearest, and one more or less where the sum needs it.
        np.testing.assert_allclose(mass / mass.sum(), weight / weight.sum(), rtol=0, atol=1.6 / (0.9 * QUANTA))


def test_weights_too_small_for_a_quantum_are_none():
    a, _ = quanta(np.array([1.0, 1e-30]), np.array([1.0, 2.0]))
    assert a[1] == 0


def test_a_union_lists_every_pair_once():
    one, other = (Plan(np.array([0, 1]), np.array(t), np.array([1.0, 2.0])) for t in ([0, 1], [0, 2]))
    both = Plan.union([one, other], 3)
    np.testing.assert_array_equal(both.source, [0, 1, 1])
    np.testing.assert_array_equal(both.target, [0, 1, 2])
    np.testing.assert_array_equal(both.mass, [2, 2, 2])
