"""Many rows through one compiled program: in blocks of few sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Rows are evaluated in blocks of one of these sizes: memory is bounded whatever the number of cells, and few programs
#: are compiled.
BLOCKS = (64, 512, 4096)


#: Compiled programs on blocks run one at a time. They use all cores themselves, and two that wait for the threads of
#: XLA at once were seen to wait for ever.
_RUNNING = RLock()
#: Numbers that a block may take, at most: a quarter of a gigabyte in single precision.
MOST = 1 << 26


def at_once(size: int) -> int:
    """How many rows, each of ``size`` numbers, are evaluated at a time at most."""
    return max(MOST // max(size, 1), BLOCKS[0])


def room(n_rows: int, sizes: Sequence[int]) -> int:
    """The first of ``sizes`` that has room for as many rows, or just as many if none has."""
    return next((size for size in sizes if size >= n_rows), n_rows)


def filled(array: NDArray[Any], n_rows: int) -> NDArray[Any]:
    """``array`` with rows of zeros behind, ``n_rows`` in all."""
    return np.pad(array, [(0, n_rows - len(array))] + [(0, 0)] * (array.ndim - 1))


def in_blocks(
    function: Callable[..., tuple[Any, ...]], *arrays: NDArray[Any], largest: int | None = None
) -> list[NDArray[np.float64]]:
    """``function`` over blocks of rows of the arrays, its results put together again as float64.

    Blocks are of the largest size that the rows fill, so that less than half of the work is on the rows of zeros that
    fill up the last; all are of one size, so that no row depends on where it stands. ``largest`` bounds that size,
    where rows are large.
    """
    n_rows = len(arrays[0])
    size = max((size for size in BLOCKS if size <= min(n_rows, largest or n_rows)), default=BLOCKS[0])
    found: list[NDArray[np.float64]] = []
    for start in range(0, max(n_rows, 1), size):
        block = [array[start : start + size] for array in arrays]
        rows = len(block[0])
        with _RUNNING:
            results = [np.asarray(result) for result in function(*(filled(values, size) for values in block))]
        # Written in place: parts to be concatenated would take the memory of all rows twice.
        found = found or [np.empty((n_rows, *result.shape[1:])) for result in results]
        for whole, result in zip(found, results, strict=True):
            whole[start : start + rows] = result[:rows]
    return found
