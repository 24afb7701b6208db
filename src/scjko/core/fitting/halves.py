"""Halves: the cells split in two and coupled separately, so that either judges what is fitted to the other.

Pairs that share a coupling are not independent: its errors are common to all of them, and a criterion that takes them
for independent chooses no regularisation at all. Two couplings of different cells have nothing in common but the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..compute.parallel import one_thread, side_by_side
from ..transport import Batched, Coupling, NothingLeft, Sinkhorn, Solver, exact, multiscale, within
from ..transport.budget import LARGEST_EXACT
from .problem import Course, Formulation, Problem

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Cells of a snapshot in a half, at most: as many as an exact coupling takes a second for.
MAX_CELLS = 1500
#: A snapshot of fewer cells is in both halves as a whole.
FEWEST = 4
#: Cells of a group that is dealt out evenly, at most. Single neighbours would make the halves more alike than samples
#: are: predictions that follow single cells then look better than they are.
LEAF = 24
#: Times that few cells are halved, at most. By chance the halves of a branched population differ in how many cells go
#: which way, and the ridge that one halving selects varies a hundredfold (600 haematopoietic cells a time); the error
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


def halves(
    course: Course,
    random_state: int,
    most: int = MAX_CELLS,
    *,
    matched: bool = False,
    solver: Solver | None = None,
) -> list[Course]:
    """The cells of every snapshot dealt out at random, each half coupled by itself: optimally, or by a blurring solver.

    A snapshot of few cells is in both halves as a whole. With ``matched`` halves every small group of neighbouring
    cells is dealt out evenly, so that both have as many cells in every branch of a population. If that differs by
    chance, errors of one half on the other vary more than those of settings do: on haematopoietic cells the best of ten
    settings had errors of 0.13 to 0.20 in four random halvings, and the worst 0.18 to 0.25.
    """
    rng, n_parts = np.random.default_rng(random_state), 2
    dealt = _matched if matched else _dealt
    chosen = [dealt(x, weight, most, rng) for x, weight in zip(course.points, course.weights, strict=True)]
    parts = [_part(course, [own[part] for own in chosen]) for part in range(n_parts)]
    n = course.timeline.n_intervals
    pairs = [
        (each.points[k], each.points[k + 1], each.sources[k], each.weights[k + 1]) for each in parts for k in range(n)
    ]
    caps = [coupling.cap for coupling in course.couplings] * n_parts
    with one_thread():  # of small products more threads wait for each other, five times as long as they work
        solved = side_by_side(lambda problem: _coupled(*problem, solver), list(zip(pairs, caps, strict=True)))
    return [replace(each, couplings=solved[part * n : (part + 1) * n]) for part, each in enumerate(parts)]


def _part(course: Course, cells: Sequence[Index]) -> Course:
    """Some cells of every snapshot, not coupled yet."""
    points = [x[own] for x, own in zip(course.points, cells, strict=True)]
    weights = [w[own] / w[own].sum() for w, own in zip(course.weights, cells, strict=True)]
    growth = None if course.growth is None else course.growth.part(cells)
    return Course(points, weights, (), course.timeline, growth)


def _coupled(pair: tuple[Array, Array, Array, Array], cap: float, solver: Solver | None) -> Coupling:
    """The coupling, optimal or nearly so, without pairs as far apart as the coupling of all cells leaves over."""
    x, y, *weights = pair
    if isinstance(solver, Batched):
        solver = replace(solver, size=min(solver.size, len(x), len(y)))
    if isinstance(solver, Batched | Sinkhorn):
        return solver.solve(x, y, *weights)
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


def _dealt(x: Array, weight: Array, most: int, rng: np.random.Generator) -> list[Index]:
    """The cells of a snapshot in each half, at least two of any weight."""
    order = rng.permutation(np.flatnonzero(weight > 0))
    if len(order) < FEWEST:
        return [np.sort(order)] * 2
    return [np.sort(order[half::2][:most]) for half in (0, 1)]


def _matched(x: Array, weight: Array, most: int, rng: np.random.Generator) -> list[Index]:
    """As :func:`_dealt`, with half of every small group of neighbours; cells are in random order within a half."""
    order = rng.permutation(np.flatnonzero(weight > 0))[: 2 * most]
    if len(order) < FEWEST:
        return [np.sort(order)] * 2
    near = np.concatenate([rng.permutation(leaf) for leaf in _leaves(x, order)])
    return [rng.permutation(near[half::2]) for half in (0, 1)]


def _leaves(x: Array, cells: Index) -> list[Index]:
    """Cells in small groups of neighbours, by halving them again and again where they spread most."""
    if len(cells) <= LEAF:
        return [cells]
    sorted_cells = cells[np.argsort(x[cells, np.argmax(x[cells].var(axis=0))], kind="stable")]
    middle = 2 * ((len(cells) + 2) // 4)  # even, so that no group has one cell more in a half
    return [*_leaves(x, sorted_cells[:middle]), *_leaves(x, sorted_cells[middle:])]
