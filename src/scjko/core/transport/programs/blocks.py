"""Plans cut into blocks: each coupled anew, and the potentials of all put together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...compute.parallel import one_thread, side_by_side
from .column_generation import Solved, generate_columns
from .forest import without_cycles
from .plan import Plan, squared
from .pricing import price, price_side_by_side
from .problem import Problem
from .simplex import simplex

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Groups of targets that are aligned with each other, about, and sources of each cluster from which that is learned.
GROUPS, OF_EACH = 100, 4


class Refined(NamedTuple):
    """A plan after a sweep, and what its blocks know of the potentials of all cells."""

    plan: Plan
    potentials: tuple[Array, Array]
    whole: bool
    """Whether there was one block: its potentials are feasible for all pairs."""


def refined(
    problem: Problem,
    plan: Plan,
    potentials: tuple[Array, Array],
    clusters: Index,
    size: int,
    tolerance: float,
    rng: np.random.Generator,
) -> Refined:
    """The plan after a sweep in blocks of at most ``size`` pairs, with aligned potentials."""
    blocks = sweep(problem, plan, potentials, size, tolerance, rng)
    plan = Plan.union([block.solved.plan for block in blocks], len(problem.y))
    if len(plan.mass) > size and len(plan.mass) >= len(problem.x) + len(problem.y):
        # Of several blocks a cell may be in each, with other partners.
        cost = squared(problem.x, problem.y, plan.source, plan.target, problem.cap)
        plan = without_cycles(plan, cost, len(problem.x), len(problem.y))
    return Refined(plan, aligned(problem, blocks, clusters), len(blocks) == 1)


class Block(NamedTuple):
    """A part of a plan, solved: its cells, their mass in it, and the solution."""

    sources: Index
    targets: Index
    a: Array
    b: Array
    solved: Solved
    """With the plan among all cells, and potentials of the cells of the block."""


def sweep(
    problem: Problem,
    plan: Plan,
    potentials: tuple[Array, Array],
    size: int,
    tolerance: float,
    rng: np.random.Generator,
) -> list[Block]:
    """The blocks of a plan, of at most ``size`` pairs, each coupled anew, side by side."""
    blocks = cut_up(_midpoints(problem, plan, rng), np.arange(len(plan.mass)), size, rng)
    # One block leaves the other cores to its own pricing.
    pricing = price_side_by_side if len(blocks) == 1 else price

    def work(pairs: Index) -> Block:
        part = plan.part(pairs)
        sources, row = np.unique(part.source, return_inverse=True)
        targets, column = np.unique(part.target, return_inverse=True)
        a, b = (np.bincount(cell, part.mass).astype(np.float64) for cell in (row, column))
        guess = potentials[0][sources], potentials[1][targets]
        x, y = problem.x[sources], problem.y[targets]
        # Distances of nearby cells are more exact in coordinates about them.
        centre = (x.mean(axis=0) + y.mean(axis=0)) / 2
        x, y = x - centre, y - centre
        solved = generate_columns(
            x, y, Plan(row, column, part.mass), guess, tolerance=tolerance, cap=problem.cap, pricing=pricing
        )
        found = Plan(sources[solved.plan.source], targets[solved.plan.target], solved.plan.mass)
        return Block(sources, targets, a, b, solved._replace(plan=found))

    with one_thread():
        return side_by_side(work, blocks)


def _midpoints(problem: Problem, plan: Plan, rng: np.random.Generator) -> Array:
    """Twice the midpoint of each pair; pairs at the cap stand at either of their ends."""
    x, y = problem.x[plan.source], problem.y[plan.target]
    far = np.flatnonzero(squared(problem.x, problem.y, plan.source, plan.target) >= problem.cap)
    middle = x + y
    if len(far):
        # A pair at the cap costs the same with other partners. What can be gained is at its ends: there another cell
        # may be left over in its place.
        first = rng.random(len(far)) < 0.5
        middle[far] = 2 * np.where(first[:, None], x[far], y[far])
    return middle


def cut_up(midpoints: Array, index: Index, size: int, rng: np.random.Generator) -> list[Index]:
    """The indices in blocks of at most ``size``, by cuts across random directions."""
    if len(index) <= size:
        return [index]
    # The difference of two random points is likely to lie along directions in which the points vary.
    one, other = midpoints[rng.integers(len(index), size=2)]
    n_blocks = -(-len(index) // size)
    cut = len(index) * (n_blocks // 2) // n_blocks
    order = np.argpartition(midpoints @ (one - other), cut)
    return [block for side in (order[:cut], order[cut:]) for block in cut_up(midpoints[side], index[side], size, rng)]


def aligned(problem: Problem, blocks: list[Block], clusters: Index) -> tuple[Array, Array]:
    """Potentials of all cells from those of the blocks, feasible or nearly so.

    A cell takes its potential from the block that holds most of its mass. How high the potentials of one block, or of a
    cluster in it, are above those of another is known to neither. So the targets of each block are cut into groups, and
    each group has a constant s to be taken from its potentials g. With h the smallest price of a source in each group,
    the largest potential of the source is min_q (h_iq + s_q), and the bound ∫f + ∫g is largest where −s are the
    potentials of the groups in the transport of the sources to the groups at the cost h. Some sources of each of their
    ``clusters`` suffice.
    """
    f, _ = _taken(len(problem.x), [(block.sources, block.a, block.solved.f) for block in blocks])
    g, owner = _taken(len(problem.y), [(block.targets, block.b, block.solved.g) for block in blocks])
    if len(blocks) == 1:
        return f, g
    rng, size = np.random.default_rng(0), -(-len(problem.y) // GROUPS)
    groups = []
    for k in range(len(blocks)):
        own = np.flatnonzero(owner == k)
        groups += cut_up(problem.y[own], own, size, rng) if len(own) else []
    order, sizes = np.concatenate(groups), [len(group) for group in groups]
    cuts = np.concatenate([[0], np.cumsum(sizes)])
    some, weight = spread_out(problem.a, clusters)
    h = price_side_by_side(problem.x[some], problem.y[order], g[order], cuts, cap=problem.cap).value
    mass = np.add.reduceat(problem.b[order], cuts[:-1])
    _, _, v = simplex(weight, mass / mass.sum(), h - h.min(), of="groups of cells")
    g[order] += np.repeat(v, sizes)
    return f, g


def spread_out(mass: Array, clusters: Index) -> tuple[Index, Array]:
    """Some cells of each cluster, and weights that give every cluster the mass it has.

    A random sample would not: clusters would differ in mass by chance, and potentials would pay for moving that.
    """
    order = np.argsort(clusters, kind="stable")  # within a cluster in the random order of the cells
    sizes = np.bincount(clusters)
    rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = order[rank < OF_EACH]
    held = np.bincount(clusters[chosen], mass[chosen])
    weight = mass[chosen] * (np.bincount(clusters, mass) / held)[clusters[chosen]]
    return chosen, weight / weight.sum()


def _taken(n_cells: int, parts: list[tuple[Index, Array, Array]]) -> tuple[Array, Index]:
    """For each cell the potential in the part that has most of its mass, and which part that is.

    A part gives its cells, their mass in it, and their potentials.
    """
    potential, part, held = np.empty(n_cells), np.zeros(n_cells, np.int64), np.zeros(n_cells)
    for k, (cells, mass, values) in enumerate(parts):
        more = mass > held[cells]
        potential[cells[more]], part[cells[more]], held[cells[more]] = values[more], k, mass[more]
    return potential, part
