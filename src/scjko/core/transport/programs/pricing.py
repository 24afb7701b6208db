"""Pricing all pairs of cells: which target each source would rather have, at the potentials of the targets.

The price of a pair is ‖x_i − y_j‖² − g_j. Its minimum over all targets, the c-transform of g, is the largest potential
of the source that is feasible with g; where the minimum lies is a pair worth adding to a sparse linear program. All n·m
prices are computed, but never kept: they are products of matrices in tiles that stay in the cache of a core.

In partial transport no pair costs more than a cap. The smallest price is then that of distances, or the cap less the
largest potential, whichever is smaller: min_j (min(c_ij, κ) − g_j) = min(min_j (c_ij − g_j), κ − max_j g_j).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...compute.parallel import one_thread, side_by_side
from .plan import squared

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Rows and columns of a tile: the fastest of 128 to 4096 by 256 to 4096, in 2 to 50 dimensions and either precision.
ROWS, COLUMNS = 1024, 512
#: Rows that one thread takes at a time.
SHARE = 2048


class Prices(NamedTuple):
    """For each source and each part of the targets the smallest price, and the target that has it by its distance."""

    value: Array
    target: Index

    @property
    def least(self) -> Array:
        """The smallest price of each source over all targets."""
        return self.value.min(axis=1)


def even_cuts(n_targets: int, n_parts: int) -> Index:
    """Where to cut the targets into parts of equal size."""
    return np.linspace(0, n_targets, min(n_parts, n_targets) + 1).astype(np.int64)


def price(
    x: Array, y: Array, g: Array, cuts: Sequence[int] | Index, *, single: bool = False, cap: float = np.inf
) -> Prices:
    """The smallest price of every source in each part of the targets, ``y[cuts[k]:cuts[k + 1]]``.

    Values are lower bounds, by the error that products of such numbers can have at most. In ``single`` precision the
    search takes half the time, and that error is larger. A pair costs ``cap`` at most. Targets are those of smallest
    price by their distance, also where the cap makes the value smaller.
    """
    dtype = np.float32 if single else np.float64
    left = np.column_stack([-2 * x, np.ones(len(x))]).astype(dtype)
    right = np.column_stack([y, np.sum(y**2, axis=1) - g]).astype(dtype)
    columns = np.ascontiguousarray(right.T)
    target = np.empty((len(x), len(cuts) - 1), np.int64)
    for start in range(0, len(x), ROWS):
        rows = slice(start, start + ROWS)
        for part in range(len(cuts) - 1):
            target[rows, part] = _cheapest(left[rows], columns, int(cuts[part]), int(cuts[part + 1]))
    value = np.stack([squared(x, y, np.arange(len(x)), column) - g[column] for column in target.T], axis=1)
    value -= allowance(x, y, g, dtype)[:, None]
    return Prices(np.minimum(value, cap - np.maximum.reduceat(g, np.asarray(cuts[:-1]))), target)


def _cheapest(left: NDArray[Any], columns: NDArray[Any], first: int, last: int) -> Index:
    """The target between ``first`` and ``last`` of smallest price for each row."""
    best, where = None, np.zeros(len(left), np.int64)
    everyone = np.arange(len(left))
    for start in range(first, last, COLUMNS):
        prices = left @ columns[:, start : min(start + COLUMNS, last)]
        nearest = prices.argmin(axis=1)
        least = prices[everyone, nearest]
        if best is None:
            best, where = least, nearest + start
        else:
            lower = least < best
            best, where = np.where(lower, least, best), np.where(lower, nearest + start, where)
    return where


def allowance(x: Array, y: Array, g: Array, dtype: type[np.floating[Any]] = np.float32) -> Array:
    """How far, at most, the price of the target found is above the smallest one, by source.

    A product of d + 1 terms in floats of relative error ε is off by less than (d + 2) ε ‖·‖ ‖·‖, and two of them are
    compared. Rounding the factors doubles that.
    """
    error = 4 * (x.shape[1] + 2) * float(np.finfo(dtype).eps) / 2
    sources = np.sqrt(4 * np.sum(x**2, axis=1) + 1)
    targets = np.sqrt(np.sum(y**2, axis=1) + (np.sum(y**2, axis=1) - g) ** 2).max()
    return error * sources * targets


def single_suffices(x: Array, y: Array, g: Array, error: float) -> bool:
    """Whether prices in single precision are off by less than ``error`` on average."""
    return float(allowance(x, y, g).mean()) <= error


def price_side_by_side(
    x: Array, y: Array, g: Array, cuts: Sequence[int] | Index, *, single: bool = False, cap: float = np.inf
) -> Prices:
    """The same as :func:`price`, with the sources shared among all cores."""
    with one_thread():
        parts = side_by_side(
            lambda start: price(x[start : start + SHARE], y, g, cuts, single=single, cap=cap), range(0, len(x), SHARE)
        )
    return Prices(*(np.concatenate(column) for column in zip(*parts, strict=True)))
