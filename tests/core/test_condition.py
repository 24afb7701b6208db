"""The first-order condition against a numpy double loop over pairs."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from scjko.core.condition import conditions, loss
from scjko.core.transport.couplings import Coupling, exact


def pairwise_loss(points, couplings, gaps, scheme, slope):
    """Σ_k ∫‖Δ_k (∇J(z) + (y − x)/Δ_k)‖² dγ_k, pair by pair, as it is written."""
    total = 0.0
    for k, coupling in enumerate(couplings):
        for i, j, weight in zip(coupling.source, coupling.target, coupling.weight, strict=True):
            x, y = points[k][i], points[k + 1][j]
            velocity = (y - x) / gaps[k]
            if scheme in ("explicit", "both"):
                total += weight * np.sum((gaps[k] * (slope(x, k, 0) + velocity)) ** 2)
            if scheme in ("implicit", "both"):
                total += weight * np.sum((gaps[k] * (slope(y, k, 1) + velocity)) ** 2)
    return total


@pytest.mark.parametrize("scheme", ["both", "explicit", "implicit"])
def test_rows_per_cell_give_the_loss_of_all_pairs_up_to_a_constant(rng, scheme):
    points = [rng.normal(size=(n, 2)) for n in (5, 8, 6)]
    gaps = np.array([1.0, 2.5])
    couplings = [exact(points[0], points[1]), exact(points[1], points[2])]
    rows = conditions(points, couplings, gaps, scheme)

    def difference(slope_of):
        slopes = np.array([slope_of(z, k, end) for z, k, end in zip(rows.points, rows.interval, rows.end, strict=True)])
        condensed = jax.jit(loss)(*(np.float32(a) for a in (slopes, rows.velocity, rows.importance)))
        return pairwise_loss(points, couplings, gaps, scheme, slope_of) - float(condensed)

    first = difference(lambda z, k, end: np.zeros(2))
    second = difference(lambda z, k, end: np.sin(z) * (k + 1) - end)
    # The spread of partners around their mean, the same for every energy; float32 rounding of sums of order ten.
    assert first == pytest.approx(second, abs=1e-5)
    assert first > 0


def test_weights_sum_to_one_for_each_interval_and_end(rng):
    points = [rng.normal(size=(n, 2)) for n in (5, 300, 6)]
    couplings = [exact(points[0], points[1]), exact(points[1], points[2])]
    rows = conditions(points, couplings, np.ones(2), "both")
    for k in (0, 1):
        for end in (0, 1):
            assert rows.weight[(rows.interval == k) & (rows.end == end)].sum() == pytest.approx(1)


def test_a_coupling_for_every_interval_is_needed(rng):
    points = [rng.normal(size=(4, 2)) for _ in range(3)]
    with pytest.raises(ValueError, match="zip"):
        conditions(points, [exact(points[0], points[1])], np.ones(2), "both")


def test_an_energy_that_explains_the_motion_has_no_loss():
    """Under V = ½ a‖x‖² a cell goes from x to (1 − aΔ) x explicitly, and to x / (1 + aΔ) implicitly."""
    x = np.array([[1.0, 0], [0, 2], [-3, 1]])
    a, gap = 0.3, 0.5
    for scheme, y in (("explicit", (1 - a * gap) * x), ("implicit", x / (1 + a * gap))):
        rows = conditions([x, y], [exact(x, y)], np.array([gap]), scheme)
        np.testing.assert_allclose(a * rows.points + rows.velocity, 0, atol=1e-12)


def test_two_independent_estimates_do_not_take_their_noise_for_residual(rng):
    """E[r · r'] = ‖r‖², where E[r · r] = ‖r‖² + the variance of the estimate."""
    velocity, weight = np.ones((20000, 2), np.float32), np.full(20000, 1 / 20000, np.float32)
    slope, twin = (rng.normal(size=(20000, 2)).astype(np.float32) for _ in range(2))
    assert float(loss(slope, velocity, weight)) == pytest.approx(4, abs=0.1)
    assert float(loss(slope, velocity, weight, twin)) == pytest.approx(2, abs=0.1)


def test_nothing_is_asked_of_cells_without_mass():
    """The second cell of each snapshot has no partner."""
    x, y = np.array([[0.0, 0], [5, 5], [1, 0]]), np.array([[0.0, 1], [9, 9], [1, 1]])
    coupling = Coupling.of(np.array([0, 2]), np.array([0, 2]), np.ones(2), x, y)
    rows = conditions([x, y], [coupling], np.ones(1), "both")
    np.testing.assert_array_equal(rows.points, [*x[[0, 2]], *y[[0, 2]]])
    np.testing.assert_array_equal(rows.velocity, [[0, 1]] * 4)
    np.testing.assert_array_equal(rows.weight, [0.5] * 4)
