"""What the data can tell apart: how far each term of an energy is determined by the snapshots.

Forces are all that is seen, and a flexible potential can imitate much of the force of another term. If it can imitate
all of it, any amount of that term can be exchanged for potential without changing a single prediction (the failure
modes of the paper's appendix). So each term's force is projected onto the forces of a rich set of potentials, and what
is left, as a share of its square, says how far the data determine it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve

from ..energy.density import fit_mixture, scores
from ..energy.features import linear_potential
from ..energy.models import LinearPotential, Weights
from ..fitting.closed_form import Normal, feature_scale
from ..fitting.fit import Fit, normal_equations
from ..fitting.problem import Problem
from ..timeline import conditioning

Array = NDArray[np.float64]

#: Below this share a term is called undetermined. Of the paper's Gaussian example, two snapshots leave 0.000 of the
#: internal energy's force, and three 0.10 to 0.16 (300 to 3000 cells in one and two dimensions).
UNDETERMINED = 0.02
MAX_ROWS = 5000
SMALL = 100


#: What would tell a term from the potential.
REMEDY = {
    "interaction": "snapshots between which the population's centre moves more",
    "internal": "three snapshots or more, between which the spread of cells changes",
}


class Identifiability(NamedTuple):
    """How far the terms beside the potential are determined."""

    shares: dict[str, float]
    """For each of them the share of its force that no potential has, from 0 to 1."""
    beta_error: float
    """The standard error of β in the user's units; zero without internal energy, infinite if there is one interval."""


