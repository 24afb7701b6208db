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
from ..transport import Coupling, NothingLeft, exact, grown, multiscale, within
from ..transport.budget import LARGEST_EXACT
from .problem import Course, Formulation, Problem

Array = NDArray[np.float64]

#: Cells of a snapshot in a half, at most: as many as an exact coupling takes a second for.
MAX_CELLS = 1500
#: Times that few cells are halved, at most. By chance the halves of a branched population differ in how many cells go
#: which way, and the ridge that one halving asks for varies a hundredfold (600 haematopoietic cells a time); the error
#: of the worst of 40 fits was 1.45 times that of the best baseline with one halving, 1.38 with three, 1.29 with five.
MAX_HALVINGS = 5


def half_problem(half: Course, problem: Problem, formulation: Formulation) -> Problem:
    """The problem that a part of the cells poses, in the units of the whole and among its populations."""
    among = problem.populations, problem.mixtures, problem.even, problem.beta
    made = formulation.problem(formulation.conditions(half), *among)
    return replace(made, score=made.score[:, :0])


def followed(course: Course, parts: Sequence[Course]) -> bool:
    """Whether particles are followed: then a plan of all of them costs much less than one of different halves.

    A plan of all cells that is cheaper than the sampling noise of plans allows knows the particles.
    """
    share = np.mean(
        [[len(part) / len(x) for part, x in zip(half.points, course.points, strict=True)] for half in parts]
    )
    expected = excess(float(share), course.points[0].shape[1])
    half_cost = np.mean([sum(coupling.cost for coupling in half.couplings) for half in parts])
    return bool(sum(coupling.cost for coupling in course.couplings) < 0.7 * expected * half_cost)


def excess(share: float, n_dims: int) -> float:
    """The sampling noise of a plan of all cells over that of a plan of a ``share`` of them.

    The cost of a plan between samples of n cells exceeds that of the populations by a share that falls like n^(−2/d),
    or n⁻¹ in up to two dimensions.
    """
    return float(share ** (2 / max(n_dims, 2)))


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
    n = course.timeline.n_intervals
    pairs = []
    for part, (points, weights) in enumerate(problems):
        for k in range(n):
            gain = None if course.growth is None else course.growth.gains[k][chosen[k][part]]
            source = weights[k] if gain is None else grown(weights[k], gain)
            pairs.append((*points[k : k + 2], source, weights[k + 1]))
    caps = [coupling.cap for coupling in course.couplings] * n_parts
    solved = side_by_side(lambda problem: _coupled(*problem), list(zip(pairs, caps, strict=True)))
    return [
        Course(points, weights, solved[part * n : (part + 1) * n], course.timeline)
        for part, (points, weights) in enumerate(problems)
    ]


def _coupled(pair: tuple[Array, Array, Array, Array], cap: float) -> Coupling:
    """The coupling, optimal or nearly so, without pairs as far apart as the coupling of all cells leaves over."""
    x, y, *weights = pair
    solve = exact if len(x) * len(y) <= LARGEST_EXACT else multiscale
    try:
        return within(solve(x, y, *weights, cap=cap), x, y, cap)
    except NothingLeft:  # few cells, by chance all far apart
        return solve(x, y, *weights)


def halvings(course: Course, random_state: int) -> list[list[Course]]:
    """The cells halved again and again, but no more of them coupled in all than of a large snapshot once."""
    largest = max(int(np.count_nonzero(weight)) for weight in course.weights)
    n = min(max(2 * MAX_CELLS // largest, 1), MAX_HALVINGS)
    return [halves(course, seed) for seed in range(random_state, random_state + n)]


def _dealt(weight: Array, n_parts: int, most: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """The cells of a snapshot in each part, at least two of any weight."""
    order = rng.permutation(np.flatnonzero(weight > 0))
    if len(order) < 2 * n_parts:
        return [np.sort(order)] * n_parts
    return [np.sort(order[part::n_parts][:most]) for part in range(n_parts)]
