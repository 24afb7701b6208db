"""The first-order condition against a numpy double loop over pairs."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from scjko.core.condition import anchored, conditions, loss
from scjko.core.schemes import BOTH, EXPLICIT, IMPLICIT, MIDPOINT
from scjko.core.timeline import Timeline
from scjko.core.transport import Coupling, OperatorCoupling, exact

SCHEMES = [EXPLICIT, IMPLICIT, BOTH]


def pairwise_loss(points, couplings, gaps, scheme, slope):
    """Σ_k ∫‖Δ_k (∇J(z) + (y − x)/Δ_k)‖² dγ_k, pair by pair, as it is written, at both ends or one."""
    total = 0.0
    for k, coupling in enumerate(couplings):
        for i, j, weight in zip(coupling.source, coupling.target, coupling.weight, strict=True):
            x, y = points[k][i], points[k + 1][j]
            velocity = (y - x) / gaps[k]
            for anchor in scheme.anchors:
                z = (1 - anchor) * x + anchor * y
                total += weight * np.sum((gaps[k] * (slope(z, k, anchor) + velocity)) ** 2)
    return total


@pytest.mark.parametrize("scheme", SCHEMES, ids=[s.name for s in SCHEMES])
def test_rows_per_cell_give_the_loss_of_all_pairs_up_to_a_constant(rng, scheme):
    points = [rng.normal(size=(n, 2)) for n in (5, 8, 6)]
    timeline = Timeline(np.array([0.0, 1.0, 3.5]))
    couplings = [exact(points[0], points[1]), exact(points[1], points[2])]
    rows = conditions(points, couplings, timeline, scheme)

    def difference(slope_of):
        places = zip(rows.points, rows.interval, rows.anchor, strict=True)
        slopes = np.array([slope_of(z, k, anchor) for z, k, anchor in places])
        condensed = jax.jit(loss)(*(np.float32(a) for a in (slopes, rows.velocity, rows.importance)))
        return pairwise_loss(points, couplings, timeline.gaps, scheme, slope_of) - float(condensed)

    first = difference(lambda z, k, anchor: np.zeros(2))
    second = difference(lambda z, k, anchor: np.sin(z) * (k + 1) - anchor)
    # The spread of partners around their mean, the same for every energy; float32 rounding of sums of order ten.
    assert first == pytest.approx(second, abs=1e-5)
    assert first > 0


def test_half_way_the_loss_is_that_of_all_pairs_where_each_cell_has_one_partner(rng):
    """Then no mean is taken: the rows from either side are the pairs themselves, each twice with half its weight."""
    points = [rng.normal(size=(6, 2)) for _ in range(3)]
    timeline = Timeline(np.array([0.0, 1.0, 3.5]))
    couplings = [exact(points[0], points[1]), exact(points[1], points[2])]
    rows = conditions(points, couplings, timeline, MIDPOINT)
    assert len(rows.points) == 24
    slope = np.sin(rows.points) * (rows.interval[:, None] + 1)
    expected = pairwise_loss(points, couplings, timeline.gaps, MIDPOINT, lambda z, k, anchor: np.sin(z) * (k + 1))
    assert float(loss(slope, rows.velocity, rows.importance)) == pytest.approx(expected, rel=1e-5)


def test_half_way_every_cell_with_the_mean_of_its_partners_stands_for_its_pairs(rng):
    x, y = rng.normal(size=(4, 2)), rng.normal(size=(7, 2))
    coupling = exact(x, y)
    plan = np.zeros((4, 7))
    np.add.at(plan, (coupling.source, coupling.target), coupling.weight)
    z, displacement, weight = anchored(x, y, coupling, 0.5)
    ahead, behind = plan @ y / plan.sum(axis=1)[:, None], plan.T @ x / plan.sum(axis=0)[:, None]
    np.testing.assert_allclose(z, np.concatenate([(x + ahead) / 2, (behind + y) / 2]))
    np.testing.assert_allclose(displacement, np.concatenate([ahead - x, y - behind]))
    np.testing.assert_allclose(weight, np.concatenate([plan.sum(axis=1), plan.sum(axis=0)]) / 2)
    np.testing.assert_allclose(weight @ displacement, y.mean(axis=0) - x.mean(axis=0))


@pytest.mark.parametrize("anchor", [0.0, 0.5, 1.0])
def test_a_coupling_known_by_its_products_gives_the_same_points(rng, anchor):
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(8, 2))
    plan = rng.uniform(size=(5, 8)) / 40
    source, target = (a.ravel() for a in np.indices(plan.shape))
    dense = Coupling.of(source, target, plan.ravel(), x, y)
    operator = OperatorCoupling.of(lambda v: plan @ v, lambda v: plan.T @ v, x, y)
    for found, expected in zip(anchored(x, y, operator, anchor), anchored(x, y, dense, anchor), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)


@pytest.mark.parametrize("scheme", [*SCHEMES, MIDPOINT], ids=["explicit", "implicit", "both", "midpoint"])
def test_weights_sum_to_one_for_each_interval_and_anchor(rng, scheme):
    points = [rng.normal(size=(n, 2)) for n in (5, 300, 6)]
    couplings = [exact(points[0], points[1]), exact(points[1], points[2])]
    rows = conditions(points, couplings, Timeline(np.arange(3.0)), scheme)
    for k in (0, 1):
        for anchor in scheme.anchors:
            assert rows.weight[(rows.interval == k) & (rows.anchor == anchor)].sum() == pytest.approx(1)
    np.testing.assert_array_equal(np.unique(rows.place), sorted({k + a for k in (0, 1) for a in scheme.anchors}))


def test_a_coupling_for_every_interval_is_needed(rng):
    points = [rng.normal(size=(4, 2)) for _ in range(3)]
    with pytest.raises(ValueError, match="zip"):
        conditions(points, [exact(points[0], points[1])], Timeline(np.arange(3.0)), BOTH)


def test_an_energy_that_explains_the_motion_has_no_loss():
    """Under V = ½ a‖x‖² a cell goes from x to (1 − aΔ) x explicitly, to x / (1 + aΔ) implicitly, and by the midpoint
    rule to (1 − aΔ/2) / (1 + aΔ/2) x.
    """
    x = np.array([[1.0, 0], [0, 2], [-3, 1]])
    a, gap = 0.3, 0.5
    half = a * gap / 2
    for scheme, y in (
        (EXPLICIT, (1 - a * gap) * x),
        (IMPLICIT, x / (1 + a * gap)),
        (MIDPOINT, (1 - half) / (1 + half) * x),
    ):
        rows = conditions([x, y], [exact(x, y)], Timeline(np.array([0.0, gap])), scheme)
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
    rows = conditions([x, y], [coupling], Timeline(np.arange(2.0)), BOTH)
    np.testing.assert_array_equal(rows.points, [*x[[0, 2]], *y[[0, 2]]])
    np.testing.assert_array_equal(rows.velocity, [[0, 1]] * 4)
    np.testing.assert_array_equal(rows.weight, [0.5] * 4)
