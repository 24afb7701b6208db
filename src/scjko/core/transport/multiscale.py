"""Couplings of snapshots of any size and shape, nearly optimal, with a proof of how nearly.

Three steps, from coarse to fine:

1. Clusters of cells are coupled exactly, and their plan is shared out among the cells (:mod:`.coarse`). This settles
   which region goes where, which no local step could.
2. Pairs whose midpoints are near each other make a block, and the mass of a block is coupled anew by column generation
   (:mod:`.column_generation`). Two pairs (x, y) and (x', y') cost less with their partners swapped if their midpoints
   are nearer to each other than half the difference of their displacements, so that blocks of near midpoints hold what
   can be gained. The next sweep cuts other blocks, so that mass moves on. Marginals stay as they are, and the cost
   never rises. Benamou (1994, SIAM J. Numer. Anal. 32) and Bonafini and Schmitzer (2021, Numer. Math. 149) cut up the
   space of one snapshot; here the plan itself is cut up, which treats both snapshots, and any dimension, alike.
3. Each block knows potentials of its cells, but for a constant. The constants that prove most are themselves the
   potentials of a small transport problem, from cells to blocks (:func:`aligned`). Two c-transforms over all pairs of
   cells make the result feasible, and by weak duality it bounds the optimum from below.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import ot
from numpy.typing import NDArray

from ..compute.parallel import one_thread, side_by_side
from .coarse import coarse_start
from .column_generation import Solved, generate_columns
from .coupling import Coupling, uniform
from .duals import bound
from .plan import Plan, quanta
from .pricing import allowance, price_side_by_side

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Pairs in a block of the first sweep, at most; each sweep has blocks twice as large as the one before. In the last one
#: a plan of few enough pairs is one block, whose potentials need not be aligned: that takes some ten seconds.
SMALLEST_BLOCK, WHOLE = 2048, 40960
#: Groups of targets that are aligned with each other, about, and sources of each cluster from which that is learned.
GROUPS, OF_EACH = 100, 4
#: Gaps of the blocks of a start, and of a plan that is optimal but for rounding.
ROUGH, OPTIMAL = 2e-3, 1e-10
#: Pairs of cells from which on they are priced in single precision, if that loses less than this part of the cost.
MANY, PRECISION = 4e8, 1e-3
#: Pairs of cells from which on there are two sweeps only: more take longer than they gain.
VERY_MANY = 4e9


class Problem(NamedTuple):
    """Two snapshots as they are solved: centred, in random order, without cells that have no mass."""

    x: Array
    y: Array
    a: Array
    b: Array
    rows: Index
    """Where in the snapshot of the user each source is."""
    columns: Index
    shift: Array
    """The mean of the sources less that of the targets."""

    @classmethod
    def of(cls, x: Array, y: Array, a: Array, b: Array, rng: np.random.Generator) -> Problem:
        """The problem of snapshots with these weights."""
        one, other = quanta(a, b)
        rows, columns = (rng.permutation(np.flatnonzero(mass)) for mass in (one, other))
        # Every plan pays for the shift of the mean: without it, the cost is what a plan can change.
        means = a @ x / a.sum(), b @ y / b.sum()
        return cls(
            x[rows] - means[0], y[columns] - means[1], one[rows], other[columns], rows, columns, means[0] - means[1]
        )

    def coupling(self, x: Array, y: Array, plan: Plan, f: Array, g: Array) -> Coupling:
        """The coupling of the user's snapshots, with the bound that the potentials set."""
        # From the cost of centred coordinates to that of others: ‖x − y + s‖² = ‖x − y‖² + 2s·x − 2s·y + ‖s‖².
        f = f + 2 * self.x @ self.shift + self.shift @ self.shift
        g = g - 2 * self.y @ self.shift
        duals = _with_massless(x, y, self.rows, f, self.columns, g)
        source, target = self.rows[plan.source], self.columns[plan.target]
        coupling = Coupling.of(source, target, plan.mass, x, y, duals=duals)
        return replace(coupling, bound=bound(coupling, duals))


def _with_massless(x: Array, y: Array, rows: Index, f: Array, columns: Index, g: Array) -> tuple[Array, Array]:
    """The potentials of all cells: of those without mass the largest that are feasible."""
    centre = x.mean(axis=0)
    x, y = x - centre, y - centre
    all_f, all_g = np.empty(len(x)), np.empty(len(y))
    all_f[rows], all_g[columns] = f, g
    others = np.setdiff1d(np.arange(len(x)), rows)
    if len(others):
        all_f[others] = price_side_by_side(x[others], y[columns], g, [0, len(columns)]).least
    others = np.setdiff1d(np.arange(len(y)), columns)
    if len(others):
        all_g[others] = price_side_by_side(y[others], x, all_f, [0, len(x)]).least
    return all_f, all_g


