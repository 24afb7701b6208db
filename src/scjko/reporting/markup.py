"""HTML as values: text is escaped where it enters, and only what these functions made is taken as it is."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd

#: What no HTML file may hold, and what no file in UTF-8 can: control characters and halves of characters.
UNWRITABLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
#: Elements without an end.
VOID = ("img", "meta")


class Html(str):
    """Markup, with everything that came from outside escaped."""

    __slots__ = ()


def escaped(value: object) -> Html:
    """Any value as text that a browser shows as it is; markup stays markup."""
    if isinstance(value, Html):
        return value
    return Html(html.escape(UNWRITABLE.sub("\ufffd", str(value)), quote=True))


def joined(parts: Iterable[object], between: str = "") -> Html:
    """Parts one after the other."""
    return Html(escaped(between).join(escaped(part) for part in parts))


def element(tag: str, *children: object, **attributes: object) -> Html:
    """An element; ``class_`` stands for the attribute ``class``, and ``aria_label`` for ``aria-label``."""
    told = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escaped(str(value))}"' for name, value in attributes.items()
    )
    start = f"<{tag}{told}>"
    return Html(start if tag in VOID else f"{start}{joined(children)}</{tag}>")


def paragraph(*children: object, **attributes: object) -> Html:
    """A paragraph."""
    return element("p", *children, **attributes)


def code(text: object) -> Html:
    """A name or a call within a sentence."""
    return element("code", text)


def listing(items: Iterable[object]) -> Html:
    """A list of sentences."""
    return element("ul", *(element("li", item) for item in items))


def tiles(values: dict[str, object]) -> Html:
    """A few figures side by side, each above its name."""
    return element(
        "dl", *(element("div", element("dt", k), element("dd", v)) for k, v in values.items()), class_="tiles"
    )


def table(caption: object, columns: Sequence[object], rows: Iterable[Sequence[object]], digits: int = 3) -> Html:
    """A table that scrolls by itself where it is wider than the page; numbers stand to the right."""
    rows = _aligned([list(row) for row in rows], digits)
    right = [all(_is_number(row[j]) for row in rows) for j in range(len(columns))]
    kinds = [{"class_": "number"} if own else {} for own in right]
    head = element("tr", *(element("th", name, scope="col", **kinds[j]) for j, name in enumerate(columns)))
    body = [element("tr", *(element("td", number(value), **kinds[j]) for j, value in enumerate(row))) for row in rows]
    made = element("table", element("thead", head), element("tbody", *body))
    # Scrolled by keyboard too, hence the place in the order of tabs; the caption stays where it is.
    scrolls = element("div", made, class_="scroll", tabindex="0", role="region", aria_label="Table")
    return element("figure", element("figcaption", caption), scrolls, class_="table")


def beside(*parts: Html) -> Html:
    """Figures and tables side by side, as far as the page is wide enough."""
    return element("div", *parts, class_="beside")


def stacked(*parts: Html) -> Html:
    """Parts below each other, beside others."""
    return element("div", *parts)


def frame_table(caption: object, frame: pd.DataFrame, most: int, whole: str) -> Html:
    """The first rows of a frame; ``whole`` names where all of them are."""
    shown = frame.iloc[:most]
    if not isinstance(frame.index, pd.RangeIndex):
        shown = shown.reset_index(names=frame.index.name or "name") if frame.index.nlevels == 1 else shown.reset_index()
    rows = [[number(value) for value in row] for row in shown.astype(object).to_numpy().tolist()]
    made = table(caption, list(map(str, shown.columns)), rows)
    return made if len(frame) <= most else joined([made, more(len(frame) - most, whole)])


def more(n: int, whole: str) -> Html:
    """What is said of rows that are not shown."""
    return paragraph(f"{n:,} more in ", code(whole), ".", class_="note")


def number(value: Any) -> Any:
    """A number as readers take it in: three digits, thousands apart; anything else as it is."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, int | np.integer):
        return f"{int(value):,}".replace("-", "\N{MINUS SIGN}")
    if isinstance(value, float | np.floating):
        value = float(value)
        if not math.isfinite(value):
            return "–" if math.isnan(value) else str(value)
        short = f"{value:,.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.3g}"
        return short.replace("-", "\N{MINUS SIGN}")
    return "–" if value is None or value is pd.NA or value is pd.NaT else value


def with_error(value: Any, error: Any) -> float | str:
    """A number with its standard deviation, if that is known."""
    if not math.isfinite(error):
        return float(value)
    return f"{number(float(value))} ± {number(float(f'{error:.2g}'))}"


def percent(share: float) -> str:
    """A share in per cent."""
    return "–" if not math.isfinite(share) else f"{100 * share:.3g} %".replace("-", "\N{MINUS SIGN}")


def _aligned(rows: list[list[object]], digits: int) -> list[list[object]]:
    """Columns of numbers with as many decimals each that the largest has this many digits."""
    for j in range(len(rows[0]) if rows else 0):
        values = [float(row[j]) for row in rows if isinstance(row[j], float | np.floating)]  # type: ignore[arg-type]
        largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
        if len(values) < len(rows):
            continue
        plain = largest == 0 or 1e-4 <= largest < 1e6
        decimals = max(0, digits - 1 - math.floor(math.log10(largest or 1.0)))
        for row, value in zip(rows, values, strict=True):
            if math.isfinite(value):
                # No minus before a zero.
                shown = f"{round(value, decimals) or 0.0:,.{decimals}f}" if plain else f"{value:.{digits - 1}e}"
                row[j] = shown.replace("-", "\N{MINUS SIGN}")
    return rows


#: A number as it is written here, with or without its standard deviation or "%"; or a dash for none.
WRITTEN = re.compile(r"[\N{MINUS SIGN}\d–][\d.,]*(e[\N{MINUS SIGN}+]\d+)?( ± [\d.,e\N{MINUS SIGN}+]+)?( %)?")


def _is_number(value: Any) -> bool:
    if isinstance(value, str):
        return WRITTEN.fullmatch(value) is not None
    return value is None or (isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool))