def identifiability(fit: Fit) -> Identifiability:
    """How far the data determine the terms of a fitted energy.

    Of the interaction it is the least determined direction among quadratic kernels and a Gaussian one. One end of each
    interval is used: the other sees the same displacement once more.
    """
    problem, interval, end = fit.problem, fit.problem.interval, fit.problem.end
    if not problem.populations and not problem.mixtures:
        return Identifiability({}, 0.0)
    rows = np.flatnonzero(end == end.min())
    if len(rows) > MAX_ROWS:
        sizes = np.bincount(problem.snapshot[rows])
        small = rows[sizes[problem.snapshot[rows]] < SMALL]  # of which every cell is needed
        rows = np.union1d(rows[np.linspace(0, len(rows) - 1, MAX_ROWS).astype(int)], small)
    mixing = "constant" if fit.energy.mixing == "constant" else "interval"
    z, snapshot = problem.z[rows].astype(np.float64), problem.snapshot[rows]
    used = replace(
        _rows_of(problem, rows),
        labels=conditioning(fit.energy.intervals, interval[rows], end[rows], "explicit", mixing),
        score=_halves(z, problem.weight[rows], snapshot) if problem.mixtures else problem.score[rows],
    )
    potential = linear_potential(z, degree=None, n_centers=min(100, len(z) // 20), random_state=0)
    kernel = _kernel(used) if problem.populations else (None, {})
    parts = [
        normal_equations(_rows_of(used, np.flatnonzero(used.interval == k)), potential, kernel)
        for k in np.unique(used.interval)
    ]
    n_kernel = 0 if kernel[0] is None else problem.n_dims + 1
    gram = np.sum([part.gram for part in parts], axis=0)
    n_potential = len(gram) - n_kernel - used.score.shape[1]
    left, whole = _left_over(gram, n_potential)
    found = {}
    if n_kernel:
        felt = slice(0, n_kernel)
        found["interaction"] = float(eigh(left[felt, felt], whole[felt, felt], eigvals_only=True)[0])
    error = 0.0
    if problem.mixtures:
        found["internal"] = float(left[-1, -2])
        error = _beta_error(parts, n_potential) * fit.energy.speed * fit.energy.length
    return Identifiability({term: min(max(share, 0.0), 1.0) for term, share in found.items()}, error)


def _rows_of(problem: Problem, rows: NDArray[np.int64]) -> Problem:
    """The same problem with some of its rows."""
    names = ("z", "labels", "velocity", "weight", "interval", "end", "score")
    return replace(problem, **{name: getattr(problem, name)[rows] for name in names})


def _beta_error(parts: Sequence[Normal], n_potential: int) -> float:
    """The standard error of β in the units of the fit: a jackknife over intervals, infinite if it cannot be told.

    With one interval it cannot, nor if a potential imitates all of the score.

    Cells of one interval share the errors of its coupling, so that they are no independent observations; intervals are,
    almost.
    """
    if len(parts) == 1:
        return float("inf")
    estimates = []
    for out in range(len(parts)):
        kept = [part for k, part in enumerate(parts) if k != out]
        gram, moment = np.sum([p.gram for p in kept], axis=0), np.sum([p.moment for p in kept], axis=0)
        scale = np.append(feature_scale(np.diag(gram))[:-2], [1.0, 1.0])
        gram, moment = gram / np.outer(scale, scale), moment / scale
        steady = gram[:n_potential, :n_potential] + 1e-9 * np.eye(n_potential)
        mine = gram[:n_potential, -2:]
        imitated = solve(steady, np.column_stack([mine, moment[:n_potential]]), assume_a="pos")
        # One half's score as the instrument of the other's: their errors are independent.
        along = gram[-1, -2] - mine[:, 1] @ imitated[:, 0]
        if abs(along) <= 1e-12 * gram[-1, -1]:  # all of it, or there is no score: cells in one place
            return float("inf")
        estimates.append(-(moment[-1] - mine[:, 1] @ imitated[:, 2]) / along)
    spread = np.sum((np.array(estimates) - np.mean(estimates)) ** 2)
    return float(np.sqrt((len(parts) - 1) / len(parts) * spread))


def _halves(z: Array, weight: Array, snapshot: NDArray[np.int64]) -> Array:
    """∇ log ρ at each point (n, 2, d), twice: as estimated from either half of the cells.

    What the two have in common is in the data; where they differ is the noise of the estimate, which is no potential's
    force either and must not be taken for something that tells the terms apart.
    """
    half = np.random.default_rng(0).permutation(len(z)) % 2
    for k in np.unique(snapshot):
        here = np.flatnonzero((snapshot == k) & (weight > 0))
        if np.bincount(half[here], minlength=2).min() < 2:  # of few cells chance may leave one side without
            half[here] = np.arange(len(here)) % 2
    estimates = []
    for side in (0, 1):
        mixtures = {
            k: fit_mixture(z[here], weight[here], 10, 0)
            for k in np.unique(snapshot)
            for here in [np.flatnonzero((snapshot == k) & (half == side) & (weight > 0))]
        }
        estimates.append(scores(mixtures, z, snapshot))
    return np.stack(estimates, axis=1)


def _kernel(problem: Problem) -> tuple[LinearPotential, Weights]:
    """A quadratic kernel for each coordinate, and a Gaussian one as wide as the population."""
    squares = tuple(tuple(2 * (i == j) for j in range(problem.n_dims)) for i in range(problem.n_dims))
    width = 2 * np.mean([np.var(p.points, axis=0).sum() for p in problem.populations])
    return LinearPotential(squares), {
        "centers": np.zeros((1, problem.n_dims), np.float32),
        "width": np.float32(width or 1.0),
    }


def _left_over(gram: Array, n_potential: int) -> tuple[Array, Array]:
    """The Gram matrix of the other terms' forces, without what a potential can imitate and with it."""
    scale = feature_scale(np.diag(gram))
    gram = gram / np.outer(scale, scale)
    cross, others = gram[:n_potential, n_potential:], gram[n_potential:, n_potential:]
    steady = gram[:n_potential, :n_potential] + 1e-9 * np.eye(n_potential)
    left = others - cross.T @ solve(steady, cross, assume_a="pos")
    return (left + left.T) / 2, others + 1e-12 * np.eye(len(others))
