"""Partial couplings against a linear program with a dummy cell on either side."""

from __future__ import annotations

from functools import partial as bound_to

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from scjko.core.transport import Auto, Partial, budget, exact, multiscale, partial, within
from scjko.core.transport.programs import linear_program, pricing
from scjko.core.transport.programs import multiscale as module
from scjko.core.transport.programs.column_generation import generate_columns
from scjko.core.transport.programs.multiscale import optimal
from scjko.core.transport.programs.plan import Plan, quanta

#: Whole programs, column generation, one block and many: each solves all mass or, with a cap, the capped cost.
ROUTES = ["dense", "columns", "one block", "blocks"]


@pytest.fixture
def route(request, monkeypatch):
    """How couplings are solved, and how far above the optimum they may be."""
    monkeypatch.setattr(linear_program, "FEW_PAIRS", np.inf)
    monkeypatch.setattr(module, "SMALLEST_BLOCK", 128)
    monkeypatch.setattr(module, "WHOLE", 0 if request.param == "blocks" else 4096)
    return {"dense": (exact, 1e-12), "columns": (optimal, 1e-9)}.get(
        request.param, (multiscale, 0.01 if request.param == "one block" else 0.03)
    )


def with_dummies(x, y, a, b, cap):
    """What the best partial coupling costs, and how much of the mass it leaves over, by a program of all pairs."""
    n, m = len(x), len(y)
    cost = np.zeros((n + 1, m + 1))
    cost[:n, :m] = cdist(x, y, "sqeuclidean")
    cost[:n, m] = cost[n, :m] = cap / 2
    plan = ot.emd(np.append(a / a.sum(), 1), np.append(b / b.sum(), 1), cost / (cost.max() or 1), numItermax=10**7)
    return float(np.sum(plan * cost)), 1 - plan[:n, :m].sum()


def whole_cost(coupling, cap):
    """What the coupling costs with the price of what it leaves over."""
    return coupling.cost * (1 - coupling.dropped) + cap * coupling.dropped


def assert_partial(coupling, x, y, a, b, cap):
    """No pair is too far apart, no cell has more mass than it had, and the bound holds for the marginals there are."""
    cost = cdist(x, y, "sqeuclidean")
    assert (cost[coupling.source, coupling.target] < cap).all()
    assert coupling.weight.sum() == pytest.approx(1, rel=1e-12)
    kept = 1 - coupling.dropped
    for found, had in ((coupling.source_weight, a), (coupling.target_weight, b)):
        assert (kept * found <= had / had.sum() + 1e-12).all()
    f, g = coupling.duals
    assert (f[:, None] + g - np.minimum(cost, cap)).max() <= 1e-11 * cost.max()
    own, other = coupling.source_weight, coupling.target_weight
    scale = cost.max() or 1.0
    optimum = scale * ot.emd2(own / own.sum(), other / other.sum(), cost / scale, numItermax=10**7)
    slack = 1e-11 * cost.max()
    assert coupling.cost >= optimum - slack
    assert coupling.bound is None or coupling.cost <= (1 + coupling.bound) * optimum + slack


def wells(rng, n=260, m=210, n_dims=3, shares=(0.6, 0.4), apart=8.0):
    """Two groups of cells that stay where they are; their shares differ from time to time."""
    places = np.zeros((2, n_dims))
    places[1, 0] = apart
    group, other = (np.arange(k) < share * k for k, share in zip((n, m), shares, strict=True))
    x, y = (places[g.astype(int)] + rng.normal(size=(len(g), n_dims)) for g in (group, other))
    return x, y, group, other


@pytest.mark.parametrize("route", ROUTES, indirect=True)
@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("price", [0.5, 2.0, 5.0])
def test_as_a_program_with_dummy_cells(rng, route, weighted, price):
    solve, above = route
    x, y, _, _ = wells(rng)
    a, b = (rng.uniform(size=len(z)) if weighted else np.ones(len(z)) for z in (x, y))
    a[5] = b[7] = 0 if weighted else 1
    cap = price * exact(x, y, a, b).cost
    best, left = with_dummies(x, y, a, b, cap)
    coupling = within(solve(x, y, a, b, cap=cap), x, y, cap)
    assert best * (1 - 1e-12) <= whole_cost(coupling, cap) <= best * (1 + above)
    assert coupling.dropped == pytest.approx(left, abs=1e-9 if above < 1e-3 else 0.02)
    assert_partial(coupling, x, y, a, b, cap)
    assert coupling.bound < max(3 * above, 1e-9)
    # The price is one of the balanced coupling of the same solver.
    cap = price * solve(x, y, a, b).cost
    again, direct = partial(x, y, a, b, price=price, solve=solve), within(solve(x, y, a, b, cap=cap), x, y, cap)
    assert again.cap == cap
    assert whole_cost(again, cap) == pytest.approx(whole_cost(direct, cap), rel=max(above, 1e-9))


