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
3. Each block knows potentials of its cells, but for constants: how high one is above another. A constant is chosen for
   each group of targets of a block. Those that prove most are themselves the potentials of a small transport problem,
   from cells to groups (:func:`.blocks.aligned`). Two c-transforms over all pairs of cells make the result feasible,
   and by weak duality it bounds the optimum from below.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..coupling import Coupling, uniform
from .blocks import refined
from .coarse import coarse_start
from .plan import Plan, squared
from .pricing import price_side_by_side, single_suffices
from .problem import Problem

Array = NDArray[np.float64]

#: Pairs in a block of the first sweep, at most; each sweep has blocks twice as large as the one before. From the second
#: one on a plan of few enough pairs is one block, whose potentials need not be aligned: that takes some seconds.
SMALLEST_BLOCK, WHOLE = 2048, 40960
#: Part of the tolerance that a plan of one block is to reach. With a quarter it took one program more, and 1.5 times as
#: long (10⁴ × 10⁴ and 10⁴ × 7000 cells in 5 and 30 dimensions); either way it ends less than 0.2 % above the optimum.
OF_TOLERANCE = 0.8
#: Gaps of the blocks of a start, and of a plan that is optimal but for rounding.
ROUGH, OPTIMAL = 2e-3, 1e-10
#: Pairs of cells from which on they are priced in single precision, if that loses less than this part of the cost.
MANY, PRECISION = 4e8, 1e-3
#: Pairs of cells from which on there are two sweeps and one c-transform only: more take longer than they gain.
VERY_MANY = 4e9
#: Gap of the blocks of a first sweep. The next one cuts other blocks: with 0.0025 it ended no lower, and took longer;
#: with 0.1 both took an eighth less time and ended 0.3 % higher (5 · 10⁴ cells a side in 30 dimensions).
FIRST = 0.03


def multiscale(
    x: Array,
    y: Array,
    a: Array | None = None,
    b: Array | None = None,
    *,
    tolerance: float = 0.01,
    max_sweeps: int | None = None,
    random_state: int = 0,
    cap: float = np.inf,
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
    cap
        What a pair costs at most: see :mod:`.partial`. The tolerance is then that of the pairs that cost less.
    """
    a, b = (uniform(x) if a is None else a), (uniform(y) if b is None else b)
    rng = np.random.default_rng(random_state)
    problem = Problem.of(x, y, a, b, rng, cap)
    plan, guess, clusters = coarse_start(*problem[:4], rng, cap)
    very_many = len(problem.x) * len(problem.y) > VERY_MANY
    sweeps = max_sweeps or (2 if very_many else 4)
    potentials, proven = guess, -np.inf
    for k in range(sweeps):
        whole = k >= min(1, sweeps - 1) and len(plan.mass) <= WHOLE
        size = WHOLE if whole else SMALLEST_BLOCK * 2 ** min(k, 3)
        first = k == 0 < sweeps - 1 and len(plan.mass) > size
        if first:
            aim = max(FIRST, tolerance / 4)
        elif very_many and max_sweeps is None:
            aim = tolerance
        else:
            aim = OF_TOLERANCE * tolerance if whole and k < 2 else tolerance / 4
        plan, guess, one_block = refined(problem, plan, guess, clusters, size, aim, rng)
        if first:
            continue  # the first sweep proves little, and the bound takes as long
        cost = plan.cost(problem.x, problem.y, cap)
        found = guess if one_block else feasible(problem, guess[1], cost)
        if (value := lower_bound(problem, found)) > proven:
            potentials, proven = found, value
        if cost - proven <= tolerance * (proven - capped_cost(problem, plan)):
            break
    return problem.coupling(x, y, plan, *potentials)


def capped_cost(problem: Problem, plan: Plan) -> float:
    """The part of the cost that is that of pairs at the cap."""
    far = squared(problem.x, problem.y, plan.source, plan.target) >= problem.cap
    return problem.cap * float(plan.mass[far].sum() / plan.mass.sum()) if far.any() else 0.0


def optimal(x: Array, y: Array, a: Array | None = None, b: Array | None = None, *, cap: float = np.inf) -> Coupling:
    """The optimal coupling: after a sweep in blocks, column generation for all cells at once, until nothing is left."""
    a, b = (uniform(x) if a is None else a), (uniform(y) if b is None else b)
    rng = np.random.default_rng(0)
    problem = Problem.of(x, y, a, b, rng, cap)
    plan, guess, clusters = coarse_start(*problem[:4], rng, cap)
    for size, tolerance in ((SMALLEST_BLOCK, ROUGH), (None, OPTIMAL)):
        plan, guess, _ = refined(problem, plan, guess, clusters, size or len(plan.mass), tolerance, rng)
    return problem.coupling(x, y, plan, *guess)


def feasible(problem: Problem, g: Array, cost: float) -> tuple[Array, Array]:
    """Potentials f_i + g_j ≤ c_ij of all cells, by c-transforms over all pairs.

    One makes f feasible with g. A second, of f, raises g where that leaves room; of very many pairs it takes longer
    than a sweep, and is left out.
    """
    n, m = len(problem.x), len(problem.y)
    single = n * m > MANY and single_suffices(problem.x, problem.y, g, PRECISION * cost)
    f = price_side_by_side(problem.x, problem.y, g, [0, m], single=single, cap=problem.cap).least
    if n * m > VERY_MANY:
        return f, g
    back = price_side_by_side(problem.y, problem.x, f, [0, n], single=single, cap=problem.cap).least
    return f, np.maximum(back, g)


def lower_bound(problem: Problem, potentials: tuple[Array, Array]) -> float:
    """The least that any coupling costs, by weak duality, in centred coordinates."""
    f, g = potentials
    return float(problem.a @ f / problem.a.sum() + problem.b @ g / problem.b.sum())
