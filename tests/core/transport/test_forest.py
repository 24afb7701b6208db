"""Plans put together from blocks are rid of their cycles: fewer pairs, the same marginals, no higher cost."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from scjko.core.transport.programs import multiscale as module
from scjko.core.transport.programs.forest import without_cycles
from scjko.core.transport.programs.plan import Plan


def marginals(plan, n, m):
    return np.bincount(plan.source, plan.mass, n), np.bincount(plan.target, plan.mass, m)


def n_cycles(plan, n, m):
    """Independent cycles of the graph of the pairs: edges − nodes + components."""
    graph = coo_matrix((np.ones(len(plan.mass)), (plan.source, plan.target + n)), shape=(n + m, n + m))
    return len(plan.mass) - (n + m) + connected_components(graph, directed=False)[0]


@pytest.mark.parametrize("swapped", [False, True])
def test_a_cycle_is_cancelled_in_the_direction_that_costs_less(swapped):
    # Two sources, two targets, all four pairs: either diagonal can take the whole mass.
    cost = np.array([1.0, 3.0, 3.0, 2.0])
    plan = Plan(np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.full(4, 5.0))
    found = without_cycles(plan, cost[::-1] if swapped else cost, 2, 2)
    kept = {(int(s), int(t)): mass for s, t, mass in zip(*found, strict=True)}
    assert kept == {(0, 0): 10.0, (1, 1): 10.0}
    found = without_cycles(plan, 4 - cost, 2, 2)  # now the other diagonal is the cheaper one
    assert {(int(s), int(t)) for s, t, _ in zip(*found, strict=True)} == {(0, 1), (1, 0)}


@pytest.mark.properties
@given(sizes=st.tuples(st.integers(1, 25), st.integers(1, 25)), density=st.floats(0.05, 1), seed=st.integers(0, 99))
def test_marginals_stay_costs_do_not_rise_and_no_cycle_is_left(sizes, density, seed):
    n, m = sizes
    rng = np.random.default_rng(seed)
    source, target = np.nonzero(rng.random((n, m)) < density)
    mass = rng.integers(1, 4, len(source)).astype(float)  # small numbers: pairs are emptied together
    plan, cost = Plan(source, target, mass), rng.normal(size=len(source))
    found = without_cycles(plan, cost, n, m)
    for here, there in zip(marginals(found, n, m), marginals(plan, n, m), strict=True):
        np.testing.assert_array_equal(here, there)
    matrix = np.full((n, m), np.nan)
    matrix[source, target] = cost
    spent = found.mass @ matrix[found.source, found.target]
    assert spent <= mass @ cost + 1e-9 * (1 + np.abs(cost) @ mass)  # rounding of the sums
    assert n_cycles(found, n, m) == 0
    assert (found.mass > 0).all()


def test_blocks_of_cells_with_weights_of_their_own_share_no_cycle(rng, monkeypatch):
    # A cell that is in several blocks has partners in each: without it, 2.4 pairs for each of the cells here.
    monkeypatch.setattr(module, "SMALLEST_BLOCK", 128)
    monkeypatch.setattr(module, "WHOLE", 256)
    x, y, a, b = rng.normal(size=(600, 5)), rng.normal(size=(500, 5)), rng.random(600), rng.random(500)
    coupling = module.multiscale(x, y, a, b, max_sweeps=2)
    assert coupling.n_pairs <= 600 + 500 - 1
