"""The time axis."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.timeline import Intervals

AXIS = Intervals(np.array([0.0, 1.0, 3.0, 7.0]))


def test_labels_are_midpoints_or_targets_whatever_the_unit():
    np.testing.assert_allclose(AXIS.labels, np.array([0.5, 2, 5]) / 3.5 - 1)
    np.testing.assert_allclose(Intervals(AXIS.times, "target").labels, np.array([1, 3, 7]) / 3.5 - 1)
    np.testing.assert_allclose(Intervals(24 * AXIS.times + 5).labels, AXIS.labels)


@pytest.mark.parametrize(
    ("t", "interval", "end"),
    [(0, 0, 0), (0.5, 0, 0.5), (1, 1, 0), (2, 1, 0.5), (3, 2, 0), (7, 2, 1), (9, 2, 1), (-1, 0, 0)],
)
def test_a_time_lies_in_the_interval_that_starts_at_or_contains_it(t, interval, end):
    assert AXIS.locate(t) == (interval, end)


def test_the_way_forward_is_cut_at_snapshots():
    assert AXIS.segments(0.0, 2.0) == [(0, 1, 0, 0), (1, 2, 1, 0)]
    assert AXIS.segments(2.0, 2.5) == [(2, 2.5, 1, 0.5)]
    assert AXIS.segments(1.0, 1.0) == []


def test_a_forecast_repeats_the_last_interval():
    assert AXIS.segments(3.0, 16.0) == [(3, 7, 2, 0), (7, 11, 2, 1), (11, 15, 2, 1), (15, 16, 2, 1)]


def test_the_way_back_uses_the_interval_behind():
    assert AXIS.segments(7.0, 2.0) == [(7, 3, 2, 1), (3, 2, 1, 1)]
    assert AXIS.segments(2.0, 1.5) == [(2, 1.5, 1, 0.5)]


def test_leaving_the_measured_range_is_an_error():
    for way in ((-1.0, 1.0), (1.0, -1.0), (8.0, 3.0)):
        with pytest.raises(ValueError, match="measured"):
            AXIS.segments(*way)
