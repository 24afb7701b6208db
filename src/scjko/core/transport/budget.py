"""How much memory couplings and distances take, and which solver fits into what there is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

#: Cells of one snapshot times those of the next, up to which exact couplings are chosen: a quarter of a minute's work.
LARGEST_EXACT = 20_000_000
#: Bytes for each pair of cells: costs, plan and the arcs of POT's network simplex (measured 43 to 49 from 4000 cells
#: on); the same for Sinkhorn's matrices.
PER_PAIR = 50
#: Bytes for each cell and for each of its coordinates, of a plan that is mended in blocks (measured for 10⁵ cells).
PER_CELL, PER_COORDINATE = 2000, 50


class Budget(NamedTuple):
    """Which solver takes each interval, and how many intervals are solved at a time."""

    solvers: list[str]
    at_once: int
    needs: list[int]
    """Bytes that each interval takes."""


def machine_memory() -> int:
    """Bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # not on Windows
        return 8 * 2**30


def need(solver: str, n: int, m: int, n_dims: int, batch: int) -> int:
    """Bytes that this solver takes for ``n`` and ``m`` cells."""
    if solver == "decomposed":
        return (n + m) * (PER_CELL + PER_COORDINATE * n_dims)
    if solver == "batched":
        return PER_PAIR * min(n, batch) * min(m, batch)
    return PER_PAIR * n * m


def allot(coupling: str, sizes: Sequence[int], n_dims: int, batch: int, limit: int, n_cores: int) -> Budget:
    """The solver that is asked for, or with ``"auto"`` the one that fits; as many at a time as fit.

    Raises
    ------
    MemoryError
        If an interval does not fit; the message says the smallest limit that works.
    """
    pairs = list(zip(sizes[:-1], sizes[1:], strict=True))

    def fits(solver: str, n: int, m: int) -> bool:
        return need(solver, n, m, n_dims, batch) <= limit

    small = [n * m <= LARGEST_EXACT and fits("exact", n, m) for n, m in pairs]
    solvers = [coupling if coupling != "auto" else "exact" if exact else "decomposed" for exact in small]
    needs = [need(solver, n, m, n_dims, batch) for solver, (n, m) in zip(solvers, pairs, strict=True)]
    worst = max(range(len(pairs)), key=needs.__getitem__)
    if needs[worst] > limit:
        n, m = pairs[worst]
        other = "" if coupling in ("auto", "decomposed") else ", or take coupling='auto'"
        raise MemoryError(
            f"memory_limit is {limit / 1e9:.3g} GB, and the {solvers[worst]} coupling of {n} and {m} cells needs "
            f"{needs[worst] / 1e9:.3g} GB; the smallest memory_limit that works is {needs[worst] / 1e9 + 0.0005:.3f}"
            f"{other}."
        )
    return Budget(solvers, int(max(1, min(n_cores, limit // max(needs)))), needs)


def distances_at_once(pairs: Sequence[tuple[int, int]], limit: int, n_cores: int) -> int:
    """How many exact distances fit into ``limit`` bytes at a time, the largest being of as many cells as in ``pairs``.

    Raises
    ------
    MemoryError
        If the largest does not fit; the message says what would.
    """
    n, m = max(pairs, key=lambda pair: pair[0] * pair[1])
    needed = need("exact", n, m, 0, 0)
    if needed > limit:
        share = min((limit / needed) ** 0.5, 0.99)
        raise MemoryError(
            f"memory_limit is {limit / 1e9:.3g} GB, and the exact distance of {n} and {m} cells needs "
            f"{needed / 1e9:.3g} GB; the smallest memory_limit that works is {needed / 1e9 + 0.0005:.3f}. Or validate "
            f"a random {100 * share:.2g} % of the cells, which says as much."
        )
    return min(n_cores, limit // needed)
