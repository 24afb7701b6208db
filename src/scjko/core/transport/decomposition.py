"""Couplings of large snapshots by domain decomposition: a plan is refined patch by patch until it is nearly optimal.

A plan is a coupling in the making. Two of its pairs (x, y) and (x', y') cost less with their partners swapped if
⟨x − x', y − y'⟩ < 0, that is, if their midpoints are nearer to each other than half the difference of their
displacements. So pairs whose midpoints are near each other make a patch, and the mass of a patch is coupled optimally.
Marginals stay as they are, and the cost never rises. The next sweep cuts other patches, so that mass moves on. Benamou
(1994, SIAM J. Numer. Anal. 32) and Bonafini and Schmitzer (2021, Numer. Math. 149) cut up the space of one snapshot;
here the plan itself is cut up, which treats both snapshots, and any dimension, alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..compute.parallel import side_by_side
from .coupling import Coupling, uniform

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Whole = NDArray[np.int64]

#: Pairs in a patch, at most. Of 64 to 500, 200 to 400 come nearest to the optimum of 10⁴ cells in the same time.
PATCH = 256
#: Quanta in a cell of mean mass. Masses are whole numbers of quanta, so that their sums and differences are exact:
#: rounding leaves crumbs of mass, which spread over ever more pairs. The sum over a patch has to fit into a float.
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


def decomposed(
    x: Array,
    y: Array,
    a: Array | None = None,
    b: Array | None = None,
    *,
    sweeps: int = 8,
    tolerance: float = 4e-4,
    random_state: int = 0,
) -> Coupling:
    """A coupling near the optimum, for snapshots too large to couple as a whole.

    See :func:`decompose` for the options and for how time grows. There is no bound on the cost; that of 10⁴ cells was
    up to 4 % above the optimum. Snapshots of up to 256 cells together are coupled optimally.
    """
    a, b = (uniform(x) if a is None else a), (uniform(y) if b is None else b)
    source, target, weight = decompose(x, y, a, b, sweeps=sweeps, tolerance=tolerance, random_state=random_state)
    return Coupling.of(source, target, weight, x, y)


def decompose(
    x: Array, y: Array, a: Array, b: Array, *, sweeps: int, tolerance: float, random_state: int
) -> tuple[Index, Index, Array]:
    """The sources, targets and weights of a nearly optimal coupling for the squared Euclidean cost.

    The marginals are ``a`` and ``b``, made to sum to one, up to 10⁻¹² of a cell's weight or of the mean weight if that
    is larger. For as many cells of equal weight on either side, memory grows like their number, and so does time but
    for a logarithm. Otherwise patches split mass over more pairs: with random weights, 2 × 10⁴ cells end with 2.3 pairs
    a cell and 2 × 10⁵ with 6, in 25 times the time.

    Parameters
    ----------
    x, y
        Coordinates of the cells of either snapshot.
    a, b
        Their weights, of any sum.
    sweeps
        How many times, at most, the plan is cut into patches and these are refined.
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
    """The plan after each of its patches is refined, side by side."""
    cut = patches(x[plan.source] + y[plan.target], np.arange(len(plan.mass)), rng)
    refined = side_by_side(lambda patch: optimal(x, y, plan.part(patch)), cut)
    source, target, mass = (np.concatenate(column) for column in zip(*refined, strict=True))
    # A pair may come out of more than one patch.
    pair, position = np.unique(source * len(y) + target, return_inverse=True)
    return Plan(*np.divmod(pair, len(y)), np.bincount(position, mass).astype(np.float64))


def patches(midpoint: Array, index: Index, rng: np.random.Generator) -> list[Index]:
    """The indices in patches of at most ``PATCH``, by cuts across random directions."""
    if len(index) <= PATCH:
        return [index]
    # The difference of two random points is likely to lie along directions in which the points vary.
    one, other = midpoint[rng.integers(len(index), size=2)]
    n_patches = -(-len(index) // PATCH)
    cut = len(index) * (n_patches // 2) // n_patches
    order = np.argpartition(midpoint @ (one - other), cut)
    return [patch for side in (order[:cut], order[cut:]) for patch in patches(midpoint[side], index[side], rng)]


def optimal(x: Array, y: Array, patch: Plan) -> Plan:
    """The optimal plan for the mass in a patch."""
    sources, row = np.unique(patch.source, return_inverse=True)
    targets, column = np.unique(patch.target, return_inverse=True)
    cost = cdist(x[sources], y[targets], "sqeuclidean")
    # The solver's tolerances are absolute: hand it costs and masses of order one. A power of two loses no digits.
    cost /= cost.max() or 1.0
    unit = np.exp2(np.rint(np.log2(patch.mass.mean())))
    matrix, log = ot.emd(np.bincount(row, patch.mass) / unit, np.bincount(column, patch.mass) / unit, cost, log=True)
    if log["warning"] is not None:
        raise RuntimeError(
            f"A patch of {len(sources)} and {len(targets)} cells was not solved ({log['warning']}); "
            "check the representation and the weights for extreme values."
        )
    matrix = np.rint(matrix * unit)
    row, column = np.nonzero(matrix)
    return Plan(sources[row], targets[column], matrix[row, column])
