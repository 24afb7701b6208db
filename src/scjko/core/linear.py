"""The closed form: the energy that is linear in its coefficients, by normal equations.

With ∇J(z) = Σ_i θ_i y_i(z), the loss Σ w ‖Σ_i θ_i y_i(z) + v̄‖² is smallest where (A + λ) θ = −b, with

    A = Σ w y yᵀ,    b = Σ w y v̄        (proposition 3.3 of the paper, whose statement drops the minus)

A and b are summed in float64 over blocks of rows, so that memory does not grow with the number of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from threadpoolctl import threadpool_limits

Array = NDArray[np.float64]

#: Entries of y held at a time: 128 MB in float64.
BLOCK_ENTRIES = 16_000_000
#: Matrices of up to this size are small.
FEW_FEATURES = 500
#: Strengths tried by ``ridge="auto"``, on features scaled to unit mean square.
RIDGES = 10.0 ** np.arange(-10, 1)


@dataclass(frozen=True)
class Normal:
    """The normal equations of a weighted least-squares problem, and what is needed to judge its solution."""

    gram: Array
    """A."""
    moment: Array
    """b."""
    square: float
    """Σ w ‖v̄‖²."""
    n_rows: float
    """The number of rows that weigh in: (Σw)² / Σw², times the number of dimensions."""

    def without(self, column: int) -> Normal:
        """The same problem without one of its coefficients."""
        keep = np.arange(len(self.moment)) != column
        return Normal(self.gram[np.ix_(keep, keep)], self.moment[keep], self.square, self.n_rows)


@dataclass(frozen=True)
class Solution:
    """Coefficients, and how well they are determined."""

    theta: Array
    ridge: float
    condition_number: float
    degrees_of_freedom: float
    """Effective number of coefficients: the trace of A (A + λ)⁻¹."""


def threads_for(size: int) -> threadpool_limits:
    """One thread for small matrices: more gain little there, and on a busy machine they wait for each other."""
    return threadpool_limits(1 if size <= FEW_FEATURES else None)


def blocks(n_rows: int, row_entries: int) -> Iterator[slice]:
    """Slices of rows that hold at most ``BLOCK_ENTRIES`` entries of y each."""
    size = max(1, BLOCK_ENTRIES // max(1, row_entries))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def accumulate(
    rows: Callable[[NDArray[np.int64]], Array],
    velocity: Array,
    weight: Array,
    basis: Array,
    n_features: int,
    n_shared: int,
) -> Normal:
    """The normal equations of features whose coefficients are mixed in time, and of others that are shared.

    ``rows(chosen)`` gives y of the rows with these numbers, (n, n_features + n_shared, d). The first ``n_features`` of
    them stand once for each column of ``basis`` (n_rows, n_mixed): the coefficient of feature i in row n is
    Σ_m basis[n, m] θ[m, i].
    Rows of the same basis are summed first and mixed afterwards, which costs no more than a constant potential.
    """
    n_mixed, n_dims = basis.shape[1], velocity.shape[1]
    size = n_mixed * n_features + n_shared
    gram, moment = np.zeros((size, size)), np.zeros(size)
    mixtures, group = np.unique(basis, axis=0, return_inverse=True)
    for mixture, members in ((mixtures[g], np.flatnonzero(group.ravel() == g)) for g in range(len(mixtures))):
        with threads_for(n_features + n_shared):
            part, part_moment = _sums(rows, velocity, weight, members, n_features + n_shared, n_dims)
        # Kronecker products spread the group's sums over the coefficients it mixes.
        spread = np.zeros((size, n_features + n_shared))
        spread[: n_mixed * n_features, :n_features] = np.kron(mixture[:, None], np.eye(n_features))
        spread[n_mixed * n_features :, n_features:] = np.eye(n_shared)
        gram += spread @ part @ spread.T
        moment += spread @ part_moment
    total = weight.sum()
    return Normal(
        gram / total,
        moment / total,
        float(weight @ np.sum(velocity**2, axis=1)) / total,
        n_dims * total**2 / float(weight @ weight),
    )


def _sums(
    rows: Callable[[NDArray[np.int64]], Array],
    velocity: Array,
    weight: Array,
    members: NDArray[np.int64],
    size: int,
    n_dims: int,
) -> tuple[Array, Array]:
    gram, moment = np.zeros((size, size)), np.zeros(size)
    for block in blocks(len(members), size * n_dims):
        chosen = members[block]
        y = np.asarray(rows(chosen), dtype=np.float64)
        if not np.isfinite(y).all():
            raise FloatingPointError(
                "The features of the linear energy overflow; scale the representation, lower degree, or whiten."
            )
        flat = np.moveaxis(y, 1, 2).reshape(-1, size)
        weighted = flat * np.repeat(weight[chosen], n_dims)[:, None]
        gram += weighted.T @ flat
        moment += weighted.T @ velocity[chosen].ravel()
    return gram, moment


def feature_scale(gram: Array) -> Array:
    """The root mean square of each feature's force.

    That of features which no cell feels, centres far from all of them, is kept from zero: scaled by it they are not
    blown up, and the ridge leaves them out.
    """
    scale = np.sqrt(np.diag(gram))
    return np.maximum(scale, 1e-6 * scale.max() or 1.0)


def solve(normal: Normal, ridge: float | str) -> Solution:
    """θ = −(A + λ)⁻¹ b by Cholesky factorisation, on features scaled to unit mean square.

    ``ridge="auto"`` chooses λ by generalised cross-validation, the leave-one-out error in closed form (Golub, Heath and
    Wahba 1979).
    """
    scale = feature_scale(normal.gram)
    gram, moment = normal.gram / np.outer(scale, scale), normal.moment / scale
    with threads_for(len(gram)):
        values, vectors = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)
    strength = _best_ridge(normal, values, vectors.T @ moment) if ridge == "auto" else float(ridge)
    theta = -_cholesky_solve(gram, moment, strength) / scale
    return Solution(
        theta,
        strength,
        float((values[-1] + strength) / (values[0] + strength)) if values[0] + strength > 0 else float("inf"),
        float(np.sum(values / (values + strength))) if strength > 0 else float(np.sum(values > 0)),
    )


def _best_ridge(normal: Normal, values: Array, along: Array) -> float:
    errors = []
    for ridge in RIDGES:
        shrunk = along / (values + ridge)
        left = normal.square - 2 * along @ shrunk + shrunk @ (values * shrunk)
        freedom = np.sum(values / (values + ridge))
        errors.append(max(left, 0.0) / max(1 - freedom / normal.n_rows, 1e-3) ** 2)
    return float(RIDGES[int(np.argmin(errors))])


def _cholesky_solve(gram: Array, moment: Array, ridge: float) -> Array:
    try:
        return np.asarray(cho_solve(cho_factor(gram + ridge * np.eye(len(gram))), moment))
    except LinAlgError:
        raise LinAlgError(
            f"The normal equations are singular with ridge={ridge:g}: some features are not told apart by the data; "
            "use ridge='auto' or a larger one."
        ) from None
