"""Colours, dots, bars and legends that all plots share, on light pages and dark ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import PathCollection
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_hex, to_rgb, to_rgba
from matplotlib.figure import Figure

Drawn = Axes | list[Axes] | Figure | None
"""What a plotting function gives: nothing when shown, the figure if requested, else its axes, a list if several."""

# The palette of Okabe and Ito (2008), which readers of any colour vision distinguish; yellow is left out, which is hard
# to see on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
OBSERVED, PREDICTED, INTERPOLATED, FORECAST = PALETTE[2], PALETTE[1], PALETTE[0], PALETTE[3]
#: Of heights: light where cells are headed, so that dark dots stand out there; even steps for any colour vision. Both
#: ends are cut: the lowest is no page, and dots can be seen on the highest.
HEIGHTS = LinearSegmentedColormap.from_list("heights", plt.get_cmap("viridis_r")(np.linspace(0.03, 0.80, 256)))
#: The area of a dot in a legend.
KEY_DOT = 45.0
#: Points that a line of a legend takes.
LINE = 12.5
#: The largest dot, the smallest, and the part of its axes that all dots would cover side by side.
DOTS, COVER = (0.06, 9.0), 0.45
#: More dots than this are pixels in a PDF, too: as shapes they take minutes to open.
MOST_SHAPES = 2000
LINE_STYLES: tuple[Any, ...] = ("solid", (0, (4, 1.5)), (0, (1, 1.2)), (0, (7, 2, 1.5, 2)), (0, (2, 4)))
#: Numbers beyond these on a scale are divided by a power of 1000, which its label names.
PLAIN = (1e-2, 1e4)


def figure_of(axes: Axes) -> Figure:
    """The figure that axes are part of."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure


def paper(axes: Axes) -> tuple[float, float, float]:
    """The colour that a plot is drawn on."""
    for face in (axes.get_facecolor(), figure_of(axes).get_facecolor()):
        red, green, blue, alpha = to_rgba(face)
        if alpha > 0.5:
            return red, green, blue
    return to_rgb("black" if _light(to_rgb(plt.rcParams["text.color"])) else "white")


def ink(axes: Axes) -> str:
    """What stands out from the page: black, or white on a dark one."""
    return "black" if _light(paper(axes)) else "white"


def shade(axes: Axes, share: float) -> tuple[float, float, float]:
    """A colour between the page (0) and ink (1)."""
    mixed = (1 - share) * np.array(paper(axes)) + share * np.array(to_rgb(ink(axes)))
    return float(mixed[0]), float(mixed[1]), float(mixed[2])


def greys(axes: Axes) -> Colormap:
    """Heights beneath coloured cells: low ones near the page but not of its colour, high ones darker, or lighter."""
    return LinearSegmentedColormap.from_list("greys", [shade(axes, 0.10), shade(axes, 0.48)])


def seen_on(colours: Sequence[Any], axes: Axes) -> list[Any]:
    """These colours, black as white on a dark page."""
    return [ink(axes) if to_rgb(colour) == (0.0, 0.0, 0.0) else colour for colour in colours]


def _light(colour: tuple[float, float, float]) -> bool:
    return float(np.dot(colour, (0.299, 0.587, 0.114))) > 0.5


def dots(axes: Axes, n_dots: int) -> dict[str, Any]:
    """The look of this many dots: small enough to be seen one by one, or as a density."""
    box = axes.get_position()
    width, height = figure_of(axes).get_size_inches() * 72
    area = COVER * box.width * width * box.height * height / max(n_dots, 1)
    return {"s": float(np.clip(area, *DOTS)), "linewidths": 0, "rasterized": n_dots > MOST_SHAPES}


def dress(axes: Axes, *, title: str = "", xlabel: str = "", ylabel: str = "") -> None:
    """Titles and labels at sizes that are legible in one column of a page."""
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(xlabel, fontsize=8)
    axes.set_ylabel(ylabel, fontsize=8)
    axes.tick_params(labelsize=7)


def scale(axis: Axis, label: str, limits: tuple[float, float], fontsize: float = 8) -> None:
    """Name an axis, with the power of ten that its numbers are divided by, which matplotlib puts above it as 1e6."""
    largest = float(np.max(np.abs(limits)))
    power = 0 if largest == 0 or PLAIN[0] <= largest < PLAIN[1] else 3 * int(np.floor(np.log10(largest) / 3))
    axis.set_label_text(f"{label} ($10^{{{power}}}$)" if power else label, fontsize=fontsize)
    axis.set_major_formatter(lambda value, _: f"{value / 10.0**power:.10g}".replace("-", "\N{MINUS SIGN}"))


def bare(axes: Any) -> None:
    """Panes of the page's colour behind axes in three dimensions, which matplotlib makes grey."""
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((*paper(axes), 0.0))
        axis.pane.set_edgecolor(shade(axes, 0.2))
    axes.grid(False)


def colour_bar(mapped: Any, drawn: Sequence[Axes], label: str, **options: Any) -> None:
    """One colour bar for all of these axes, with small letters; one in each figure, if they are of several."""
    options = {"aspect": 25} | options
    for figure in dict.fromkeys(map(figure_of, drawn)):
        bar = figure.colorbar(mapped, ax=[axes for axes in drawn if figure_of(axes) is figure], **options)
        scale(bar.ax.xaxis if bar.orientation == "horizontal" else bar.ax.yaxis, label, mapped.get_clim())
        bar.ax.tick_params(labelsize=7)


def names_below(axes: Axes) -> int:
    """How many names of a legend have room below each other, beside these axes."""
    height = 72 * axes.get_position().height * figure_of(axes).get_figheight()
    return max(int(height / LINE) - 1, 4)


def key_beside(axes: Axes, **options: Any) -> None:
    """A small legend where it covers no data, to the right of the axes."""
    made = axes.legend(
        **{"loc": "upper left", "bbox_to_anchor": (1.01, 1.0), "frameon": False, "fontsize": 7.5, "borderaxespad": 0.0}
        | options
    )
    for handle in made.legend_handles:
        if isinstance(handle, PathCollection):  # dots of a size that can be seen, however small those of the cells
            handle.set_sizes([KEY_DOT])
            handle.set_alpha(1.0)


def time_colours(n_times: int, axes: Axes, cmap: Any = "viridis") -> list[Any]:
    """A colour for each time, in the order of the map, all of them visible on the page."""
    low, high = (0.0, 0.88) if ink(axes) == "black" else (0.25, 1.0)
    return [plt.get_cmap(cmap)(value) for value in np.linspace(low, high, n_times)]


def xy(points: Any) -> tuple[Any, Any]:
    """The two columns of points in a plane."""
    return points[:, 0], points[:, 1]


def shares(axes: Axes) -> Colormap:
    """A map of shares and probabilities: from a little off the page to what stands out most."""
    rest = plt.get_cmap("magma_r" if ink(axes) == "black" else "magma")(np.linspace(0.15, 1, 24))
    return LinearSegmentedColormap.from_list("shares", [shade(axes, 0.13), *rest])


def odds_map(axes: Axes) -> Colormap:
    """A map of log-odds: its middle, where neither is more probable, is a grey that can be seen on the page."""
    around: list[Any] = ["#B2182B", "#EF8A62", shade(axes, 0.15), "#67A9CF", "#2166AC"]
    return LinearSegmentedColormap.from_list("odds", [to_hex(colour) for colour in around])
