"""Where the condition holds, what the field is made of, and by which anchor cells are moved."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.schemes import BOTH, EXPLICIT, IMPLICIT, MIDPOINT, Reading, scheme_of, secant_of, stepping
from scjko.core.timeline import Timeline

TIMELINE = Timeline(np.array([0.0, 1.0, 4.0, 6.0]))


def test_anchors_by_name():
    assert [scheme_of(name, static=False) for name in ("both", "explicit", "implicit")] == [BOTH, EXPLICIT, IMPLICIT]
    assert [scheme_of(name, static=True) for name in ("both", "explicit", "implicit")] == [MIDPOINT, EXPLICIT, IMPLICIT]
    assert [s.anchors for s in (EXPLICIT, IMPLICIT, BOTH, MIDPOINT)] == [(0.0,), (1.0,), (0.0, 1.0), (0.5,)]


@pytest.mark.parametrize(
    ("scheme", "forward", "backward"), [(IMPLICIT, 1.0, 1.0), (BOTH, 0.0, 1.0), (MIDPOINT, 0.5, 0.5)]
)
def test_the_anchor_of_a_step(scheme, forward, backward):
    assert (scheme.anchor(0, 1), scheme.anchor(1, 0)) == (forward, backward)


def test_an_explicit_fit_knows_no_way_back():
    assert EXPLICIT.anchor(0, 1) == 0
    with pytest.raises(ValueError, match=r"back from 2 to 1 .*scheme='both' or 'implicit'"):
        EXPLICIT.anchor(2, 1)


def test_another_scheme_moves_cells_if_it_is_named():
    assert stepping(BOTH, None) is BOTH and stepping(MIDPOINT, "both") is MIDPOINT
    assert stepping(BOTH, "implicit").anchor(0, 1) == 1
    assert stepping(MIDPOINT, "explicit").anchor(0, 1) == 0
    assert stepping(MIDPOINT, "explicit").anchor(1, 0) == 0.5  # back as it was fitted
    with pytest.raises(ValueError, match="'both', 'explicit', 'implicit'"):
        stepping(BOTH, "leapfrog")


def test_readings_of_both_weigh_each_secant_by_the_length_of_the_other_interval():
    found = BOTH.readings(TIMELINE)
    assert found[0] == [Reading(0, 0.0, 1.0)] and found[-1] == [Reading(2, 1.0, 1.0)]
    assert found[1] == [Reading(0, 1.0, pytest.approx(3 / 4)), Reading(1, 0.0, pytest.approx(1 / 4))]
    assert found[2] == [Reading(1, 1.0, pytest.approx(2 / 5)), Reading(2, 0.0, pytest.approx(3 / 5))]


def test_with_one_anchor_the_field_is_the_secant_anchored_at_the_snapshot():
    assert [r for (r,) in EXPLICIT.readings(TIMELINE)] == [(0, 0, 1), (1, 0, 1), (2, 0, 1), (2, 0, 1)]
    assert [r for (r,) in IMPLICIT.readings(TIMELINE)] == [(0, 1, 1), (0, 1, 1), (1, 1, 1), (2, 1, 1)]


def field_of(scheme, timeline, snapshot, secant):
    """The field at a snapshot, from secants of each interval and anchor, as the readings add them up."""
    return sum(r.weight * secant(r.interval, r.anchor) for r in scheme.readings(timeline)[snapshot])


@pytest.mark.parametrize("uneven", [(1.0, 1.0, 1.0), (1.0, 2.5, 0.7)])
def test_the_field_of_both_is_of_second_order_at_inner_snapshots_and_others_of_first(uneven):
    """Along x(t) = sin t + t² / 2 through a point: halving the gaps cuts the error fourfold, or else in half."""

    def position(t):
        return np.sin(t) + t**2 / 2

    errors: dict[str, list[float]] = {"both": [], "explicit": [], "implicit": []}
    for scale in (0.2, 0.1, 0.05):
        times = 0.6 + scale * (np.append(0, np.cumsum(uneven)) - uneven[0])  # the second snapshot stands at 0.6
        timeline = Timeline(times)
        secants = np.diff(position(times)) / timeline.gaps
        for scheme in (BOTH, EXPLICIT, IMPLICIT):
            found = field_of(scheme, timeline, 1, lambda k, anchor, secants=secants: secants[k])
            errors[scheme.name].append(abs(found - (np.cos(0.6) + 0.6)))
    ratios = {name: np.array(e[:-1]) / e[1:] for name, e in errors.items()}
    np.testing.assert_allclose(ratios["both"], 4, rtol=0.15)
    np.testing.assert_allclose(ratios["explicit"], 2, rtol=0.2)
    np.testing.assert_allclose(ratios["implicit"], 2, rtol=0.2)


def test_between_snapshots_the_field_is_that_of_both_the_nearer_with_more_weight():
    interval, fraction = np.array([0, 1, 2, 2]), np.array([0.0, 0.25, 0.5, 1.0])
    read = BOTH.field(TIMELINE, interval, fraction)
    np.testing.assert_allclose(np.bincount(read.row, read.weight), 1)
    readings = BOTH.readings(TIMELINE)
    for row, (k, f) in enumerate(zip(interval, fraction, strict=True)):
        expected: dict[tuple[int, float], float] = {}
        for snapshot, share in ((k, 1 - f), (k + 1, f)):
            for r in readings[snapshot] if share else []:
                place = r.interval, r.anchor
                expected[place] = expected.get(place, 0) + share * r.weight
        here = read.row == row
        found = dict(zip(zip(read.interval[here], read.anchor[here], strict=True), read.weight[here], strict=True))
        assert found == pytest.approx(expected)


def test_the_field_of_no_points_is_empty():
    read = BOTH.field(TIMELINE, np.empty(0, np.int64), np.empty(0))
    assert all(len(column) == 0 for column in read)


def test_fits_of_version_0_1_read_the_secant_of_the_interval_itself():
    read = secant_of("both").field(TIMELINE, np.array([0, 2]), np.array([0.25, 1.0]))
    np.testing.assert_array_equal(read.interval, [0, 2])
    np.testing.assert_array_equal(read.anchor, [0.25, 1.0])
    np.testing.assert_array_equal(read.weight, 1)
    assert [share.tolist() for _, share in secant_of("both").sides(np.array([0.2, 0.8]))] == [[1, 0], [0, 1]]
