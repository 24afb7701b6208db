"""Halves: the cells split in two and coupled separately, so that either judges what is fitted to the other.

Pairs that share a coupling are not independent: its errors are common to all of them, and a criterion that takes them
for independent chooses no regularisation at all. Two couplings of different cells have nothing in common but the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..compute.parallel import side_by_side
from ..condition import conditions
from ..energy.terms import Units
from ..schemes import Scheme
from ..transport import exact
from ..variation import Variation
from .problem import Course, Problem, make_problem

Array = NDArray[np.float64]

#: Cells of a snapshot in a half, at most: as many as an exact coupling takes a second for.
MAX_CELLS = 1500


def half_problem(half: Course, problem: Problem, units: Units, scheme: Scheme, variation: Variation) -> Problem:
    """The problem that a part of the cells poses, in the units of the whole and among its populations."""
    rows = conditions(half.points, half.couplings, half.timeline, scheme)
    among = problem.populations, problem.mixtures, problem.even, problem.beta
    made = make_problem(rows, units, half.timeline, scheme, variation, *among)
    return replace(made, score=made.score[:, :0])


def followed(course: Course, parts: Sequence[Course]) -> bool:
    """Whether particles are followed: then a plan of all of them costs much less than one of different halves.

    The cost of a plan between samples of n cells exceeds that of the populations by a share that falls like n^(−2/d),
    or n⁻¹ in up to two dimensions. A plan of all cells that is cheaper than this allows knows the particles.
    """
    share = np.mean(
        [[len(part) / len(x) for part, x in zip(half.points, course.points, strict=True)] for half in parts]
    )
    expected = share ** (2 / max(course.points[0].shape[1], 2))
    half_cost = np.mean([sum(coupling.cost for coupling in half.couplings) for half in parts])
    return bool(sum(coupling.cost for coupling in course.couplings) < 0.7 * expected * half_cost)


def halves(course: Course, random_state: int, n_parts: int = 2, most: int = MAX_CELLS) -> list[Course]:
    """The cells of every snapshot dealt out at random, each part coupled by itself.

    A snapshot of few cells is in every part as a whole.
    """
    rng = np.random.default_rng(random_state)
    chosen = [_dealt(weight, n_parts, most, rng) for weight in course.weights]
    problems = []
    for part in range(n_parts):
        points = [x[rows[part]] for x, rows in zip(course.points, chosen, strict=True)]
        weights = [w[rows[part]] / w[rows[part]].sum() for w, rows in zip(course.weights, chosen, strict=True)]
        problems.append((points, weights))
    pairs = [(*points[k : k + 2], *weights[k : k + 2]) for points, weights in problems for k in range(len(points) - 1)]
    solved = side_by_side(lambda pair: exact(*pair), pairs)
    n = course.timeline.n_intervals
    return [
        Course(points, weights, solved[part * n : (part + 1) * n], course.timeline)
        for part, (points, weights) in enumerate(problems)
    ]


def _dealt(weight: Array, n_parts: int, most: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """The cells of a snapshot in each part, at least two of any weight."""
    order = rng.permutation(np.flatnonzero(weight > 0))
    if len(order) < 2 * n_parts:
        return [np.sort(order)] * n_parts
    return [np.sort(order[part::n_parts][:most]) for part in range(n_parts)]
