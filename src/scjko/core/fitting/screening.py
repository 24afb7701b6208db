"""Which products of two coordinates a linear potential lacks, where it cannot have them all.

A product z_iᵃ z_jᵇ pushes along i and j only, so the score says whether a residual r calls for it,

    S_ij = Σ w (a z_iᵃ⁻¹ z_jᵇ r_i + b z_iᵃ z_jᵇ⁻¹ r_j),

half the slope of the loss in its coefficient where that is zero. If r is nothing but noise, independent from cell to
cell and of any size in each, the variance of S_ij is the same sum with each term squared. Multiplied out, both are
entries of matrix products over the cells: thousands of products cost no more than a few of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..energy.features import DEGREE
from .closed_form import blocks, threads_for
from .problem import Problem

Array = NDArray[np.float64]
Powers = tuple[int, ...]

#: Products that may be added to a potential, which bounds its normal equations. The cubic chain of the watershed, in
#: centred coordinates, has a hundred in fifty dimensions.
MAX_PRODUCTS = 200
#: How often a fit is screened: what is left once the strongest products are in may show others.
ROUNDS = 3
#: Powers (a, b) of the two coordinates, up to the degree of the other monomials; (b, a) is (a, b) of the pair (j, i).
KINDS = tuple((a, b) for a in range(1, DEGREE) for b in range(a, DEGREE) if a + b <= DEGREE)
#: A residual below this fraction of the squared velocity is rounding of float32, and no product explains it.
ROUNDING = 1e-12


def missing_products(problem: Problem, residual: Array, known: tuple[Powers, ...], most: int) -> tuple[Powers, ...]:
    """Up to ``most`` products beyond ``known`` that reduce the residual (n, d) of a fit, most significant first.

    They are those whose score is more standard deviations from zero than the largest of m normal numbers is expected to
    be, √(2 log m), m being the number of scores: noise alone is taken for a product in at most one fit of five. A
    potential that is mixed in time has a score for each of its coefficients, and the largest of them counts. With a
    product come those it contains, as z_i z_j with z_i² z_j: a potential that has the one has the other around another
    origin.
    """
    n_dims, n_mixed = problem.n_dims, problem.inputs.shape[1]
    left, moved = (float(problem.weight @ np.sum(values**2, axis=1)) for values in (residual, problem.velocity))
    if left <= ROUNDING * moved:
        return ()
    n_scores = n_mixed * sum(n_dims * (n_dims - 1) // (2 if a == b else 1) for a, b in KINDS)
    least = np.sqrt(2 * np.log(n_scores))
    found: list[tuple[float, list[Powers]]] = []
    for a, b in KINDS:
        with threads_for(n_dims):
            size = significance(problem, residual, a, b)
        pairs = np.argwhere((size > least) & ~np.eye(n_dims, dtype=bool)).tolist()
        found += [(float(size[i, j]), _contained(i, j, a, b, n_dims)) for i, j in pairs]
    old = set(known)
    ordered = [powers for _, group in sorted(found, key=lambda one: -one[0]) for powers in group]
    return tuple(dict.fromkeys(powers for powers in ordered if powers not in old))[:most]


def _contained(i: int, j: int, a: int, b: int, n_dims: int) -> list[Powers]:
    """z_iᵃ z_jᵇ and the products it contains."""
    return [tuple(p * (k == i) + q * (k == j) for k in range(n_dims)) for p in range(a, 0, -1) for q in range(b, 0, -1)]


def significance(problem: Problem, residual: Array, a: int, b: int) -> Array:
    """The score of z_iᵃ z_jᵇ for all pairs (d, d), in its standard deviations; the diagonal means nothing.

    Cells of one snapshot are independent. Those of different snapshots may not be, if particles are followed or if both
    ends of a displacement are fitted: so standard deviations are added, as if they all went together, and not squares.
    """
    _, first, group = np.unique(2 * problem.interval + problem.anchor, return_index=True, return_inverse=True)
    n_mixed = problem.inputs.shape[1]
    score, deviation = np.zeros((2, n_mixed, problem.n_dims, problem.n_dims))
    for g, mix in enumerate(problem.inputs[first].astype(np.float64)):
        moment, square = _sums(problem, residual, np.flatnonzero(group == g), a, b)
        score += mix[:, None, None] * moment
        deviation += np.abs(mix)[:, None, None] * np.sqrt(square)
    return np.max(np.abs(score) / np.where(deviation > 0, deviation, np.inf), axis=0)


def _sums(problem: Problem, residual: Array, members: NDArray[np.int64], a: int, b: int) -> tuple[Array, Array]:
    """S and its variance over some of the rows."""
    moment, square = np.zeros((2, problem.n_dims, problem.n_dims))
    for block in blocks(len(members), 8 * problem.n_dims):
        rows = members[block]
        z, r = problem.z[rows].astype(np.float64), problem.weight[rows, None] * residual[rows]
        one, other = z**a, z**b
        # The force along i is along_i times z_jᵇ, that along j is z_iᵃ times along_j.
        along_i, along_j = a * z ** (a - 1) * r, b * z ** (b - 1) * r
        moment += along_i.T @ other + one.T @ along_j
        square += (along_i**2).T @ other**2 + (one**2).T @ along_j**2 + 2 * (along_i * one).T @ (other * along_j)
    return moment, np.maximum(square, 0.0)