@given(
    sizes=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    n_dims=st.integers(1, 6),
    seed=st.integers(0, 2**31),
    sites=st.integers(1, 40),
    far=st.sampled_from([0.0, 1.0, 1e3]),
    price=st.sampled_from([0.3, 1.0, 1.5, 5.0]),
)
@pytest.mark.properties
def test_whatever_the_problem(sizes, n_dims, seed, sites, far, price):
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(sites, n_dims)) * 10 ** rng.uniform(-2, 2, size=n_dims)
    x, y = (places[rng.integers(sites, size=n)] for n in sizes)  # with duplicates
    y = y + far
    x[0] += 10 * far  # and an outlier
    a, b = (rng.exponential(size=n) * (rng.random(n) < 0.8) for n in sizes)
    a[0], b[0] = 1.0, 1.0
    cost = cdist(x, y, "sqeuclidean")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear_program, "FEW_PAIRS", np.inf)
        patch.setattr(module, "SMALLEST_BLOCK", 16)
        patch.setattr(module, "WHOLE", 64)
        for solve in (exact, optimal, bound_to(multiscale, random_state=seed % 7)):
            try:
                coupling = partial(x, y, a, b, price=price, solve=solve)
            except ValueError as error:
                assert price <= 1 and "larger price" in str(error)
                continue
            if coupling.cap == np.inf:
                assert coupling.cost == 0 == coupling.dropped
                continue
            assert_partial(coupling, x, y, a, b, coupling.cap)
            best, _ = with_dummies(x, y, a, b, coupling.cap)
            assert whole_cost(coupling, coupling.cap) >= best - 1e-11 * cost.max()
            if solve is not exact and solve is not optimal:
                continue
            assert whole_cost(coupling, coupling.cap) <= best + 1e-9 * (best + 1e-3 * cost.max())


@pytest.mark.parametrize("route", ROUTES, indirect=True)
def test_fates_whose_shares_differ_by_chance_exchange_no_mass(rng, route):
    """What it is for: the balanced coupling carries the difference from well to well."""
    solve, _ = route
    x, y, group, other = wells(rng, 600, 500, n_dims=2, shares=(0.52, 0.48), apart=12.0)

    def crossing(coupling):
        return coupling.weight[group[coupling.source] != other[coupling.target]].sum()

    balanced, found = solve(x, y), partial(x, y, price=5.0, solve=solve)
    assert crossing(balanced) == pytest.approx(0.04, abs=1e-9)
    assert crossing(found) == 0
    assert found.dropped == pytest.approx(0.04, abs=1e-3), "the difference, and hardly more"
    assert found.cost < 0.1 * balanced.cost


@pytest.mark.parametrize("route", ROUTES, indirect=True)
def test_snapshots_with_nothing_to_leave_over_are_coupled_as_ever(rng, route):
    solve, _ = route
    x, y = rng.normal(size=(300, 4)), rng.normal(size=(250, 4)) + 3
    balanced, found = solve(x, y), partial(x, y, price=50.0, solve=solve)
    for name in ("source", "target", "weight"):
        np.testing.assert_array_equal(getattr(found, name), getattr(balanced, name))
    assert found.dropped == 0 and (found.cost, found.bound) == (balanced.cost, balanced.bound)
    # And by a cap that is never reached, which the programs have to find out.
    capped = within(solve(x, y, cap=1e3), x, y, 1e3)
    assert capped.dropped == 0 and capped.cost == pytest.approx(balanced.cost, rel=0.02)


def test_a_price_at_which_nothing_is_left_is_an_error_that_says_so():
    x, y = np.zeros((4, 1)), np.ones((3, 1))
    for price in (0.5, 1.0):
        said = f"price={price:g} leaves all mass of 4 and 3 cells uncoupled.*larger price.*above 1"
        with pytest.raises(ValueError, match=said):
            partial(x, y, price=price, solve=exact)
    assert partial(x, y, price=1.01, solve=exact).dropped == 0


