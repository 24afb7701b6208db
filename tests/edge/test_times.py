"""Time columns as users write them."""

from __future__ import annotations

import logging

import numpy as np
import pandas as pd
import pytest

from scjko.core.timeline import time_text
from scjko.edge.times import read_label, read_time, read_times


@pytest.mark.parametrize(
    ("label", "number", "unit"),
    [
        ("6", 6, ""),
        ("-1.5", -1.5, ""),
        ("1e2", 100, ""),
        ("day 6", 6, "day"),
        ("Day6", 6, "day"),
        ("day_6", 6, "day"),
        ("day-6", 6, "day-"),
        ("Day_-6", -6, "day"),
        ("day -6", -6, "day"),
        ("6.5h", 6.5, "h"),
        ("6 hours", 6, "hour"),
        ("Day 00-03", 1.5, "day"),
        ("2-4", 3, ""),
        ("0 to 3 days", 1.5, "day"),
        ("E8.5", 8.5, "e"),
    ],
)
def test_labels_are_read_with_their_unit(label, number, unit):
    assert read_label(label) == (number, unit)


@pytest.mark.parametrize("label", ["stem", "", "12_batch2", "rep1_day2", "3/4", "12_15", "nan", "inf"])
def test_labels_without_one_clear_number_are_not_guessed(label):
    assert read_label(label) is None


@pytest.mark.parametrize(
    "values",
    [
        [0, 2, 2],
        np.array([0, 2, 2], dtype=np.int8),
        np.array([0, 2, 2], dtype=np.float16),
        ["0", "2", "2"],
        ["day 0", "day 2", "Day 2"],
        pd.Categorical([0, 2, 2], categories=[2, 1, 0]),
        pd.Categorical(["0", "2", "2"], categories=["2", "7", "0"]),
        pd.to_timedelta([0, 2, 2], unit="D"),
        pd.array([0, 2, 2], dtype="Int64"),
        pd.array(["0", "2", "2"], dtype="string"),
    ],
    ids=lambda values: str(getattr(values, "dtype", type(values[0]).__name__)),
)
def test_columns_of_every_kind_give_the_same_times(values):
    column = pd.Series(values, name="day")
    before = column.copy()
    np.testing.assert_array_equal(read_times(column), [0.0, 2.0, 2.0])
    pd.testing.assert_series_equal(column, before)


def test_what_was_read_from_labels_is_said(caplog):
    with caplog.at_level(logging.INFO, logger="scjko"):
        read_times(pd.Series(["Day 00-03", "Day 06-09"], name="day"))
    assert "'Day 00-03' as 1.5, 'Day 06-09' as 7.5" in caplog.text


def test_time_values_are_taken_at_their_word():
    column = pd.Series(["early", "late", "early"], name="stage")
    np.testing.assert_array_equal(read_times(column, {"early": 1, "late": 4.5}), [1, 4.5, 1])
    np.testing.assert_array_equal(read_times(pd.Series([1, 2], name="stage"), {"1": 10, 2: 20}), [10, 20])


@pytest.mark.parametrize(
    ("values", "time_values", "said"),
    [
        (["stem", "2"], None, "'stem'"),
        (["E8.5", "P0"], None, "mixes units ('e', 'p')"),
        (["D-1", "D0", "D1"], None, "mixes units ('d', 'd-')"),
        ([0.0, np.nan], None, "missing (NaN) for 1 of 2 cells"),
        (["0", None], None, "missing"),
        ([0.0, np.inf], None, "infinite"),
        ([True, False], None, "bool"),
        (pd.to_datetime(["2020-01-01", "2020-01-02"]), None, "datetime64"),
        (["a", "b"], {"a": 1}, "says nothing of 'b'"),
        (["a"], {"a": "one"}, "time_values['a']='one'"),
        (["a"], {"a": np.nan}, "time_values['a']=nan"),
    ],
)
def test_unreadable_times_are_named(values, time_values, said):
    with pytest.raises(ValueError) as error:
        read_times(pd.Series(values, name="day"), time_values)
    assert said in str(error.value)


def test_narrow_floats_are_the_numbers_they_were_written_as():
    np.testing.assert_array_equal(read_times(pd.Series([0.9, 0.1], dtype=np.float32, name="day")), [0.9, 0.1])


def test_a_single_time_is_a_number_or_a_label_of_the_column():
    column = pd.Series(["day 3", "day 4"], name="day")
    assert read_time("time", np.float32(2.5), column) == 2.5
    assert read_time("time", "day 3", column) == 3
    assert read_time("time", "late", pd.Series(["late"], name="day"), {"late": 7}) == 7
    for bad in ("late", float("nan"), None, "3h", "day 5"):
        with pytest.raises(ValueError, match="time="):
            read_time("time", bad, column)


def test_time_values_tell_large_numbers_apart():
    """Dates as numbers differ in the eighth digit."""
    dates = [20200101, 20200108, 20200201]
    told = dict(zip(dates, [0.0, 7.0, 31.0], strict=True))
    for column in (pd.Series(dates), pd.Series(dates, dtype=float), pd.Series(dates).astype(str)):
        np.testing.assert_array_equal(read_times(column, told), [0, 7, 31])
        np.testing.assert_array_equal(read_times(column, {str(k): v for k, v in told.items()}), [0, 7, 31])
    np.testing.assert_array_equal(read_times(pd.Series([0.9, 1.0], dtype=np.float32), {0.9: 5, 1: 6}), [5, 6])


def test_time_values_that_contradict_themselves_are_an_error():
    with pytest.raises(ValueError, match="says two things of '1': 0 and 3"):
        read_times(pd.Series([1, 1]), {1: 0, "1": 3})
    np.testing.assert_array_equal(read_times(pd.Series([1, 1]), {1: 3, "1": 3}), [3, 3])


def test_times_are_shown_as_they_are_read():
    shown = {
        3.0: "3",
        10 / 3: "3.33333",
        20200101.0: "20200101",
        1234567.5: "1234567.5",
        1e20: "1e+20",
        -2e5: "-200000",
    }
    assert {time: time_text(time) for time in shown} == shown
