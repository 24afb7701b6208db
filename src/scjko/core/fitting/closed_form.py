"""The closed form: the energy that is linear in its coefficients, by normal equations.

With ∇J(z) = Σ_i θ_i y_i(z), the loss Σ w ‖Σ_i θ_i y_i(z) + v̄‖² is smallest where (A + λ) θ = −b, with

    A = Σ w y yᵀ,    b = Σ w y v̄        (proposition 3.3 of the paper, whose statement drops the minus)

A and b are summed in float64 (:mod:`scjko.core.fitting.gram`). Coefficients that no row has in common, such as those of
different intervals, are problems of their own, and share but the ridge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse.csgraph import connected_components

from ..compute.parallel import one_thread, side_by_side

Array = NDArray[np.float64]

#: Numbers held at a time: 128 MB in float64.
BLOCK_ENTRIES = 16_000_000
#: Up to this size matrices are small: eigenvalues of 1500 take 0.6 s on one thread, and on two 5 s if others work too.
FEW_FEATURES = 2000
#: Strengths tried by ``ridge="auto"``, on features scaled to unit mean square.
RIDGES = 10.0 ** np.arange(-10, 1.5, 0.5)
#: Ridges of low-degree monomials that are tried, relative to that of the other features: what moves a population as a
#: whole need not be shrunk as much as what moves few of its cells.
RELATIVE = (1.0, 1e-4)
#: The smallest scale of a feature with a scale of its own, relative to the largest.
FLOOR = 1e-2
#: Kinds of features: with a scale of its own, and likewise of low degree. Others are families with one scale.
OWN, LOW = -1, -2


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
    kind: NDArray[np.int64]
    """What kind of feature each coefficient belongs to: :data:`OWN`, :data:`LOW`, or else the number of its family."""

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


@dataclass(frozen=True)
class Solution:
    """Coefficients, and how well they are determined."""

    theta: Array
    ridge: float
    condition_number: float
    degrees_of_freedom: float
    """Effective number of coefficients: the trace of A (A + λ)⁻¹."""


def threads_for(size: int) -> AbstractContextManager[Any]:
    """One thread for small matrices: more gain little there, and on a busy machine they wait for each other."""
    return one_thread() if size <= FEW_FEATURES else nullcontext()


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
    n_shared: int,
    n_dims: int,
    kinds: NDArray[np.int64],
) -> Normal:
    """The normal equations of features whose coefficients are mixed in time, and of others that are shared.

    ``products(chosen)`` gives Σ w f · f' over the rows with these numbers, f being the y of ``n_features``, those of
    ``n_shared`` others, and last v̄. The first stand once for each column of ``basis`` (n_rows, n_mixed): in row n the
    coefficient of feature i is Σ_m basis[n, m] θ[m, i]. Rows of the same basis are summed first and mixed afterwards,
    which costs no more than a constant potential. ``kinds`` are those of the first and then of the shared features;
    coefficients of a family in different columns of the basis are families of their own.
    """
    n_features = len(kinds) - n_shared
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
    first, shared = kinds[:n_features], kinds[n_features:]
    n_families = int(kinds.max(initial=-1)) + 1
    copies = [np.where(first < 0, first, first + n_families * m) for m in range(1, basis.shape[1] + 1)]
    n_rows = n_dims * weight.sum() ** 2 / float(weight @ weight)
    return Normal(tuple(found), moment, square, n_rows, np.concatenate([*copies, shared]))


def _together(mixtures: Array, n_shared: int) -> list[NDArray[np.int64]]:
    """Which columns of the basis depend on each other: those that a row mixes, and all if coefficients are shared."""
    if n_shared:
        return [np.arange(mixtures.shape[1])]
    there = (mixtures != 0).astype(int)
    n_parts, part = connected_components(there.T @ there, directed=False)
    return [np.flatnonzero(part == k) for k in range(n_parts)]


def feature_scale(diagonal: Array, kind: NDArray[np.int64] | None = None) -> Array:
    """The root mean square of each feature's force, from the diagonal of A; of a family, that of the largest in it.

    Scaled by its own size, a centre that is felt by a single cell would weigh as much as one that all feel, and be
    fitted to the noise of that cell. In a family, and above a floor of a hundredth of the largest, it is not, and the
    ridge leaves it out.
    """
    scale = np.sqrt(diagonal)
    if kind is not None:
        for family in np.unique(kind[kind >= 0]):
            scale[kind == family] = scale[kind == family].max()
    return np.maximum(scale, FLOOR * scale.max() or 1.0)


class Ridge(NamedTuple):
    """The strength of the regularisation, on features of unit mean square."""

    strength: float
    low: float = 1.0
    """That of low-degree monomials, relative to it."""

    def stretch(self, kind: NDArray[np.int64]) -> Array:
        """What to divide the features by so that one strength serves all."""
        return np.where(kind == LOW, np.sqrt(self.low), 1.0)


def solve(normal: Normal, ridge: Ridge) -> Solution:
    """θ = −(A + λ)⁻¹ b by Cholesky factorisation, on scaled features."""
    scaled = _Scaled.of(normal, feature_scale(normal.diagonal, normal.kind) * ridge.stretch(normal.kind))
    theta = np.empty(len(scaled.moment))

    def solved(block: Block) -> tuple[Array, Array]:
        columns, gram = block
        solution = _cholesky_solve(gram, scaled.moment[columns], ridge.strength)
        return np.maximum(np.linalg.eigvalsh(gram), 0.0), -solution / scaled.scale[columns]

    with threads_for(max(len(columns) for columns, _ in scaled.blocks)):
        found = side_by_side(solved, scaled.blocks)
    values = np.concatenate([eigenvalues for eigenvalues, _ in found])
    for (columns, _), (_, coefficients) in zip(scaled.blocks, found, strict=True):
        theta[columns] = coefficients
    lowest, highest = values.min() + ridge.strength, values.max() + ridge.strength
    freedom = float(np.sum(values / (values + ridge.strength)))
    return Solution(theta, ridge.strength, float(highest / lowest) if lowest > 0 else float("inf"), freedom)


class Choice(NamedTuple):
    """A ridge, and the squared velocity that it leaves unexplained, as a fraction."""

    ridge: Ridge
    left: float


def leave_one_out_ridge(normal: Normal) -> Choice:
    """The ridge of smallest leave-one-out error (generalised cross-validation; Golub, Heath and Wahba 1979).

    It takes rows for independent, as they are where particles are followed from one snapshot to the next, but not
    where a coupling of different cells makes errors that its pairs have in common.
    """
    scaled = _Scaled.of(normal, feature_scale(normal.diagonal, normal.kind))

    def spectrum(block: Block) -> tuple[Array, Array]:
        values, vectors = np.linalg.eigh(block.gram)
        return np.maximum(values, 0.0), vectors.T @ scaled.moment[block.columns]

    with threads_for(max(len(columns) for columns, _ in scaled.blocks)):
        values, along = (np.concatenate(part) for part in zip(*side_by_side(spectrum, scaled.blocks), strict=True))
    errors = []
    for ridge in RIDGES:
        shrunk = along / (values + ridge)
        left = scaled.square - 2 * along @ shrunk + shrunk @ (values * shrunk)
        freedom = np.sum(values / (values + ridge))
        errors.append(max(left, 0.0) / max(1 - freedom / normal.n_rows, 1e-3) ** 2)
    best = int(np.argmin(errors))
    return Choice(Ridge(float(RIDGES[best])), errors[best] / (normal.square or 1.0))


def held_out_ridge(*halvings: Sequence[Normal]) -> Choice:
    """The ridge whose coefficients, fitted to either half, have the smallest loss on the other, over all halvings."""
    halves = [half for pair in halvings for half in pair]
    kind = halves[0].kind
    scale = feature_scale(np.mean([half.diagonal for half in halves], axis=0), kind)
    best, least = Ridge(RIDGES[-1]), np.inf
    for low in RELATIVE if (kind == LOW).any() else (1.0,):
        stretched = scale * Ridge(1.0, low).stretch(kind)
        scaled = [[_Scaled.of(half, stretched) for half in pair] for pair in halvings]
        errors = np.sum([_errors(one, other) + _errors(other, one) for one, other in scaled], axis=0)
        k = len(RIDGES) - 1 - int(np.argmin(errors[::-1]))  # of equals the strongest
        if errors[k] < least:
            best, least = Ridge(float(RIDGES[k]), low), float(errors[k])
    return Choice(best, least / (sum(half.square for half in halves) or 1.0))


def _errors(one: _Scaled, other: _Scaled) -> Array:
    """The loss on one half of the coefficients that each ridge gives on the other."""

    def changed(pair: tuple[Block, Block]) -> Array:
        (columns, gram), (_, judged) = pair
        values, vectors = np.linalg.eigh(gram)
        along = vectors.T @ one.moment[columns]
        theta = -vectors @ (along[:, None] / (np.maximum(values, 0.0)[:, None] + RIDGES))
        return np.sum(theta * (judged @ theta), axis=0) + 2 * other.moment[columns] @ theta

    with threads_for(max(len(columns) for columns, _ in one.blocks)):
        return other.square + np.sum(side_by_side(changed, zip(one.blocks, other.blocks, strict=True)), axis=0)


@dataclass(frozen=True)
class _Scaled:
    """Normal equations of features divided by their scale."""

    blocks: tuple[Block, ...]
    moment: Array
    square: float
    scale: Array

    @classmethod
    def of(cls, normal: Normal, scale: Array) -> _Scaled:
        blocks = tuple(Block(c, gram / np.outer(scale[c], scale[c])) for c, gram in normal.blocks)
        return cls(blocks, normal.moment / scale, normal.square, scale)


def _cholesky_solve(gram: Array, moment: Array, ridge: float) -> Array:
    try:
        return np.asarray(cho_solve(cho_factor(gram + ridge * np.eye(len(gram))), moment))
    except LinAlgError:
        raise LinAlgError(
            f"The normal equations are singular with ridge={ridge:g}: the data do not distinguish some features; "
            "use ridge='auto' or a larger one."
        ) from None
