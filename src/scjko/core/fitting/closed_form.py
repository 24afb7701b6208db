"""The closed form: the energy that is linear in its coefficients, by normal equations.

With ∇J(z) = Σ_i θ_i y_i(z), the loss Σ w ‖Σ_i θ_i y_i(z) + v̄‖² is smallest where (A + λ) θ = −b, with

    A = Σ w y yᵀ,    b = Σ w y v̄        (proposition 3.3 of the paper, whose statement drops the minus)

A and b are summed in float64 (:mod:`scjko.core.fitting.gram`). Coefficients that no row has in common, such as those of
different intervals, are problems of their own, and share but the ridge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components
from threadpoolctl import threadpool_limits

Array = NDArray[np.float64]

#: Numbers held at a time: 128 MB in float64.
BLOCK_ENTRIES = 16_000_000
#: Up to this size matrices are small: eigenvalues of 1500 take 0.6 s on one thread, and on two 5 s if others work too.
FEW_FEATURES = 2000
#: Strengths tried by ``ridge="auto"``, on features scaled to unit mean square.
RIDGES = 10.0 ** np.arange(-10, 1)


class Block(NamedTuple):
    """A part of A that has all entries of its coefficients."""

    columns: NDArray[np.int64]
    """Which coefficients."""
    gram: Array
    """A between them; between them and others it is zero."""


@dataclass(frozen=True)
class Normal:
    """The normal equations of a weighted least-squares problem, and what is needed to judge its solution."""

    blocks: tuple[Block, ...]
    """A."""
    moment: Array
    """b."""
    square: float
    """Σ w ‖v̄‖²."""
    n_rows: float
    """The number of rows that weigh in: (Σw)² / Σw², times the number of dimensions."""

    @property
    def gram(self) -> Array:
        """A as one matrix."""
        gram = np.zeros((len(self.moment), len(self.moment)))
        for columns, part in self.blocks:
            gram[np.ix_(columns, columns)] = part
        return gram

    @property
    def diagonal(self) -> Array:
        """The diagonal of A."""
        diagonal = np.zeros(len(self.moment))
        for columns, gram in self.blocks:
            diagonal[columns] = np.diag(gram)
        return diagonal

    def without_last(self) -> Normal:
        """The same problem without the last of its coefficients."""
        last = len(self.moment) - 1
        kept = ((columns, gram, np.flatnonzero(columns != last)) for columns, gram in self.blocks)
        blocks = tuple(Block(columns[keep], gram[np.ix_(keep, keep)]) for columns, gram, keep in kept)
        return replace(self, blocks=blocks, moment=self.moment[:last])


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
    """Slices of rows of ``row_entries`` numbers each that hold at most ``BLOCK_ENTRIES`` of them."""
    size = max(1, BLOCK_ENTRIES // max(1, row_entries))
    for start in range(0, n_rows, size):
        yield slice(start, min(start + size, n_rows))


def accumulate(
    products: Callable[[NDArray[np.int64]], Array],
    weight: Array,
    basis: Array,
    *,
    n_features: int,
    n_shared: int,
    n_dims: int,
) -> Normal:
    """The normal equations of features whose coefficients are mixed in time, and of others that are shared.

    ``products(chosen)`` gives Σ w f · f' over the rows with these numbers, f being the y of ``n_features``, those of
    ``n_shared`` others, and last v̄. The first stand once for each column of ``basis`` (n_rows, n_mixed): in row n the
    coefficient of feature i is Σ_m basis[n, m] θ[m, i]. Rows of the same basis are summed first and mixed afterwards,
    which costs no more than a constant potential.
    """
    mixtures, group = np.unique(basis, axis=0, return_inverse=True)
    size, square = basis.shape[1] * n_features + n_shared, 0.0
    moment, found = np.zeros(size), []
    for mixed in _together(mixtures, n_shared):
        own = (mixed[:, None] * n_features + np.arange(n_features)).ravel()
        columns = np.append(own, np.arange(size - n_shared, size))
        # Every coefficient takes the sums of its feature, as often as it is mixed in; the others are there once.
        feature = np.append(np.tile(np.arange(n_features), len(mixed)), n_features + np.arange(n_shared + 1))
        block = np.zeros((len(feature), len(feature)))
        for g in np.flatnonzero(mixtures[:, mixed].any(axis=1)):
            share = np.append(np.repeat(mixtures[g, mixed], n_features), np.ones(n_shared + 1))
            with threads_for(n_features + n_shared):
                sums = products(np.flatnonzero(group.ravel() == g))
            if not np.isfinite(sums).all():
                raise FloatingPointError(
                    "The features of the linear energy overflow; scale the representation, lower degree, or whiten."
                )
            block += np.outer(share, share) * sums[np.ix_(feature, feature)]
        found.append(Block(columns, block[:-1, :-1] / weight.sum()))
        moment[columns] = block[:-1, -1] / weight.sum()
        square += block[-1, -1] / weight.sum()
    return Normal(tuple(found), moment, square, n_dims * weight.sum() ** 2 / float(weight @ weight))


def _together(mixtures: Array, n_shared: int) -> list[NDArray[np.int64]]:
    """Which columns of the basis depend on each other: those that a row mixes, and all if coefficients are shared."""
    if n_shared:
        return [np.arange(mixtures.shape[1])]
    there = (mixtures != 0).astype(int)
    n_parts, part = connected_components(there.T @ there, directed=False)
    return [np.flatnonzero(part == k) for k in range(n_parts)]


def feature_scale(diagonal: Array) -> Array:
    """The root mean square of each feature's force, from the diagonal of A.

    That of features which no cell feels, centres far from all of them, is kept from zero: scaled by it they are not
    blown up, and the ridge leaves them out.
    """
    scale = np.sqrt(diagonal)
    return np.maximum(scale, 1e-6 * scale.max() or 1.0)


def solve(normal: Normal, ridge: float | str) -> Solution:
    """θ = −(A + λ)⁻¹ b by Cholesky factorisation, on features scaled to unit mean square.

    ``ridge="auto"`` chooses λ by generalised cross-validation, the leave-one-out error in closed form (Golub, Heath and
    Wahba 1979).
    """
    scale = feature_scale(normal.diagonal)
    moment = normal.moment / scale
    blocks = [Block(c, gram / np.outer(scale[c], scale[c])) for c, gram in normal.blocks]
    with threads_for(max(len(columns) for columns, _ in blocks)):
        spectra = [_spectrum(*block, moment) for block in blocks]
        values, along = (np.concatenate(parts) for parts in zip(*spectra, strict=True))
        strength = _best_ridge(normal, values, along) if ridge == "auto" else float(ridge)
        theta = np.empty(len(moment))
        for columns, gram in blocks:
            theta[columns] = -_cholesky_solve(gram, moment[columns], strength) / scale[columns]
    lowest, highest = values.min() + strength, values.max() + strength
    return Solution(
        theta,
        strength,
        float(highest / lowest) if lowest > 0 else float("inf"),
        float(np.sum(values / (values + strength))) if strength > 0 else float(np.sum(values > 0)),
    )


def _spectrum(columns: NDArray[np.int64], gram: Array, moment: Array) -> tuple[Array, Array]:
    """The eigenvalues of a block, none below zero, and b along its eigenvectors."""
    values, vectors = np.linalg.eigh(gram)
    return np.maximum(values, 0.0), vectors.T @ moment[columns]


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
