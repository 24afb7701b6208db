"""How far the snapshots determine each term of an energy.

Forces are all that is seen, and a flexible potential can imitate much of the force of another term. If it can imitate
all of it, any amount of that term can be exchanged for potential without changing a single prediction (the failure
modes of the paper's appendix). So each term's force is projected onto the forces of a rich set of potentials, and what
is left, as a share of its square, says how far the data determine it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, solve

from ..energy.features import linear_potential
from ..energy.models import LinearPotential, Weights
from ..fitting.closed_form import feature_scale
from ..fitting.fit import Fit
from ..fitting.linear import Features, normal_equations
from ..fitting.noise import halved_scores
from ..fitting.problem import Problem
from ..variation import Separate, Static

Array = NDArray[np.float64]

#: Below this share a term is called undetermined. Of the paper's Gaussian example, two snapshots leave 0.000 of the
#: internal energy's force, and three 0.10 to 0.16 (300 to 3000 cells in one and two dimensions).
UNDETERMINED = 0.02
MAX_ROWS = 5000
SMALL = 100


#: What would distinguish a term from the potential.
REMEDY = {
    "interaction": "snapshots between which the population's centre moves more",
    "internal": "three snapshots or more, between which the spread of cells changes",
}


def identifiability(fit: Fit) -> dict[str, float]:
    """For each term beside the potential the share of its force, from 0 to 1, that no potential has.

    Of the interaction it is the least determined direction among quadratic kernels and a Gaussian one. One end of each
    interval is used: the other sees the same displacement once more.
    """
    problem = fit.problem
    scored = problem.score.shape[1] > 0
    if not problem.populations and not scored:
        return {}
    rows = _chosen_rows(problem)
    used = problem.rows(rows)
    variation = Static() if fit.energy.potential_term.variation.static else Separate()
    used = replace(used, inputs=variation.inputs(fit.energy.timeline, used.interval, used.anchor, (0.0,)))
    if scored:
        used = replace(used, score=halved_scores(used, 10, 0))
    z = used.z.astype(np.float64)
    potential = linear_potential(z, degree=None, n_centers=min(100, len(z) // 20), random_state=0)
    features = Features(*potential, *(_kernel(used) if problem.populations else (None, None)))
    gram = normal_equations(used, features).gram
    left, whole = _left_over(gram, len(gram) - features.n_kernel - used.score.shape[1])
    found = {}
    if features.n_kernel:
        felt = slice(0, features.n_kernel)
        found["interaction"] = float(eigh(left[felt, felt], whole[felt, felt], eigvals_only=True)[0])
    if scored:
        found["internal"] = float(left[-1, -2])
    return {term: min(max(share, 0.0), 1.0) for term, share in found.items()}


def _chosen_rows(problem: Problem) -> NDArray[np.int64]:
    """Rows at the first anchor, of many some spread evenly and all of small populations."""
    rows = np.flatnonzero(problem.anchor == problem.anchor.min())
    if len(rows) <= MAX_ROWS:
        return rows
    _, place, sizes = np.unique(problem.place[rows], return_inverse=True, return_counts=True)
    small = rows[sizes[place] < SMALL]  # of which every cell is needed
    return np.union1d(rows[np.linspace(0, len(rows) - 1, MAX_ROWS).astype(int)], small)


def _kernel(problem: Problem) -> tuple[LinearPotential, Weights]:
    """A quadratic kernel for each coordinate, and a Gaussian one as wide as the population."""
    squares = tuple(tuple(2 * (i == j) for j in range(problem.n_dims)) for i in range(problem.n_dims))
    width = 2 * np.mean([np.var(p.points, axis=0).sum() for p in problem.populations.values()])
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
