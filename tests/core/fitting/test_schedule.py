"""Which rows each update sees, and how far it goes."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.fitting.schedule import learning_rates, shuffled_batches


@pytest.mark.parametrize("n_updates", [10, 200, 4000])
def test_learning_rates_are_one_cycle_along_cosines(n_updates):
    """From a 25th of the peak up in the first 30 %, then down to a ten-thousandth of where it began."""
    peak, turn = 0.02, int(0.3 * n_updates)
    lowest = peak / 25

    def between(a, b, fraction):
        return a + (b - a) * (1 - np.cos(np.pi * fraction)) / 2

    up = between(lowest, peak, np.arange(turn) / turn)
    down = between(peak, lowest / 1e4, np.arange(n_updates - turn) / (n_updates - turn))
    found = learning_rates(peak, n_updates)
    assert found.dtype == np.float32 and len(found) == n_updates
    np.testing.assert_allclose(found, np.concatenate([up, down]), atol=1e-6 * peak)


def test_one_update_has_a_rate():
    assert np.isfinite(learning_rates(0.02, 1)).all() and len(learning_rates(0.02, 1)) == 1


def test_every_row_is_seen_once_in_an_epoch_and_in_another_order_in_the_next():
    batches = shuffled_batches(np.uint32(3), np.arange(2, dtype=np.uint32), 60, 20)
    assert batches.shape == (2, 3, 20)
    for epoch in batches:
        np.testing.assert_array_equal(np.sort(epoch.ravel()), np.arange(60))
    assert (batches[0] != batches[1]).any()
