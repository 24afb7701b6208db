"""Memory of couplings: what is chosen, and what is said when nothing fits."""

from __future__ import annotations

import re

import pytest

from scjko.core.transport import SOLVERS, Auto, Batched, Exact, Multiscale, Sinkhorn, solvers
from scjko.core.transport.budget import LARGEST_EXACT, allot, distances_at_once

GB = 10**9


def test_small_snapshots_are_coupled_exactly_and_large_ones_decomposed():
    auto = Auto(memory_limit=8)
    budget = allot(auto, [1000, 4000, 4000, 50_000], 30, 2)
    assert budget.solvers == [Exact(memory_limit=8), Exact(memory_limit=8), Multiscale(memory_limit=8)]
    side = int(LARGEST_EXACT**0.5)
    large = Auto(memory_limit=100)
    assert isinstance(allot(large, [side, side], 5, 2).solvers[0], Exact)
    assert isinstance(allot(large, [side + 2, side + 2], 5, 2).solvers[0], Multiscale)


def test_a_solver_that_is_named_is_not_replaced():
    for solver in (Exact(memory_limit=100), Multiscale(), Batched(size=30), Sinkhorn(epsilon=0.3, memory_limit=100)):
        assert allot(solver, [50, 6000, 6000], 5, 2).solvers == [solver, solver]


def test_needs_are_those_of_each_interval():
    assert allot(Exact(memory_limit=1), [30, 20, 50], 5, 2).needs == [50 * 30 * 20, 50 * 20 * 50]
    assert allot(Exact(memory_limit=1), [1000, 2000], 5, 2).needs == [3000 * (2000 + 50 * 5)], "no matrix of all pairs"
    assert allot(Batched(size=80, memory_limit=1), [100, 200, 50], 5, 2).needs == [50 * 80 * 80, 50 * 80 * 50]
    assert allot(Sinkhorn(memory_limit=1), [100, 200], 5, 2).needs == [50 * 100 * 200]
    assert allot(Multiscale(memory_limit=1), [100, 200], 5, 2).needs == [300 * (2000 + 50 * 5)]


def test_as_many_intervals_at_a_time_as_fit():
    each = Exact().need(3000, 3000, 5)
    for limit, at_once in ((each, 1), (2 * each - 1, 1), (2 * each, 2), (100 * each, 4)):
        assert allot(Exact(memory_limit=limit / GB), [3000] * 6, 5, 4).at_once == at_once


@pytest.mark.parametrize("name", SOLVERS)
def test_the_message_says_the_smallest_limit_that_works(name):
    kind, sizes = SOLVERS[name], [500, 2000, 2000]
    with pytest.raises(MemoryError, match="smallest memory_limit that works is") as error:
        allot(kind(memory_limit=1e-6), sizes, 5, 2)
    smallest = float(re.search(r"works is ([\d.]+)", str(error.value))[1].rstrip("."))
    assert allot(kind(memory_limit=smallest), sizes, 5, 2).at_once == 1
    assert ("coupling='auto'" in str(error.value)) == (name not in ("auto", "exact", "multiscale", "partial"))


def test_by_default_a_quarter_of_what_this_process_may_use(monkeypatch):
    monkeypatch.setattr(solvers, "machine_memory", lambda: 4 * Exact().need(3000, 3000, 5))
    assert allot(Exact(), [3000, 3000], 5, 2).at_once == 1
    with pytest.raises(MemoryError, match="memory_limit is 0.0135 GB"):
        allot(Exact(), [3000, 3001], 5, 2)


def test_as_many_distances_at_a_time_as_fit_and_an_error_that_says_what_would():
    each = 50 * 3000 * 2000
    for limit, at_once in ((each, 1), (2 * each - 1, 1), (2 * each, 2), (100 * each, 4)):
        assert distances_at_once([(10, 20), (3000, 2000)], limit, 4) == at_once
    with pytest.raises(MemoryError, match="smallest memory_limit that works is") as error:
        distances_at_once([(10, 20), (3000, 2000)], each // 4, 4)
    smallest = float(re.search(r"works is ([\d.]+)", str(error.value))[1].rstrip("."))
    assert distances_at_once([(3000, 2000)], int(smallest * GB), 4) == 1
    assert "a random 50 % of the cells" in str(error.value)
