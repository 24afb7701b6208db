"""The time axis."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.timeline import MAX_FORECAST, Timeline, time_text

AXIS = Timeline(np.array([0.0, 1.0, 3.0, 7.0]))
#: Two gaps of a thousandth between long ones: where rounding of fractions would show.
UNEQUAL = Timeline(np.array([2.0, 2.001, 2.002, 26.0, 26.5]))


def test_gaps_and_the_snapshot_after_each():
    np.testing.assert_array_equal(AXIS.gaps, [1, 2, 4])
    assert AXIS.n_intervals == 3
    np.testing.assert_array_equal(AXIS.following, [1, 3, 7, 11])


def test_midpoints_and_targets_are_the_same_whatever_the_unit():
    np.testing.assert_allclose(AXIS.midpoints, np.array([0.5, 2, 5]) / 3.5 - 1)
    np.testing.assert_allclose(AXIS.targets, np.array([1, 3, 7]) / 3.5 - 1)
    other = Timeline(24 * AXIS.times + 5)
    np.testing.assert_allclose(other.midpoints, AXIS.midpoints)
    np.testing.assert_allclose(other.targets, AXIS.targets)


def test_ranks_are_evenly_spaced_however_unequal_the_gaps():
    """Midpoints of the first two intervals here differ by 1e-4 of the range, which no network distinguishes."""
    np.testing.assert_allclose(UNEQUAL.ranks, [-0.75, -0.25, 0.25, 0.75])
    np.testing.assert_allclose(Timeline(np.array([3.0, 4.0])).ranks, [0])
    assert np.diff(UNEQUAL.midpoints).min() < 1e-4


@pytest.mark.parametrize(
    ("t", "interval", "fraction"),
    [(0, 0, 0), (0.5, 0, 0.5), (1, 1, 0), (2, 1, 0.5), (3, 2, 0), (7, 2, 1), (9, 2, 1), (-1, 0, 0)],
)
def test_a_time_lies_in_the_interval_that_starts_at_or_contains_it(t, interval, fraction):
    assert AXIS.locate(t) == (interval, fraction)
    assert AXIS.containing(t) == interval


def test_many_times_are_located_at_once():
    interval, fraction = AXIS.locate([0.25, 3.0, 100.0])
    np.testing.assert_array_equal(interval, [0, 2, 2])
    np.testing.assert_array_equal(fraction, [0.25, 0, 1])


def test_the_path_forward_is_cut_at_snapshots():
    assert AXIS.segments(0.0, 2.0) == [(0, 0, 1), (1, 0, 0.5)]
    assert AXIS.segments(2.0, 2.5) == [(1, 0.5, 0.75)]
    assert AXIS.segments(0.0, 7.0) == [(0, 0, 1), (1, 0, 1), (2, 0, 1)]
    assert AXIS.segments(1.0, 1.0) == []


def test_the_path_back_uses_the_interval_behind():
    assert AXIS.segments(7.0, 2.0) == [(2, 1, 0), (1, 1, 0.5)]
    assert AXIS.segments(2.0, 1.5) == [(1, 0.5, 0.25)]
    assert AXIS.segments(3.0, 1.0) == [(1, 1, 0)]


def test_only_the_measured_part_of_a_path_has_segments():
    """What lies beyond the last snapshot is a forecast, which no interval has."""
    assert AXIS.segments(5.0, 16.0) == [(2, 0.5, 1)]
    assert AXIS.segments(8.0, 16.0) == []


@pytest.mark.parametrize("path", [(2.0005, 26.2), (26.2, 2.0005), (2.0, 26.5), (26.5, 2.0), (2.0011, 2.0019)])
def test_segments_of_unequal_intervals_join_and_add_up(path):
    """Each goes on where the last one stopped, inside its interval, from the first time to the last."""
    found = UNEQUAL.segments(*path)
    start, stop = (
        [UNEQUAL.times[s.interval] + getattr(s, name) * UNEQUAL.gaps[s.interval] for s in found]
        for name in ("start", "stop")
    )
    np.testing.assert_allclose(start[1:], stop[:-1], rtol=1e-12)
    np.testing.assert_allclose([start[0], stop[-1]], path, rtol=1e-12)
    marks = np.array([(s.start, s.stop) for s in found])
    assert marks.min() >= 0 and marks.max() <= 1
    assert (np.sign(marks[:, 1] - marks[:, 0]) == np.sign(path[1] - path[0])).all()
    # Whole intervals are whole to the last bit: steps over them are then those that were fitted.
    assert all({s.start, s.stop} == {0.0, 1.0} for s in found[1:-1])


def test_leaving_the_measured_range_is_an_error():
    for path in ((-1.0, 1.0), (1.0, -1.0), (8.0, 3.0)):
        with pytest.raises(ValueError, match="measured"):
            AXIS.check_path(*path)
    AXIS.check_path(7.0, 7.0 + 4 * MAX_FORECAST)
    with pytest.raises(ValueError, match="more than 100 times"):
        AXIS.check_path(7.0, 7.1 + 4 * MAX_FORECAST)
    AXIS.check_path(7.0, 0.0)


def test_times_are_written_as_users_read_them():
    assert [time_text(t) for t in (7.0, 0.5, 20200101.0)] == ["7", "0.5", "20200101"]
