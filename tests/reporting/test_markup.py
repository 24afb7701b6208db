"""HTML as values."""

from __future__ import annotations

import pandas as pd
import pytest

from scjko.reporting.markup import element, escaped, frame_table, number, table


def test_only_what_was_made_here_is_markup():
    inner = element("b", "<i>", title='"quoted"')
    assert inner == '<b title="&quot;quoted&quot;">&lt;i&gt;</b>'
    assert element("p", inner, "&") == f"<p>{inner}&amp;</p>"
    assert escaped("a\x00b\ud800c\x1b") == "a\ufffdb\ufffdc\ufffd"
    element("p", "\ud800").encode()


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1234, "1,234"),
        (-0.012345, "−0.0123"),
        (12345.6, "12,346"),
        (float("nan"), "–"),
        (None, "–"),
        (True, "yes"),
        ("x", "x"),
    ],
)
def test_numbers_have_three_digits(value, shown):
    assert number(value) == shown


def test_numbers_of_a_column_have_the_same_decimals():
    made = table("T", ["name", "value"], [["a", 0.25], ["b", -1e-18], ["c", float("nan")]])
    assert [cell in made for cell in (">0.250<", ">0.000<", ">–<")] == [True] * 3
    large = table("T", ["value"], [[-1.5e6], [2e3]])
    assert ">−1.50e+06<" in large and ">2.00e+03<" in large
    assert '<th scope="col" class="number">value' in made and '<th scope="col">name' in made


def test_frames_have_their_first_rows_and_their_index_if_it_has_names():
    frame = pd.DataFrame({"p": [1e-9, 0.5]}, index=["g<", "h"])
    made = frame_table("T", frame, 1, "uns")
    assert "g&lt;" in made and "1e−09" in made and ">h<" not in made and "1 more" in made
