"""What a model is told of each place, for every kind of variation in time."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.fitting.parametrizations import Linear, Neural
from scjko.core.timeline import Timeline
from scjko.core.variation import Labelled, Separate, Smooth, Static

TIMELINE = Timeline(np.array([0.0, 1.0, 4.0, 10.0]))
#: Places of a fit at both ends, and one inside an interval.
INTERVAL, ANCHOR = np.array([0, 1, 2, 2]), np.array([0.0, 1.0, 0.0, 0.25])
BOTH = (0.0, 1.0)


def told(variation, anchors=BOTH):
    found = variation.inputs(TIMELINE, INTERVAL, ANCHOR, anchors)
    assert found.dtype == np.float32
    assert variation.n_inputs(TIMELINE, anchors) == found.shape[1]
    return found


@pytest.mark.parametrize("anchors", [(0.0,), (1.0,), (0.5,), BOTH])
def test_a_static_potential_is_told_nothing(anchors):
    np.testing.assert_array_equal(told(Static(), anchors), np.ones((4, 1)))


def test_a_network_is_told_the_rank_of_the_interval_and_the_end():
    ranks = np.array([-2, 0, 2, 2]) / 3
    np.testing.assert_allclose(told(Labelled()), np.stack([ranks, [-1, 1, -1, -0.5]], axis=1), rtol=1e-6)
    for one_end in ((0.0,), (1.0,)):
        np.testing.assert_allclose(told(Labelled(), one_end), ranks[:, None], rtol=1e-6)


@pytest.mark.parametrize("label", ["targets", "midpoints"])
def test_a_network_may_be_told_times_instead(label):
    marks = {"targets": [1, 4, 10, 10], "midpoints": [0.5, 2.5, 7, 7]}[label]
    np.testing.assert_allclose(told(Labelled(label))[:, 0], np.array(marks) / 5 - 1, rtol=1e-6)


def test_separate_coefficients_are_indicators_of_interval_and_end():
    expected = np.zeros((4, 6))
    expected[0, 0] = expected[1, 3] = expected[2, 4] = 1
    expected[3, 4:] = 0.75, 0.25  # inside an interval both ends take part
    np.testing.assert_allclose(told(Separate()), expected)
    np.testing.assert_allclose(told(Separate(), (0.0,)), np.eye(3)[INTERVAL])


def test_smooth_coefficients_are_powers_of_the_midpoint_for_each_end():
    powers = (np.array([0.5, 2.5, 7, 7]) / 5 - 1)[:, None] ** np.arange(3)
    ends = np.stack([1 - ANCHOR, ANCHOR], axis=1)
    expected = [[p * e for p in row for e in end] for row, end in zip(powers, ends, strict=True)]
    np.testing.assert_allclose(told(Smooth()), expected, rtol=1e-6)
    np.testing.assert_allclose(told(Smooth(), (1.0,)), powers, rtol=1e-6)


def test_intervals_of_very_unequal_length_are_distinguished_by_what_a_network_reads():
    """Gaps of 0.1, 0.1 and 23.8: midpoints of the first two differ by 0.008 of a range of two, ranks by two thirds."""
    timeline = Timeline(np.array([0.0, 0.1, 0.2, 24.0]))
    read = Neural().variation(True).inputs(timeline, np.arange(3), np.zeros(3), BOTH)
    np.testing.assert_allclose(np.diff(read[:, 0]), 2 / 3, rtol=1e-6)


def test_options_of_a_fit_name_the_variations():
    assert isinstance(Neural().variation(False), Static) and isinstance(Linear().variation(False), Static)
    assert Neural().variation(True) == Labelled("ranks")
    assert Neural(time_label="target").variation(True) == Labelled("targets")
    assert Linear().variation(True) == Separate() and Linear().variation("smooth") == Smooth()


def test_units_of_velocity_are_shared_where_coefficients_are():
    assert Static().shared and Smooth().shared
    assert not Labelled().shared and not Separate().shared
    assert Labelled(shared=True).shared  # of fits of version 0.1
