"""Many rows through one compiled program."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.compute.blocks import in_blocks


def sizes_of(n_rows, **options):
    """The sizes of the blocks that so many rows are evaluated in, once their values have come back in order."""
    seen = []

    def double(block):
        seen.append(len(block))
        return (2 * block,)

    x = np.arange(n_rows, dtype=np.float64)
    (found,) = in_blocks(double, x, **options)
    np.testing.assert_array_equal(found, 2 * x)
    return seen


@pytest.mark.parametrize(
    ("n_rows", "sizes"),
    [(0, [64]), (1, [64]), (65, [64, 64]), (511, [64] * 8), (512, [512]), (700, [512, 512]), (5000, [4096, 4096])],
)
def test_blocks_are_of_one_size_and_at_least_half_full(n_rows, sizes):
    assert sizes_of(n_rows) == sizes


def test_large_rows_go_in_small_blocks():
    assert sizes_of(5000, largest=512) == [512] * 10
    assert sizes_of(100, largest=8) == [64, 64], "no smaller than the smallest"
