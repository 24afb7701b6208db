"""The strength β of the noise, estimated apart from the rest of the energy.

Along optimal couplings cells move by −∇V − β∇log ρ, and a potential that varies in time can imitate ∇log ρ altogether:
what determines β is that one potential serves all intervals. It is estimated at the middle of every pair, where the
displacement over an interval is the velocity to second order, whatever scheme the rest is fitted by.

The score ∇log ρ has to be estimated, and its errors would draw β towards zero. So it is estimated twice, from either
half of the cells. The errors of the two are independent, and one serves as the instrument of the other: with both
projected onto what no potential can imitate,

    β = −⟨s₁, v⟩ + ⟨s₂, v⟩ / 2⟨s₁, s₂⟩.

The error of β is that of the same estimator on random halves of the cells, coupled anew.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve

from ..compute.parallel import side_by_side
from ..condition import conditions
from ..energy.density import fit_mixture, scores
from ..energy.terms import Units
from ..schemes import EXPLICIT, MIDPOINT
from ..variation import Static
from .closed_form import feature_scale
from .halves import halves
from .linear import features_of, normal_equations
from .parametrizations import Linear
from .problem import Course, Formulation, Problem, common_speed

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Radial basis functions of the potential that the score is compared with, at most.
CENTERS = 100
#: Random halves of the cells that the error is estimated from, and cells of a snapshot in one of them, at most.
N_HALVES = 8
MAX_CELLS = 1000
#: Cells of a snapshot below which there is no error: a half of them is halved again for its score.
FEWEST = 8
#: Ridge of the projection, on features of unit mean square.
STEADY = 1e-6


class Noise(NamedTuple):
    """β, and how far the data determine it."""

    beta: float
    """In the user's units; not below zero, and zero if its error is not known."""
    error: float
    """Its standard error; infinite if it cannot be told."""
    inner: float
    """β in the units of the fit."""


def estimate_noise(course: Course, units: Units, interacting: bool, n_components: int, random_state: int) -> Noise:
    """β of coupled snapshots and its standard error."""
    estimate = _estimate(course, units, interacting, n_components, random_state)
    unit = common_speed(units) * units.length
    sizes = np.array([np.count_nonzero(w) for w in course.weights])

    def again(seed: int) -> list[float]:
        both = halves(course, seed, most=MAX_CELLS)
        return [_estimate(half, units, interacting, n_components, seed) for half in both]

    # An estimate of unknown error may be of any size: no noise does less harm to the rest of the energy.
    unknown = Noise(0.0, np.inf, 0.0)
    if course.timeline.n_intervals == 1 or not np.isfinite(estimate) or sizes.min() < FEWEST:
        return unknown
    drawn = np.array(side_by_side(again, range(random_state, random_state + N_HALVES // 2)))
    # Of n cells, samples of m without replacement scatter by (1 − m/n) / m, and all n by 1 / n.
    share = float(np.mean(np.minimum(sizes // 2, MAX_CELLS) / sizes))
    error = float(np.std(drawn.ravel(), ddof=1) * np.sqrt(share / max(1 - share, 1e-9)))
    inner = max(estimate, 0.0)
    return Noise(inner * unit, error * unit, inner) if np.isfinite(error) else unknown


def _estimate(course: Course, units: Units, interacting: bool, n_components: int, seed: int) -> float:
    """β in the units of the fit, of any sign; NaN if a potential imitates all of the score."""
    problem = _problem(course, units, interacting, seed)
    problem = replace(problem, score=halved_scores(problem, n_components, seed))
    # With a kernel, if cells interact: its force would be taken for noise.
    features = features_of(problem, Linear(n_centers=min(CENTERS, len(problem.z) // 20)), 0)
    normal = normal_equations(problem, features)
    gram, moment = normal.gram, normal.moment
    scale = np.append(feature_scale(normal.diagonal[:-2]), [1.0, 1.0])
    gram, moment = gram / np.outer(scale, scale), moment / scale
    n = len(moment) - 2
    imitated = solve(gram[:n, :n] + STEADY * np.eye(n), np.column_stack([gram[:n, n:], moment[:n]]), assume_a="pos")
    left = gram[n:, n:] - gram[n:, :n] @ imitated[:, :2]
    along = moment[n:] - gram[n:, :n] @ imitated[:, 2]
    common = (left[0, 1] + left[1, 0]) / 2
    if common <= 1e-12 * gram[n, n]:
        return float("nan")
    return float(-along.mean() / common)


def _problem(course: Course, units: Units, interacting: bool, seed: int) -> Problem:
    """The condition at the middle of every cell's line, seen from its source, with one potential for all times."""
    # From the source alone: with targets, pairs would stand twice, and both halves of a score have cells in common.
    start = conditions(course.points, course.couplings, course.timeline, EXPLICIT)
    middle = start.points + start.velocity * start.gap[:, None] / 2
    rows = start._replace(points=middle, anchor=np.full(len(middle), 0.5))
    shared = replace(units, speed=np.full(course.timeline.n_intervals, common_speed(units)))
    formulation = Formulation(course.timeline, MIDPOINT, Static(), shared)
    return formulation.problem(rows, formulation.populations(course, seed) if interacting else {})


def halved_scores(problem: Problem, n_components: int, seed: int) -> Array:
    """∇ log ρ at each point (n, 2, d), twice: as estimated from either half of the cells.

    What the two have in common is in the data; where they differ is the noise of the estimate, which is no potential's
    force either and must not be taken for something that distinguishes the terms.
    """
    z, weight, place = problem.z.astype(np.float64), problem.weight, problem.place
    half = np.random.default_rng(seed).permutation(len(z)) % 2
    for k in np.unique(place):
        here = np.flatnonzero((place == k) & (weight > 0))
        if np.bincount(half[here], minlength=2).min() < 2:  # of few cells chance may leave one side without
            half[here] = np.arange(len(here)) % 2
    estimates = []
    for side in (0, 1):
        mixtures = {
            float(k): fit_mixture(z[here], weight[here], n_components, seed)
            for k in np.unique(place)
            for here in [np.flatnonzero((place == k) & (half == side) & (weight > 0))]
        }
        estimates.append(scores(mixtures, z, place))
    return problem.pace[:, None, None] * np.stack(estimates, axis=1)
