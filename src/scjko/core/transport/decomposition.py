"""Transport of large snapshots by domain decomposition: a plan is mended in small blocks until it is nearly optimal.

Two pairs (x, y) and (x', y') of a plan cost less with their partners swapped if ⟨x − x', y − y'⟩ < 0, which is to say
if their midpoints are nearer to each other than half the difference of their displacements. So pairs with midpoints
near each other make a block, and a block is solved exactly for the mass it holds. Marginals stay as they are, and the
cost never rises. The next sweep cuts other blocks, from which mass goes on. Benamou (1994, SIAM J. Numer. Anal. 32) and
Bonafini and Schmitzer (2021, Numer. Math. 149) cut up the space of one snapshot; here the plan itself is cut up, so
that either side, and any dimension, is served alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..compute.parallel import side_by_side

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Whole = NDArray[np.int64]

#: Pairs in a block. Of 64 to 500, 200 to 400 come nearest to the optimum of 10⁴ cells in the same time.
BLOCK = 256
#: Quanta in a cell of mean mass. Masses are whole numbers of quanta, so that their sums and differences are exact:
#: rounding leaves crumbs of mass, which spread over ever more pairs. The sum over a block has to fit into a float.
QUANTA = 2**41


class Plan(NamedTuple):
    """A coupling in the making: ``mass[i]`` quanta go from cell ``source[i]`` to cell ``target[i]``."""

    source: Index
    target: Index
    mass: Array

    def part(self, pairs: Index) -> Plan:
        """These pairs of the plan."""
        return Plan(self.source[pairs], self.target[pairs], self.mass[pairs])

    def cost(self, x: Array, y: Array) -> float:
        """The mean squared distance travelled."""
        return float(self.mass @ np.sum((y[self.target] - x[self.source]) ** 2, axis=1) / self.mass.sum())


def transport(
    x: Array, y: Array, a: Array, b: Array, *, sweeps: int, tolerance: float, random_state: int
) -> tuple[Index, Index, Array]:
    """The sources, targets and weights of a nearly optimal coupling for the squared Euclidean cost.

    The marginals are ``a`` and ``b``, made to sum to one, up to 10⁻¹² of a cell's weight or of the mean weight if that
    is larger. For as many cells of equal weight on either side, memory grows like their number, and so does time but
    for a logarithm. Otherwise blocks split mass over more pairs: with random weights, 2 × 10⁴ cells end with 2.3 pairs
    a cell and 2 × 10⁵ with 6, in 25 times the time.

    Parameters
    ----------
    x, y
        Coordinates of the cells of either snapshot.
    a, b
        Their weights, of any sum.
    sweeps
        How many times, at most, the plan is cut into blocks and these are solved.
    tolerance
        Stop after two sweeps that lower the cost, the shift of the mean set aside, by no more than this part of it.
    random_state
        Seed of the cuts.
    """
    rng = np.random.default_rng(random_state)
    a, b = a / a.sum(), b / b.sum()
    # Every plan pays for the shift of the mean: without it, the cost is what a sweep can lower.
    x, y = x - a @ x, y - b @ y
    plan = first_plan(x, y, *quanta(a, b))
    costs = [plan.cost(x, y)]
    for _ in range(sweeps):
        plan = sweep(x, y, plan, rng)
        costs.append(plan.cost(x, y))
        # Over two sweeps: cuts that happen to be like the last ones gain nothing.
        if len(costs) > 2 and costs[-3] - costs[-1] <= tolerance * costs[-3]:
            break
    held = np.bincount(plan.source, plan.mass, minlength=len(x))
    held[held == 0] = 1
    # From quanta back to weights, source by source: those of the sources are then exact.
    return plan.source, plan.target, plan.mass * (a / held)[plan.source]


def quanta(a: Array, b: Array) -> tuple[Whole, Whole]:
    """The weights of either snapshot in whole quanta, with the same sum."""
    # A multiple of both numbers of cells, so that equal weights are not rounded.
    total = len(a) * len(b) * (QUANTA // min(len(a), len(b)))
    return _apportioned(a, total), _apportioned(b, total)


def _apportioned(weight: Array, total: int) -> Whole:
    """Whole numbers like the weights that sum to ``total``: the largest weights take what rounding leaves over."""
    whole = np.rint(weight / weight.sum() * total).astype(np.int64)
    left = total - int(whole.sum())
    whole[np.argsort(-weight, kind="stable")[: abs(left)]] += np.sign(left)
    return whole


def first_plan(x: Array, y: Array, a: Whole, b: Whole) -> Plan:
    """The plan that is monotone along the direction in which cells vary most within the snapshots."""
    spread = sum(z.T @ z / len(z) for z in (x - x.mean(axis=0), y - y.mean(axis=0)))
    direction = np.linalg.eigh(spread)[1][:, -1]
    sources, targets = (np.argsort(z @ direction, kind="stable") for z in (x, y))
    left, entered = np.cumsum(a[sources]), np.cumsum(b[targets])
    ends = np.union1d(left, entered)
    ends = ends[ends > 0]  # cells without mass come first
    mass = np.diff(ends, prepend=0).astype(np.float64)
    return Plan(sources[np.searchsorted(left, ends)], targets[np.searchsorted(entered, ends)], mass)


def sweep(x: Array, y: Array, plan: Plan, rng: np.random.Generator) -> Plan:
    """The plan after its blocks are solved, side by side."""
    cut = blocks(x[plan.source] + y[plan.target], np.arange(len(plan.mass)), rng)
    solved = side_by_side(lambda block: solve(x, y, plan.part(block)), cut)
    source, target, mass = (np.concatenate(column) for column in zip(*solved, strict=True))
    # A pair may come out of more than one block.
    pair, position = np.unique(source * len(y) + target, return_inverse=True)
    return Plan(*np.divmod(pair, len(y)), np.bincount(position, mass).astype(np.float64))


def blocks(midpoint: Array, index: Index, rng: np.random.Generator) -> list[Index]:
    """The indices in blocks of at most ``BLOCK``, by cuts across random directions."""
    if len(index) <= BLOCK:
        return [index]
    # The difference of two random points is likely to lie along directions in which the points vary.
    one, other = midpoint[rng.integers(len(index), size=2)]
    n_blocks = -(-len(index) // BLOCK)
    cut = len(index) * (n_blocks // 2) // n_blocks
    order = np.argpartition(midpoint @ (one - other), cut)
    return [block for side in (order[:cut], order[cut:]) for block in blocks(midpoint[side], index[side], rng)]


def solve(x: Array, y: Array, block: Plan) -> Plan:
    """The optimal plan for the mass in a block."""
    sources, row = np.unique(block.source, return_inverse=True)
    targets, column = np.unique(block.target, return_inverse=True)
    cost = cdist(x[sources], y[targets], "sqeuclidean")
    # The solver's tolerances are absolute: hand it costs and masses of order one. A power of two loses no digits.
    cost /= cost.max() or 1.0
    unit = np.exp2(np.rint(np.log2(block.mass.mean())))
    plan, log = ot.emd(np.bincount(row, block.mass) / unit, np.bincount(column, block.mass) / unit, cost, log=True)
    if log["warning"] is not None:
        raise RuntimeError(
            f"A block of {len(sources)} and {len(targets)} cells was not solved ({log['warning']}); "
            "check the representation and the weights for extreme values."
        )
    plan = np.rint(plan * unit)
    row, column = np.nonzero(plan)
    return Plan(sources[row], targets[column], plan[row, column])
