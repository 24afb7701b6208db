"""Chains of cells against dense couplings."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from scipy.spatial.distance import cdist

from scjko.core.fates import chain as chains
from scjko.core.fates.absorption import fates
from scjko.core.fates.chain import chain_of, entropic_chain, potential
from scjko.core.fates.pooled import unmoved, walked
from scjko.core.fates.representatives import representatives
from scjko.core.fates.transitions import Planned
from scjko.core.transport import Coupling


def dense_sinkhorn(cost, a, b, epsilon, rounds=3000):
    """The entropic coupling, by its definition."""
    kernel, v = np.exp(-cost / epsilon), np.ones(len(b))
    for _ in range(rounds):
        u = a / (kernel @ v)
        v = b / (kernel.T @ u)
    return u[:, None] * kernel * v


@pytest.fixture
def snapshots(rng):
    """Three snapshots with unequal weights, and how their cells grow."""
    points = [rng.normal(size=(n, 3)) + shift for n, shift in ((40, 0.0), (55, 1.0), (30, 1.5))]
    weights = [w / w.sum() for w in (rng.uniform(0.5, 1.5, len(x)) for x in points)]
    gains = [rng.normal(size=len(x)) * 0.5 for x in points[:-1]]
    return points, weights, gains


def dense(points, weights, gains, epsilon):
    """The couplings of these snapshots as matrices, their sources grown."""
    plans = []
    for k in range(len(points) - 1):
        cost = cdist(points[k], points[k + 1], "sqeuclidean")
        source = weights[k] if gains is None else weights[k] * np.exp(gains[k])
        unit = weights[k] @ cost @ weights[k + 1]
        plans.append(dense_sinkhorn(cost, source / source.sum(), weights[k + 1], epsilon * unit))
    return plans


@pytest.mark.parametrize("grows", [False, True])
def test_push_and_pull_are_those_of_the_dense_coupling(snapshots, rng, grows):
    points, weights, gains = snapshots
    gains = gains if grows else None
    chain = entropic_chain(points, weights, gains=gains, epsilon=0.1)
    for k, plan in enumerate(dense(points, weights, gains, 0.1)):
        mass, values = rng.random((len(points[k]), 2)), rng.random((len(points[k + 1]), 2))
        np.testing.assert_allclose(chain.onward(k, mass), plan.T @ (mass / weights[k][:, None]), rtol=1e-4)
        expected = plan @ values / weights[k][:, None]
        np.testing.assert_allclose(chain.expected(k, values), expected, rtol=1e-4)
        origin = plan @ (values / plan.sum(axis=0)[:, None])
        np.testing.assert_allclose(chain.origin(k, values), origin, rtol=1e-4)


def test_mass_is_kept_and_comes_back(snapshots):
    points, weights, gains = snapshots
    chain = entropic_chain(points, weights, gains=gains)
    later = chain.descendants(0, weights[0][:, None])
    np.testing.assert_allclose([part.sum() for part in later], 1, rtol=1e-6)
    for part, weight in zip(later, weights, strict=True):
        np.testing.assert_allclose(part[:, 0], weight, atol=1e-5)
    earlier = chain.ancestors(2, weights[2][:, None])
    np.testing.assert_allclose([part.sum() for part in earlier], 1, rtol=1e-6)


def test_by_default_softness_falls_with_the_root_of_the_dimension(snapshots):
    points, weights, _ = snapshots
    chain = entropic_chain(points, weights)
    for k, transition in enumerate(chain.transitions):
        unit = weights[k] @ cdist(points[k], points[k + 1], "sqeuclidean") @ weights[k + 1]
        np.testing.assert_allclose(transition.epsilon / unit, 0.1 * np.sqrt(2 / 3))


def test_with_noise_of_strength_beta_cells_spread_as_brownian_motion_does(rng):
    """Between N(0, 1) and N(0, 1 + 2βΔ), ε = 4βΔ gives y | x ~ N(x, 2βΔ), as for cells that only diffuse."""
    beta, gap = 0.2, 1.5
    x = rng.normal(size=(800, 1))
    y = rng.normal(size=(800, 1)) * np.sqrt(1 + 2 * beta * gap)
    weights = [np.full(800, 1 / 800)] * 2
    chain = entropic_chain([x, y], weights, epsilon=[4 * beta * gap])
    mean, square = (chain.expected(0, values)[:, 0] for values in (y, y**2))
    inner = np.abs(x[:, 0]) < 1.5
    slope = np.polyfit(x[inner, 0], mean[inner], 1)[0]
    assert abs(slope - 1) < 0.05
    np.testing.assert_allclose(np.mean((square - mean**2)[inner]), 2 * beta * gap, rtol=0.1)


def test_representatives_change_little_and_store_no_matrix(rng):
    x, y = rng.normal(size=(1200, 2)), rng.normal(size=(1000, 2)) + [2, 0]
    weights = [np.full(len(z), 1 / len(z)) for z in (x, y)]
    whole = entropic_chain([x, y], weights, epsilon=0.1)
    few = entropic_chain([x, y], weights, epsilon=0.1, most=250)
    assert len(few.transitions[0].centers) <= 250 < len(whole.transitions[0].centers)
    assert few.transitions[0].shape == (1200, 1000)
    one, other = (c.expected(0, (y[:, :1] > 2).astype(float)) for c in (whole, few))
    assert np.abs(one - other).mean() < 0.01 and np.abs(one - other).max() < 0.1
    assert abs(few.onward(0, weights[0][:, None]).sum() - 1) < 1e-9


def test_representatives_stand_for_every_cell_once(rng):
    x, weight = rng.normal(size=(500, 3)), rng.random(500)
    found = representatives(x, 50)
    assert len(found.points) <= 50 and set(found.label) == set(range(len(found.points)))
    np.testing.assert_allclose(found.mass(weight).sum(), weight.sum())
    np.testing.assert_allclose(np.bincount(found.label, found.share(weight)), 1)
    nearest = cdist(x, found.points).argmin(axis=1)
    np.testing.assert_array_equal(found.label, nearest)
    np.testing.assert_allclose(np.bincount(found.label, found.share(np.zeros(500))), 1)
    few = representatives(x, 500)
    np.testing.assert_array_equal(few.points, x)


def test_far_cells_and_cells_without_mass_do_no_harm():
    x = np.array([[0.0], [1.0], [1000.0]])
    y = np.array([[0.5], [1.5], [-2000.0]])
    height = potential(cdist(x, y, "sqeuclidean"), np.full(3, 1 / 3), np.array([0.5, 0.5, 0.0]), 0.1)
    assert height[2] == -np.inf and np.isfinite(height[:2]).all()


def test_an_epsilon_too_small_is_said(rng, monkeypatch):
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 3
    monkeypatch.setattr(chains, "MAX_ROUNDS", 3)
    with pytest.raises(RuntimeError, match="use a larger epsilon"):
        entropic_chain([x, y], [np.full(30, 1 / 30)] * 2, epsilon=1e-4)


def plans(rng):
    """Two couplings with a source that has no partner, as matrices and as couplings."""
    found = [rng.random((6, 5)) * (rng.random((6, 5)) < 0.6), rng.random((5, 4))]
    found[0][2], found[0][3, 0] = 0, 0.5
    found = [plan / plan.sum() for plan in found]
    points = [rng.normal(size=(n, 2)) for n in (6, 5, 4)]
    couplings = [
        Coupling.of(*np.nonzero(plan), plan[np.nonzero(plan)], *pair)
        for plan, pair in zip(found, zip(points[:-1], points[1:], strict=True), strict=True)
    ]
    return found, couplings, points


def test_ready_made_couplings_act_as_they_are(rng):
    found, couplings, points = plans(rng)
    weights = [np.full(len(x), 1 / len(x)) for x in points]
    chain = chain_of(couplings, weights, points)
    start = weights[0] * np.array([1, 1, 0, 0, 0, 0])
    pushed = chain.descendants(0, start[:, None])
    one = found[0].T @ [1, 1, 0, 0, 0, 0]
    np.testing.assert_allclose(pushed[1][:, 0], one)
    np.testing.assert_allclose(pushed[2][:, 0], found[1].T @ (one / weights[1]))
    assert chain.expected(0, np.ones((5, 1)))[2] == 0


def test_fates_are_shares_of_mass_absorbed_where_it_first_meets_a_set(rng):
    found, couplings, points = plans(rng)
    weights = [np.full(len(x), 1 / len(x)) for x in points]
    chain = chain_of(couplings, weights, points)
    terminal = [np.zeros((6, 2)), np.zeros((5, 2)), np.zeros((4, 2))]
    terminal[1][0, 1] = 1  # on the way
    terminal[2][:2, 0] = terminal[2][2, 1] = 1  # and one of the last cells is in none
    result = fates(chain, terminal)
    rows = [plan / np.where(plan.sum(axis=1) > 0, plan.sum(axis=1), 1)[:, None] for plan in found]
    growth = [plan.sum(axis=1) * len(plan) for plan in found]
    at1 = growth[1][:, None] * (rows[1] @ terminal[2])
    mass1 = growth[1].copy()
    at1[0], mass1[0] = [0, 1], 1
    at0 = growth[0][:, None] * (rows[0] @ at1)
    mass0 = growth[0] * (rows[0] @ mass1)
    share = at0.sum(axis=1)
    expected = np.divide(at0, share[:, None], out=np.zeros_like(at0), where=share[:, None] > 0)
    np.testing.assert_allclose(result.probabilities[0], expected)
    np.testing.assert_allclose(result.reached[0], np.divide(share, mass0, out=np.zeros(6), where=mass0 > 0))
    assert result.reached[0][2] == 0 and result.reached[2][3] == 0
    np.testing.assert_array_equal(result.probabilities[1][0], [0, 1])


@pytest.mark.parametrize("beyond", [0.0, 0.5, 0.9])
def test_the_last_interval_goes_on_until_a_set_is_reached(rng, beyond):
    x = rng.normal(size=(30, 2))
    y = x + [1, 0] + 0.1 * rng.normal(size=(30, 2))
    weights = [np.full(30, 1 / 30)] * 2
    chain = entropic_chain([x, y], weights, epsilon=0.1)
    terminal = [np.zeros((30, 2)), np.zeros((30, 2))]
    order = np.argsort(y[:, 0])
    terminal[1][order[-2:], 0] = terminal[1][order[:2], 1] = 1
    found = fates(chain, terminal, beyond=beyond)
    transition = chain.transitions[0]
    logits = transition.height - cdist(y, y, "sqeuclidean") / transition.epsilon
    step = np.exp(logits - logits.max(axis=1, keepdims=True))
    step /= step.sum(axis=1, keepdims=True)
    free = (terminal[1].sum(axis=1) == 0)[:, None]
    value = terminal[1]
    for _ in range(400):
        value = np.where(free, beyond * step @ value, terminal[1])
    np.testing.assert_allclose(found.reached[1], value.sum(axis=1), atol=1e-8)
    expected = chain.expected(0, value)
    np.testing.assert_allclose(found.reached[0], expected.sum(axis=1), atol=1e-6)
    known = expected.sum(axis=1) > 1e-9
    shares = expected[known] / expected[known].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found.probabilities[0][known], shares, atol=1e-6)


def test_a_plan_of_any_mass_has_rows_that_sum_to_one(rng):
    matrix = Planned.of(sparse.csr_matrix(7 * rng.random((4, 3))))
    np.testing.assert_allclose(matrix.pull(np.ones((3, 1))), 1)
    assert matrix.shape == (4, 3)


def test_baselines_without_dynamics(rng):
    """Two clouds joined by a bridge: cells belong to the end that is nearer, on the graph and without moving."""
    x = np.column_stack([np.linspace(0, 10, 400), 0.05 * rng.normal(size=400)])
    member = np.zeros((400, 2))
    member[:20, 0] = member[-20:, 1] = 1
    walk = walked(x, member)
    np.testing.assert_allclose(walk.sum(axis=1), 1, atol=1e-6)
    inner = slice(20, 380)
    np.testing.assert_allclose(walk[inner, 1], np.linspace(0.0, 1.0, 360), atol=0.1)
    np.testing.assert_array_equal(walk[:20], member[:20])
    there = member.sum(axis=1) > 0
    still = unmoved(x, x[there], member[there])
    assert (still[:150, 0] == 1).all() and (still[-150:, 1] == 1).all()