def multiscale(
    x: Array,
    y: Array,
    a: Array | None = None,
    b: Array | None = None,
    *,
    tolerance: float = 0.01,
    max_sweeps: int | None = None,
    random_state: int = 0,
) -> Coupling:
    """A coupling no more than ``tolerance`` above the optimum for the squared Euclidean cost, if that can be reached.

    Its bound is proven, whether it is below the tolerance or not. Snapshots of few enough cells for one block have the
    tolerance always. Marginals are the weights up to rounding, pairs about as many as cells, and memory grows like the
    number of cells.

    Parameters
    ----------
    x, y
        Coordinates of the cells of either snapshot.
    a, b
        Their weights, of any sum; equal by default.
    tolerance
        The gap between the cost and its lower bound to reach, as a fraction of the bound, both without the shift of the
        mean, which every plan pays for.
    max_sweeps
        How often, at most, the plan is cut into blocks. Defaults to 4, and to 2 for more than 4 · 10⁹ pairs of cells.
    random_state
        Seed of clusters and cuts.
    """
    a, b = (uniform(x) if a is None else a), (uniform(y) if b is None else b)
    rng = np.random.default_rng(random_state)
    problem = Problem.of(x, y, a, b, rng)
    plan, guess, clusters = coarse_start(*problem[:4], rng)
    sweeps = max_sweeps or (4 if len(problem.x) * len(problem.y) <= VERY_MANY else 2)
    potentials, proven = guess, -np.inf
    for k in range(sweeps):
        whole = k == sweeps - 1 and len(plan.mass) <= WHOLE
        size = WHOLE if whole else SMALLEST_BLOCK * 2 ** min(k, 3)
        blocks = sweep(problem, plan, guess, size, tolerance / 4, rng)
        plan = Plan.union([block.solved.plan for block in blocks], len(problem.y))
        guess = aligned(problem, blocks, clusters)
        if len(blocks) > 1 and k == 0 < sweeps - 1:
            continue  # the first sweep proves little, and the bound takes as long
        cost = plan.cost(problem.x, problem.y)
        found = feasible(problem, guess[1], cost)
        if (value := lower_bound(problem, found)) > proven:
            potentials, proven = found, value
        if cost - proven <= tolerance * proven:
            break
    return problem.coupling(x, y, plan, *potentials)


def optimal(x: Array, y: Array, a: Array | None = None, b: Array | None = None) -> Coupling:
    """The optimal coupling: after a sweep in blocks, column generation for all cells at once, until nothing is left."""
    a, b = (uniform(x) if a is None else a), (uniform(y) if b is None else b)
    rng = np.random.default_rng(0)
    problem = Problem.of(x, y, a, b, rng)
    plan, guess, clusters = coarse_start(*problem[:4], rng)
    for size, tolerance in ((SMALLEST_BLOCK, ROUGH), (None, OPTIMAL)):
        blocks = sweep(problem, plan, guess, size or len(plan.mass), tolerance, rng)
        plan, guess = (
            Plan.union([block.solved.plan for block in blocks], len(problem.y)),
            aligned(problem, blocks, clusters),
        )
    return problem.coupling(x, y, plan, *guess)


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
    midpoints = problem.x[plan.source] + problem.y[plan.target]

    def work(pairs: Index) -> Block:
        part = plan.part(pairs)
        sources, row = np.unique(part.source, return_inverse=True)
        targets, column = np.unique(part.target, return_inverse=True)
        a, b = (np.bincount(cell, part.mass).astype(np.float64) for cell in (row, column))
        guess = potentials[0][sources], potentials[1][targets]
        x, y = problem.x[sources], problem.y[targets]
        solved = generate_columns(x, y, Plan(row, column, part.mass), guess, tolerance=tolerance)
        found = Plan(sources[solved.plan.source], targets[solved.plan.target], solved.plan.mass)
        return Block(sources, targets, a, b, solved._replace(plan=found))

    with one_thread():
        return side_by_side(work, cut_up(midpoints, np.arange(len(plan.mass)), size, rng))


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
    h = price_side_by_side(problem.x[some], problem.y[order], g[order], cuts).value
    scale = float(np.ptp(h)) or 1.0
    mass = np.add.reduceat(problem.b[order], cuts[:-1])
    log = ot.emd(
        weight,
        mass / mass.sum(),
        (h - h.min()) / scale,
        numItermax=10**9,
        log=True,
        check_marginals=False,
    )[1]
    g[order] += np.repeat(scale * log["v"], sizes)
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


def feasible(problem: Problem, g: Array, cost: float) -> tuple[Array, Array]:
    """Potentials f_i + g_j ≤ ‖x_i − y_j‖² of all cells, by two c-transforms over all pairs."""
    n, m = len(problem.x), len(problem.y)
    single = n * m > MANY and float(allowance(problem.x, problem.y, g).mean()) <= PRECISION * cost
    f = price_side_by_side(problem.x, problem.y, g, [0, m], single=single).least
    back = price_side_by_side(problem.y, problem.x, f, [0, n], single=single).least
    return f, np.maximum(back, g)


def lower_bound(problem: Problem, potentials: tuple[Array, Array]) -> float:
    """The least that any coupling costs, by weak duality, in centred coordinates."""
    f, g = potentials
    return float(problem.a @ f / problem.a.sum() + problem.b @ g / problem.b.sum())
