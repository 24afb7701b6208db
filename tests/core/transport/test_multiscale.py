"""Multiscale couplings against exact ones: near the optimum on every shape, and proven to be."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from scjko.core.transport import Multiscale, exact, multiscale
from scjko.core.transport.programs import blocks as in_blocks
from scjko.core.transport.programs import linear_program
from scjko.core.transport.programs import multiscale as module
from scjko.core.transport.programs.blocks import aligned, cut_up, refined, spread_out, sweep
from scjko.core.transport.programs.coarse import coarse_start
from scjko.core.transport.programs.multiscale import feasible, lower_bound
from scjko.core.transport.programs.problem import Problem


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Blocks so small that a thousand cells need many."""
    monkeypatch.setattr(module, "SMALLEST_BLOCK", 128)
    monkeypatch.setattr(module, "WHOLE", 512)


def arms(rng, n):
    """Cells on three curved arms in the plane, denser at their root."""
    arm, along = rng.integers(3, size=n), rng.beta(1, 2, size=n)
    angle = 2.1 * arm + 0.8 * along
    return np.stack([along * np.cos(angle), along * np.sin(angle)], axis=1) + 0.02 * rng.normal(size=(n, 2))


def shape(name, rng):
    n, m = 1100, 900
    if name == "arms":
        return arms(rng, n), 1.3 * arms(rng, m) + 0.1
    if name == "clusters":
        sites = 5 * rng.normal(size=(8, 6))
        return sites[rng.integers(8, size=n)] + rng.normal(size=(n, 6)), sites[rng.integers(8, size=m)] + rng.normal(
            size=(m, 6)
        )
    scale = 1 / np.sqrt(1 + np.arange(20))
    return rng.normal(size=(n, 20)) * scale, 1.5 * rng.normal(size=(m, 20)) * scale + 1


def weights_of(coupling, a, b):
    """The marginals and the weights they should be."""
    for cells, weight in ((coupling.source, a), (coupling.target, b)):
        yield np.bincount(cells, coupling.weight, minlength=len(weight)), weight / weight.sum()


def assert_marginals(coupling, a, b):
    for found, wanted in weights_of(coupling, a, b):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12 / len(wanted))


def assert_proven(coupling, x, y, optimum):
    """The potentials are feasible, and the bound that they set holds."""
    f, g = coupling.duals
    cost = cdist(x, y, "sqeuclidean")
    assert (f[:, None] + g - cost).max() < 1e-12 * cost.max()
    # Both are sums of as many costs, rounded.
    assert optimum * (1 - 1e-12) <= coupling.cost <= (1 + coupling.bound) * optimum * (1 + 1e-12)


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "weighted"])
@pytest.mark.parametrize("name", ["arms", "clusters", "cloud"])
def test_near_the_optimum_on_every_shape(rng, monkeypatch, name, weighted):
    x, y = shape(name, rng)
    a, b = (rng.uniform(size=len(z)) if weighted else np.ones(len(z)) for z in (x, y))
    optimum = exact(x, y, a, b).cost
    # In blocks to the end, each of some per cent of the plan; and with a last sweep of the whole, which proves it.
    for whole, above, pairs in ((0, 0.03, 1.4), (4096, 0.01, 1.2)):
        monkeypatch.setattr(module, "WHOLE", whole)
        coupling = multiscale(x, y, a, b, tolerance=0.01)
        assert_proven(coupling, x, y, optimum)
        assert coupling.cost < (1 + above) * optimum
        assert_marginals(coupling, a, b)
        assert coupling.n_pairs < pairs * (len(x) + len(y))
    assert coupling.bound <= 0.01


@given(
    sizes=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    n_dims=st.integers(1, 8),
    seed=st.integers(0, 2**31),
    sites=st.integers(1, 60),
    far=st.sampled_from([0.0, 1.0, 1e4]),
)
@pytest.mark.properties
def test_the_bound_holds_whatever_the_problem(sizes, n_dims, seed, sites, far):
    rng = np.random.default_rng(seed)
    places = rng.normal(size=(sites, n_dims)) * 10 ** rng.uniform(-3, 3, size=n_dims)
    x, y = (places[rng.integers(sites, size=n)] for n in sizes)  # with duplicates
    y = y + far
    x[0] += 100 * far  # and an outlier
    a, b = (rng.exponential(size=n) * (rng.random(n) < 0.8) + 1e-300 for n in sizes)
    a[0], b[0] = 1.0, 1.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SMALLEST_BLOCK", 16)
        patch.setattr(module, "WHOLE", 64)
        coupling = multiscale(x, y, a, b, random_state=seed % 7)
    cost = cdist(x, y, "sqeuclidean")
    optimum = ot.emd2(a / a.sum(), b / b.sum(), cost / (cost.max() or 1)) * cost.max()
    f, g = coupling.duals
    # Distances far from the origin are rounded to 10⁻¹⁶ of their largest.
    slack = 1e-11 * cost.max()
    assert (f[:, None] + g - cost).max() <= slack
    assert coupling.cost >= optimum - slack
    if coupling.bound is not None:
        assert coupling.cost <= (1 + coupling.bound) * optimum + slack
    assert_marginals(coupling, a, b)


