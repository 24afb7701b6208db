"""Optimal couplings by column generation: a linear program of few pairs, to which others are added as needed.

An optimal coupling of n and m cells has n + m − 1 pairs at most, so nearly all of the n·m variables of the linear
program are zero. The program of the pairs that a start suggests is solved by POT's network simplex, which gives a plan
and a potential for every cell. Pricing all pairs at these potentials shows which of them would lower the cost, and
bounds by how much: those are added and the program is solved again (Gilmore and Gomory 1961, Oper. Res. 9).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .plan import Plan, squared
from .pricing import even_cuts, price
from .simplex import simplex

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Parts of the cells of the other snapshot; in each of them every cell may find a pair to add.
PARTS = 4


class Solved(NamedTuple):
    """A plan, and potentials f_i + g_j ≤ ‖x_i − y_j‖² that bound how far from optimal it is."""

    plan: Plan
    f: Array
    g: Array
    gap: float
    """The cost of the plan above the bound, as a fraction of the cost; zero if it costs nothing."""


def generate_columns(
    x: Array,
    y: Array,
    plan: Plan,
    guess: tuple[Array, Array],
    *,
    tolerance: float,
    max_rounds: int = 100,
) -> Solved:
    """The plan with the marginals of ``plan``, no more than ``tolerance`` of its cost above the optimum.

    Parameters
    ----------
    x, y
        Coordinates of the cells, in random order; each has some mass in the plan.
    plan
        A plan to begin with.
    guess
        An estimate of the potentials, which suggests the first pairs.
    tolerance
        The relative gap to reach.
    max_rounds
        How many programs to solve at most.
    """
    n, m = len(x), len(y)
    unit = np.exp2(np.rint(np.log2(plan.mass.mean())))  # masses of order one; a power of two loses no digits
    a, b = np.bincount(plan.source, plan.mass, n) / unit, np.bincount(plan.target, plan.mass, m) / unit
    forward, backward = price(x, y, guess[1], even_cuts(m, PARTS)), price(y, x, guess[0], even_cuts(n, PARTS))
    pairs = np.unique(np.concatenate([plan.source * m + plan.target, *_named(forward.target, backward.target, m)]))
    for _ in range(max_rounds):
        plan, (u, v) = _sparse_program(x, y, a, b, pairs, unit)
        cost = plan.cost(x, y) * float(a.sum())
        forward = price(x, y, v, even_cuts(m, PARTS))
        f = forward.least
        backward = price(y, x, f, even_cuts(n, PARTS))
        g = np.maximum(backward.least, v)  # equal to v but for rounding, or above it
        gap = max(cost - float(a @ f + b @ g), 0.0) / cost if cost > 0 else 0.0
        if gap <= tolerance:
            break
        rows, columns = _named(forward.target, backward.target, m)
        # Of the sources those that are cheaper than the program's own potentials allow; of the targets, whose own are
        # feasible by now, the cheapest.
        missing = np.setdiff1d(np.concatenate([rows[(forward.value < u[:, None]).ravel()], columns]), pairs)
        if not len(missing):
            break
        pairs = np.union1d(pairs, missing)
    return Solved(plan, f, g, gap)


def _named(targets: Index, sources: Index, m: int) -> tuple[Index, Index]:
    """The pairs of each source with its targets, and of each target with its sources, as one number each."""
    return (np.arange(len(targets))[:, None] * m + targets).ravel(), (sources * m + np.arange(m)[:, None]).ravel()


def _sparse_program(
    x: Array, y: Array, a: Array, b: Array, pairs: Index, quantum: float
) -> tuple[Plan, tuple[Array, Array]]:
    """The optimal plan among these pairs in whole quanta, and the potentials of the program."""
    source, target = np.divmod(pairs, len(y))
    matrix, u, v = simplex(a, b, squared(x, y, source, target), (source, target))
    mass = np.rint(matrix.data * quantum)  # POT makes the masses sum to the same by a factor, which is one but for
    used = mass > 0  # rounding: it leaves crumbs
    plan = Plan(matrix.row[used].astype(np.int64), matrix.col[used].astype(np.int64), mass[used])
    return plan, (u, v)
