"""Figures of a report: drawn by the public plots in matplotlib's own style, and embedded as PNG."""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Callable
from io import BytesIO
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from .markup import Html, element

#: Pixels per inch: sharp on a page, and a file that a mail takes.
DPI = 120
#: Figures of more inches than this scroll on a narrow screen, on which they would be too small to read.
WIDE = 6.5
#: A user's style may be dark or without axes, and cards are white. Names of cells and genes are text, not formulas.
LOOK: dict[Any, Any] = {"text.parse_math": False, "savefig.facecolor": "white", "figure.max_open_warning": 0}


def figure(caption: object, alt: str, plot: Callable[..., Any], *arguments: Any, **options: Any) -> Html:
    """A figure by one of the functions of ``sj.pl``, with its caption and, for those who cannot see it, ``alt``."""
    png, width, height = _drawn(plot, arguments, options)
    image = element(
        "img",
        src=f"data:image/png;base64,{b64encode(png).decode()}",
        alt=alt,
        width=f"{width:.0f}",
        height=f"{height:.0f}",
    )
    card = element("div", image, class_="card wide" if width > WIDE * 96 else "card")
    return element("figure", card, element("figcaption", caption))


def _drawn(plot: Callable[..., Any], arguments: tuple[Any, ...], options: dict[str, Any]) -> tuple[bytes, float, float]:
    """The picture as PNG, and its size in units of CSS, of which an inch has 96."""
    others, buffer = set(plt.get_fignums()), BytesIO()
    with warnings.catch_warnings(), plt.style.context("default"), plt.rc_context(LOOK):
        for message in ("constrained_layout not applied", "Glyph .* missing"):  # strange names, which tables have too
            warnings.filterwarnings("ignore", message)
        try:
            made = plot(*arguments, return_fig=True, **options)
            assert isinstance(made, Figure)
            written: dict[str, Any] = {"bbox_inches": "tight", "pad_inches": 0.06, "pil_kwargs": {"optimize": True}}
            made.savefig(buffer, format="png", dpi=DPI, metadata={"Software": None}, **written)
        finally:
            for number in set(plt.get_fignums()) - others:
                plt.close(number)
    png = buffer.getvalue()
    width, height = (int.from_bytes(png[start : start + 4], "big") for start in (16, 20))  # of the header
    return png, width * 96 / DPI, height * 96 / DPI