def test_exact_couplings_of_many_pairs_are_those_of_the_whole_program(rng, monkeypatch):
    x, y = shape("clusters", rng)
    a, b = rng.uniform(size=len(x)), rng.uniform(size=len(y))
    a[3] = b[5] = 0
    many = exact(x, y, a, b)
    monkeypatch.setattr(linear_program, "FEW_PAIRS", np.inf)
    assert many.cost == pytest.approx(exact(x, y, a, b).cost, rel=1e-12)
    assert 0 <= many.bound < 1e-9
    assert_proven(many, x, y, many.cost)
    assert_marginals(many, a, b)
    assert many.n_pairs < len(x) + len(y)


def test_no_sweep_raises_the_cost_or_changes_a_mass(rng):
    x, y = shape("arms", rng)
    problem = Problem.of(x, y, rng.uniform(size=len(x)), rng.uniform(size=len(y)), rng)
    plan, guess, clusters = coarse_start(*problem[:4], rng)
    for _ in range(3):
        before = plan.cost(problem.x, problem.y)
        plan, guess, _ = refined(problem, plan, guess, clusters, 256, 1e-3, rng)
        assert plan.cost(problem.x, problem.y) <= before * (1 + 1e-12)
        np.testing.assert_array_equal(np.bincount(plan.source, plan.mass), problem.a)
        np.testing.assert_array_equal(np.bincount(plan.target, plan.mass), problem.b)


def test_aligned_blocks_prove_more_than_blocks_with_constants_of_their_own(rng):
    x, y = shape("clusters", rng)
    problem = Problem.of(x, y, np.ones(len(x)), np.ones(len(y)), rng)
    plan, guess, clusters = coarse_start(*problem[:4], rng)
    blocks = sweep(problem, plan, guess, 512, 1e-3, rng)
    apart = [block._replace(solved=block.solved._replace(g=block.solved.g + 10 * k)) for k, block in enumerate(blocks)]
    g = np.empty(len(y))
    for block in apart:
        g[block.targets] = block.solved.g
    cost = plan.cost(problem.x, problem.y)
    proven = lower_bound(problem, feasible(problem, aligned(problem, apart, clusters)[1], cost))
    assert proven > lower_bound(problem, feasible(problem, g, cost))
    # A constant of a block is found whatever it was. The program that finds it has more than one optimum for the
    # sources it knows, which differ a little for all others.
    assert proven == pytest.approx(
        lower_bound(problem, feasible(problem, aligned(problem, blocks, clusters)[1], cost)), rel=1e-4
    )


def test_one_block_needs_no_c_transforms(rng, monkeypatch):
    """Its own potentials are feasible for all pairs already, and prove as much, up to the gap at which they stop."""
    x, y = shape("clusters", rng)
    problem = Problem.of(x, y, rng.uniform(size=len(x)), rng.uniform(size=len(y)), rng)
    plan, guess, clusters = coarse_start(*problem[:4], rng)
    plan, found, whole = refined(problem, plan, guess, clusters, len(plan.mass), 1e-9, rng)
    again = lower_bound(problem, feasible(problem, found[1], plan.cost(problem.x, problem.y)))
    assert whole and lower_bound(problem, found) == pytest.approx(again, rel=1e-9)
    monkeypatch.setattr(module, "feasible", None)
    monkeypatch.setattr(module, "WHOLE", 4096)
    coupling = multiscale(x, y, max_sweeps=1)
    assert_proven(coupling, x, y, exact(x, y).cost)


def test_single_precision_proves_nearly_as_much(rng, monkeypatch):
    x, y = shape("cloud", rng)
    double = multiscale(x, y)
    monkeypatch.setattr(module, "MANY", 0)
    single = multiscale(x, y)
    assert single.cost == double.cost
    assert double.bound <= single.bound < double.bound + 1e-3
    assert_proven(single, x, y, exact(x, y).cost)


