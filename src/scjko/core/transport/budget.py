"""How much memory couplings and distances take, and how many are computed at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:  # solvers take their needs from here
    from .solvers import Solver

#: Cells of one snapshot times those of the next, up to which exact couplings are chosen: some seconds' work.
LARGEST_EXACT = 20_000_000
#: Bytes for each pair of cells: costs, result and the arcs of POT's network simplex (measured 43 to 49 from 4000 cells
#: on); the same for Sinkhorn's matrices.
PER_PAIR = 50
#: Bytes for each cell and for each of its coordinates, of a coupling by column generation (measured for 10⁵ cells).
PER_CELL, PER_COORDINATE = 2000, 50


def per_cell(n: int, m: int, n_dims: int) -> int:
    """Bytes of a coupling that never has a matrix of all pairs."""
    return (n + m) * (PER_CELL + PER_COORDINATE * n_dims)


class Budget(NamedTuple):
    """Which solver takes each interval, and how many intervals are solved at a time."""

    solvers: list[Solver]
    at_once: int
    needs: list[int]
    """Bytes that each interval takes."""


def allot(solver: Solver, sizes: Sequence[int], n_dims: int, n_cores: int) -> Budget:
    """The solver of each interval between snapshots of these sizes, and as many at a time as fit into its limit.

    Raises
    ------
    MemoryError
        If an interval does not fit; the message gives the smallest limit that works.
    """
    pairs, limit = list(zip(sizes[:-1], sizes[1:], strict=True)), solver.limit
    solvers = [solver.for_size(n, m) for n, m in pairs]
    needs = [chosen.need(n, m, n_dims) for chosen, (n, m) in zip(solvers, pairs, strict=True)]
    worst = max(range(len(pairs)), key=needs.__getitem__)
    if needs[worst] > limit:
        n, m = pairs[worst]
        other = "" if solver.name in ("auto", "exact", "multiscale", "partial") else ", or use coupling='auto'"
        raise MemoryError(
            f"memory_limit is {limit / 1e9:.3g} GB, and the {solvers[worst].name} coupling of {n} and {m} cells needs "
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
    needed = PER_PAIR * n * m
    if needed > limit:
        share = min((limit / needed) ** 0.5, 0.99)
        raise MemoryError(
            f"memory_limit is {limit / 1e9:.3g} GB, and the exact distance of {n} and {m} cells needs "
            f"{needed / 1e9:.3g} GB; the smallest memory_limit that works is {needed / 1e9 + 0.0005:.3f}. Or validate "
            f"a random {100 * share:.2g} % of the cells, which says as much."
        )
    return min(n_cores, limit // needed)
