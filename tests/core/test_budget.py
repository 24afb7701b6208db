"""Memory of couplings: what is chosen, and what is said when nothing fits."""

from __future__ import annotations

import re

import pytest

from scjko.core.transport.budget import LARGEST_EXACT, allot, distances_at_once, machine_memory, need

GB = 10**9


def test_small_snapshots_are_coupled_exactly_and_large_ones_decomposed():
    budget = allot("auto", [1000, 4000, 4000, 50_000], 30, 1000, 8 * GB, 2)
    assert budget.solvers == ["exact", "exact", "decomposed"]
    side = int(LARGEST_EXACT**0.5)
    assert allot("auto", [side, side], 5, 1000, 100 * GB, 2).solvers == ["exact"]
    assert allot("auto", [side + 2, side + 2], 5, 1000, 100 * GB, 2).solvers == ["decomposed"]


def test_a_small_limit_leaves_no_room_for_exact_couplings():
    assert allot("auto", [3000, 3000], 5, 1000, GB, 2).solvers == ["exact"]
    assert allot("auto", [3000, 3000], 5, 1000, GB // 10, 2).solvers == ["decomposed"]


def test_as_many_intervals_at_a_time_as_fit():
    each = need("exact", 3000, 3000, 5, 1000)
    for limit, at_once in ((each, 1), (2 * each - 1, 1), (2 * each, 2), (100 * each, 4)):
        assert allot("exact", [3000] * 6, 5, 1000, limit, 4).at_once == at_once


@pytest.mark.parametrize("coupling", ["auto", "exact", "decomposed", "batched", "sinkhorn"])
def test_the_message_says_the_smallest_limit_that_works(coupling):
    sizes = [500, 2000, 2000]
    with pytest.raises(MemoryError, match="smallest memory_limit that works is") as error:
        allot(coupling, sizes, 5, 1000, 1000, 2)
    smallest = float(re.search(r"works is ([\d.]+)", str(error.value))[1].rstrip("."))
    assert allot(coupling, sizes, 5, 1000, int(smallest * GB), 2).at_once == 1
    assert ("coupling='auto'" in str(error.value)) == (coupling not in ("auto", "decomposed"))


def test_as_many_distances_at_a_time_as_fit_and_an_error_that_says_what_would():
    each = need("exact", 3000, 2000, 5, 1000)
    for limit, at_once in ((each, 1), (2 * each - 1, 1), (2 * each, 2), (100 * each, 4)):
        assert distances_at_once([(10, 20), (3000, 2000)], limit, 4) == at_once
    with pytest.raises(MemoryError, match="smallest memory_limit that works is") as error:
        distances_at_once([(10, 20), (3000, 2000)], each // 4, 4)
    smallest = float(re.search(r"works is ([\d.]+)", str(error.value))[1].rstrip("."))
    assert distances_at_once([(3000, 2000)], int(smallest * GB), 4) == 1
    assert "a random 50 % of the cells" in str(error.value)


def test_the_memory_of_this_machine_is_of_a_machine():
    assert 2**28 < machine_memory() < 2**46