def test_more_sweeps_and_a_smaller_tolerance_come_nearer(rng):
    x, y = shape("cloud", rng)
    once, often = (multiscale(x, y, tolerance=1e-9, max_sweeps=k) for k in (1, 6))
    assert often.cost < once.cost and often.bound < once.bound


def test_the_seed_decides(rng):
    x, y = shape("cloud", rng)
    first, again, other = (multiscale(x, y, max_sweeps=2, random_state=seed) for seed in (0, 0, 1))
    for name in ("source", "target", "weight"):
        np.testing.assert_array_equal(getattr(first, name), getattr(again, name))
    assert other.cost != first.cost
    assert Multiscale(max_sweeps=2).solve(x, y, random_state=1).cost == other.cost


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_coupling_does_not_depend_on_the_units(rng, scale):
    x, y = shape("arms", rng)
    assert multiscale(scale * x, scale * y).cost == pytest.approx(scale**2 * multiscale(x, y).cost, rel=1e-2)


def test_duplicates_and_cells_in_one_place_are_coupled(rng):
    together = multiscale(np.ones((700, 2)), np.ones((500, 2)))
    assert together.cost == 0 and together.bound == 0
    assert_marginals(together, np.ones(700), np.ones(500))
    sites = rng.normal(size=(5, 2))
    x, y = sites[rng.integers(5, size=800)], sites[rng.integers(5, size=600)]
    coupling = multiscale(x, y)
    assert_marginals(coupling, np.ones(800), np.ones(600))
    assert_proven(coupling, x, y, exact(x, y).cost)


@pytest.mark.parametrize("n", [1, 3])
def test_few_cells_take_many_partners(rng, n):
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(5000, 2))
    for one, other in ((x, y), (y, x)):
        coupling = multiscale(one, other)
        assert_marginals(coupling, np.ones(len(one)), np.ones(len(other)))
        assert_proven(coupling, one, other, ot.emd2([], [], cdist(one, other, "sqeuclidean"), numItermax=10**7))


def test_a_far_outlier_and_more_dimensions_than_cells(rng):
    x, y = rng.normal(size=(600, 3)), rng.normal(size=(500, 3))
    x[7] = 1e5
    assert_proven(multiscale(x, y), x, y, exact(x, y).cost)
    x, y = rng.normal(size=(30, 60)), rng.normal(size=(25, 60))
    assert_proven(multiscale(x, y), x, y, exact(x, y).cost)


def test_a_sample_has_the_mass_of_every_cluster(rng):
    clusters, mass = rng.integers(5, size=300), rng.exponential(size=300)
    chosen, weight = spread_out(mass, clusters)
    assert len(np.unique(chosen)) == len(chosen) == 5 * in_blocks.OF_EACH
    expected = np.bincount(clusters, mass) / mass.sum()
    np.testing.assert_allclose(np.bincount(clusters[chosen], weight), expected, rtol=1e-12)


@pytest.mark.parametrize("far", [1e4, 1e8, 1e12])
def test_an_outlier_beyond_the_digits_of_a_float_is_no_proof(rng, far):
    """Distances to it round all others away: the plan may be far from optimal, but must not claim otherwise."""
    x, y = rng.normal(size=(700, 2)), rng.normal(size=(700, 2)) + 1
    x[0] = y[0] = far
    optimum = exact(x[1:], y[1:]).cost * 699 / 700  # the two outliers are partners
    for coupling in (multiscale(x, y), exact(x, y)):
        assert_marginals(coupling, np.ones(700), np.ones(700))
        assert coupling.bound is None or coupling.cost <= (1 + coupling.bound) * optimum * (1 + 1e-9)


def test_blocks_are_of_points_that_are_near_each_other(rng):
    points = rng.normal(size=(1000, 4))
    cut = cut_up(points, np.arange(1000), 100, rng)
    np.testing.assert_array_equal(np.sort(np.concatenate(cut)), np.arange(1000))
    assert max(map(len, cut)) <= 100
    spread = np.mean([points[block].var(axis=0).sum() for block in cut])
    assert spread < 0.6 * points.var(axis=0).sum()


@pytest.mark.parametrize(
    ("options", "named"),
    [({"tolerance": 0}, "tolerance"), ({"tolerance": "1 %"}, "tolerance"), ({"max_sweeps": 0}, "max_sweeps")],
)
def test_impossible_options_are_named(options, named):
    with pytest.raises((TypeError, ValueError), match=named):
        Multiscale(**options)