@pytest.mark.parametrize("route", ROUTES, indirect=True)
def test_cells_in_one_place_duplicates_outliers_and_lonely_cells(rng, route):
    solve, _ = route
    together = partial(np.ones((70, 2)), np.ones((50, 2)), solve=solve)
    assert (together.cost, together.dropped, together.bound) == (0, 0, 0)
    sites = rng.normal(size=(5, 2))
    x, y = sites[rng.integers(5, size=200)], sites[rng.integers(5, size=150)]
    found = partial(x, y, solve=solve)
    assert_partial(found, x, y, np.ones(200), np.ones(150), found.cap)
    x, y = rng.normal(size=(150, 3)), rng.normal(size=(120, 3))
    x[7] = 1e4  # it alone is most of the balanced cost, and has no partner
    found = partial(x, y, solve=solve)
    assert_partial(found, x, y, np.ones(150), np.ones(120), found.cap)
    assert found.dropped == pytest.approx(1 / 150) and 7 not in found.source
    for n, m in ((1, 300), (300, 1), (1, 1)):
        x, y = rng.normal(size=(n, 2)), rng.normal(size=(m, 2)) + 1
        found = partial(x, y, price=2.0, solve=solve)
        assert_partial(found, x, y, np.ones(n), np.ones(m), found.cap)
    x, y = rng.normal(size=(30, 60)), rng.normal(size=(25, 60))
    found = partial(x, y, price=1.01, solve=solve)
    assert_partial(found, x, y, np.ones(30), np.ones(25), found.cap)


def test_prices_with_a_cap_are_those_of_a_dense_matrix(rng, monkeypatch):
    monkeypatch.setattr(pricing, "ROWS", 64)
    x, y, g = rng.normal(size=(200, 3)), rng.normal(size=(90, 3)), rng.normal(size=90)
    dense = np.minimum(cdist(x, y, "sqeuclidean"), 2.0) - g
    cuts = pricing.even_cuts(90, 4)
    found = pricing.price(x, y, g, cuts, cap=2.0)
    for part in range(4):
        np.testing.assert_allclose(found.value[:, part], dense[:, cuts[part] : cuts[part + 1]].min(axis=1), atol=1e-12)
    np.testing.assert_array_equal(found.value, pricing.price_side_by_side(x, y, g, cuts, cap=2.0).value)


def test_few_programs_suffice_however_much_is_left_over(rng):
    """Dummy cells stand for all pairs at the cap: their number does not grow with that of the cells left over."""
    x, y, _, _ = wells(rng, 900, 800, n_dims=2, shares=(0.7, 0.3))
    a, b = quanta(np.ones(900), np.ones(800), 2**49)
    ends = np.union1d(np.cumsum(a), np.cumsum(b))
    start = Plan(*(np.searchsorted(np.cumsum(z), ends) for z in (a, b)), np.diff(ends, prepend=0))
    guess = np.zeros(900), np.zeros(800)
    solved = generate_columns(x, y, start, guess, tolerance=1e-9, cap=4.0, max_rounds=15)
    assert solved.gap <= 1e-9
    np.testing.assert_array_equal(np.bincount(solved.plan.source, solved.plan.mass), a)
    np.testing.assert_array_equal(np.bincount(solved.plan.target, solved.plan.mass), b)
    assert solved.plan.cost(x, y, 4.0) == pytest.approx(with_dummies(x, y, a, b, 4.0)[0], rel=1e-9)


def test_the_solver_chooses_by_size_and_keeps_its_options(rng, monkeypatch):
    x, y, _, _ = wells(rng)
    few = Partial(price=2).solve(x, y)
    assert few.cost == partial(x, y, price=2.0, solve=exact).cost
    assert Partial().need(30, 25, 3) == Auto().need(30, 25, 3)
    monkeypatch.setattr(budget, "LARGEST_EXACT", 100)
    many = Partial(price=2, tolerance=0.05, max_sweeps=1).solve(x, y, random_state=4)
    options = {"tolerance": 0.05, "max_sweeps": 1, "random_state": 4}
    again = partial(x, y, price=2.0, solve=multiscale, **options)
    assert many.cost == again.cost and 0 < many.dropped == again.dropped
    assert Partial(price=2, tolerance=0.05).options() == {"price": 2.0, "tolerance": 0.05}


@pytest.mark.parametrize("options", [{"price": 0}, {"price": "5 %"}, {"tolerance": -1}, {"max_sweeps": 0}], ids=str)
def test_impossible_options_are_named(options):
    with pytest.raises((TypeError, ValueError), match=next(iter(options))):
        Partial(**options)
