"""Optimal couplings by column generation: a linear program of few pairs, to which others are added as needed.

An optimal coupling of n and m cells has n + m − 1 pairs at most, so nearly all of the n·m variables of the linear
program are zero. The program of the pairs that a start suggests is solved by POT's network simplex, which gives a plan
and a potential for every cell. Pricing all pairs at these potentials shows which of them would lower the cost, and
bounds by how much: those are added and the program is solved again (Gilmore and Gomory 1961, Oper. Res. 9).

If no pair costs more than a cap, all pairs that are farther apart cost the same. Two dummy cells stand for them, one of
either snapshot, which every cell of the other may have for a partner at half the cap. What they take is put together in
pairs afterwards. Four programs then suffice, where with single pairs at the cap it took 10, 32 and 61 of them (300, 900
and 2000 cells, of which a tenth was left over).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .plan import Plan, squared
from .pricing import Prices, even_cuts, price, single_suffices
from .simplex import simplex_near

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Parts of the cells of the other snapshot; in each of them every cell may find a pair to add.
PARTS = 4
#: What rounding may take of the tolerance, where pairs are priced in single precision.
SHARE_OF_ROUNDING = 0.1


class Solved(NamedTuple):
    """A plan, and potentials f_i + g_j ≤ c_ij that bound how far from optimal it is."""

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
    cap: float = np.inf,
    max_rounds: int = 100,
    pricing: Callable[..., Prices] = price,
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
    cap
        What a pair costs at most.
    max_rounds
        How many programs to solve at most.
    pricing
        What prices all pairs: on one core, or on all of them.
    """
    n, m = len(x), len(y)
    unit = np.exp2(np.rint(np.log2(plan.mass.mean())))  # masses of order one; a power of two loses no digits
    a, b = np.bincount(plan.source, plan.mass, n) / unit, np.bincount(plan.target, plan.mass, m) / unit
    of_x, of_y = even_cuts(n, PARTS), even_cuts(m, PARTS)
    # What is only suggested need not be exact.
    forward, backward = pricing(x, y, guess[1], of_y, single=True), pricing(y, x, guess[0], of_x, single=True)
    pairs = np.unique(np.concatenate([plan.source * m + plan.target, *_named(forward.target, backward.target, m)]))
    v = guess[1]
    for _ in range(max_rounds):
        plan, (u, v) = _sparse_program(x, y, a, b, pairs, v, unit, cap)
        cost = plan.cost(x, y, cap) * float(a.sum())
        single = single_suffices(x, y, v, SHARE_OF_ROUNDING * tolerance * cost / float(a.sum()))
        forward = pricing(x, y, v, of_y, single=single, cap=cap)
        f, g = forward.least, v
        if (gap := _gap(cost, a @ f + b @ g)) <= tolerance:
            break
        backward = pricing(y, x, f, of_x, single=single, cap=cap)
        g = np.maximum(backward.least, v)  # equal to v but for rounding, or above it
        if (gap := _gap(cost, a @ f + b @ g)) <= tolerance:
            break
        rows, columns = _named(forward.target, backward.target, m)
        # Of the sources those that are cheaper than the program's own potentials allow; of the targets, whose own are
        # feasible by now, the cheapest.
        missing = np.setdiff1d(np.concatenate([rows[(forward.value < u[:, None]).ravel()], columns]), pairs)
        if not len(missing):
            break
        pairs = np.union1d(pairs, missing)
    return Solved(plan, f, g, gap)


def _gap(cost: float, bound: float) -> float:
    return max(cost - float(bound), 0.0) / cost if cost > 0 else 0.0


def _named(targets: Index, sources: Index, m: int) -> tuple[Index, Index]:
    """The pairs of each source with its targets, and of each target with its sources, as one number each."""
    return (np.arange(len(targets))[:, None] * m + targets).ravel(), (sources * m + np.arange(m)[:, None]).ravel()


def _sparse_program(
    x: Array, y: Array, a: Array, b: Array, pairs: Index, g: Array, quantum: float, cap: float
) -> tuple[Plan, tuple[Array, Array]]:
    """The optimal plan among these pairs and those at the cap, in whole quanta, and the potentials of the program.

    ``g`` is an estimate of those of the targets.
    """
    n, m = len(x), len(y)
    source, target = np.divmod(pairs, m)
    cost, masses = squared(x, y, source, target, cap), (a, b)
    if cap < np.inf:
        source = np.concatenate([source, np.arange(n), np.full(m + 1, n)])
        target = np.concatenate([target, np.full(n, m), np.arange(m + 1)])
        cost = np.concatenate([cost, np.full(n + m, cap / 2), [0.0]])
        masses = np.append(a, b.sum()), np.append(b, a.sum())
        g = np.append(g, g.max() - cap / 2)  # the least that lets every target have the other dummy for a partner
    matrix, u, v = simplex_near(*masses, cost, (source, target), g)
    mass = np.rint(matrix.data * quantum)  # POT makes the masses sum to the same by a factor, which is one but for
    used = (mass > 0) & (matrix.row < n) & (matrix.col < m)  # rounding: it leaves crumbs
    plan = Plan(matrix.row[used].astype(np.int64), matrix.col[used].astype(np.int64), mass[used])
    if cap < np.inf:
        plan = _completed(plan, a * quantum, b * quantum)
    return plan, (u[:n], v[:m])


def _completed(plan: Plan, a: Array, b: Array) -> Plan:
    """The plan with what it leaves over of either snapshot put together in pairs, one after the other."""
    one = np.cumsum(a - np.bincount(plan.source, plan.mass, len(a)))
    other = np.cumsum(b - np.bincount(plan.target, plan.mass, len(b)))
    ends = np.union1d(one, other)
    ends = ends[ends > 0]
    rest = Plan(np.searchsorted(one, ends), np.searchsorted(other, ends), np.diff(ends, prepend=0))
    return Plan.union([plan, rest], len(b))
