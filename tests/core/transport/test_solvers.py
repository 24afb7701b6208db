"""Solvers as objects: their checks, their options, and that each couples as its function does."""

from __future__ import annotations

import pickle
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from scjko.core.transport import (
    SOLVERS,
    Auto,
    Batched,
    Exact,
    Multiscale,
    Partial,
    Sinkhorn,
    Solver,
    as_solver,
    batched,
    budget,
    couple,
    exact,
    multiscale,
    sinkhorn,
)


@pytest.fixture
def clouds(rng):
    """Two snapshots of more cells than a patch or a batch, with unequal weights."""
    x, y = rng.normal(size=(300, 3)), rng.normal(size=(250, 3)) + 0.5
    return x, y, rng.uniform(0.5, 2, size=300), rng.uniform(0.5, 2, size=250)


def assert_same(one, other):
    for name in ("source", "target", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.usefixtures("mixed_ranks")
def test_each_couples_as_its_function_does(clouds):
    assert_same(Exact().solve(*clouds, random_state=3), exact(*clouds))
    assert_same(Multiscale().solve(*clouds, random_state=3), multiscale(*clouds, random_state=3))
    assert_same(Batched(size=50).solve(*clouds, random_state=3), batched(*clouds, size=50, random_state=3))
    assert_same(Sinkhorn(epsilon=0.1).solve(*clouds, random_state=3), sinkhorn(*clouds, epsilon=0.1))


@pytest.mark.usefixtures("mixed_ranks")
@pytest.mark.parametrize(
    ("solver", "of_source", "of_target"),
    [
        (Auto(), 1e-12, 1e-12),
        (Exact(), 1e-12, 1e-12),
        (Multiscale(), 1e-12, 1e-12),
        # So high a price that nothing is left over.
        (Partial(price=100), 1e-12, 1e-12),
        # A batch has the mass of its source cells: the sums of 50 weights on either side vary by some 5 % each.
        (Batched(size=50), 1e-12, 0.3),
        # Sinkhorn stops when the marginals are off by 1e-3 in all, a third of the mean weight here.
        (Sinkhorn(epsilon=0.1), 0.3, 0.3),
    ],
    ids=list(SOLVERS),
)
def test_marginals_are_the_weights(clouds, solver, of_source, of_target):
    _, _, a, b = clouds
    coupling = solver.solve(*clouds)
    assert coupling.weight.sum() == pytest.approx(1, rel=1e-12)
    np.testing.assert_allclose(coupling.source_weight, a / a.sum(), atol=of_source / len(a))
    np.testing.assert_allclose(coupling.target_weight, b / b.sum(), atol=of_target / len(b))
    if solver.name == "sinkhorn":
        assert np.abs(coupling.source_weight - a / a.sum()).sum() < 2e-3


def test_auto_takes_what_suits_the_size(clouds, monkeypatch):
    assert_same(Auto().solve(*clouds, random_state=3), exact(*clouds))
    monkeypatch.setattr(budget, "LARGEST_EXACT", 300 * 250 - 1)
    assert_same(Auto().solve(*clouds, random_state=3), multiscale(*clouds, random_state=3))
    assert Auto().need(30, 25, 3) == Exact().need(30, 25, 3) != Multiscale().need(30, 25, 3)
    assert Auto().need(300, 250, 3) == Multiscale().need(300, 250, 3)


def test_names_and_objects_are_solvers():
    assert list(SOLVERS) == ["auto", "exact", "multiscale", "partial", "batched", "sinkhorn"]
    for name, kind in SOLVERS.items():
        assert as_solver(name) == kind() and kind.name == name
    mine = Sinkhorn(epsilon=0.3)
    assert as_solver(mine) is mine


def test_what_is_no_solver_is_named_beside_those_there_are():
    with pytest.raises(ValueError, match="coupling='sinkhron' is not an option.*'auto', 'exact', .*'sinkhorn'"):
        as_solver("sinkhron")
    with pytest.raises(ValueError, match="'decomposed' was replaced by 'multiscale'"):
        as_solver("decomposed")
    for value in (None, 3, Exact, ["exact"]):
        with pytest.raises(TypeError, match=r"Exact\(\).*'multiscale'.*not"):
            as_solver(value)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Sinkhorn(epsilon=-1), ValueError, "epsilon=-1 must be finite and above zero"),
        (lambda: Sinkhorn(epsilon="small"), TypeError, "epsilon must be a number"),
        (lambda: Batched(size=1), ValueError, "size=1 is too small; it must be at least 2"),
        (lambda: Batched(size=10.5), TypeError, "size must be a whole number"),
        (lambda: Exact(1), TypeError, "positional argument"),
        (lambda: Exact(epsilon=0.1), TypeError, "epsilon"),
        (lambda: Solver(), TypeError, "abstract"),
        *[
            (lambda kind=kind: kind(memory_limit=0), ValueError, "memory_limit=0 must be finite and above zero")
            for kind in SOLVERS.values()
        ],
    ],
)
def test_impossible_options_are_named(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_options_are_plain_and_leave_out_what_is_not_set():
    assert Auto().options() == {}
    options = Batched(size=np.int64(50), memory_limit=np.float32(2)).options()
    assert options == {"size": 50, "memory_limit": 2.0}
    assert {type(value) for value in options.values()} == {int, float}
    for solver in (Exact(memory_limit=3), Partial(price=3), Sinkhorn(epsilon=1), Batched(size=20)):
        assert SOLVERS[solver.name](**solver.options()) == solver


def test_solvers_do_not_change_and_travel_to_other_processes():
    solver = Batched(size=20)
    with pytest.raises(FrozenInstanceError):
        solver.size = 30
    assert pickle.loads(pickle.dumps(solver)) == solver


def test_the_limit_is_in_bytes():
    assert Exact(memory_limit=1.5).limit == 1_500_000_000


def test_snapshots_are_coupled_by_solvers_or_functions_one_for_all_or_one_each(rng):
    points = [rng.normal(size=(n, 2)) for n in (300, 260, 40)]
    weights = [rng.uniform(size=len(x)) for x in points]
    for solve in (Exact(), exact, [exact, Exact()]):
        for k, coupling in enumerate(couple(points, weights, solve)):
            assert_same(coupling, exact(*points[k : k + 2], *weights[k : k + 2]))
    first, second = couple(points, weights, [Multiscale(), Batched(size=20)], random_state=7)
    assert_same(first, multiscale(*points[:2], *weights[:2], random_state=7))
    assert_same(second, batched(*points[1:], *weights[1:], size=20, random_state=7))
