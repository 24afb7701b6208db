"""Pictures as they were looked at: each is compared, pixel by pixel, with one that was committed.

``SCJKO_BASELINE=1`` in the environment draws the committed ones anew; look at them before you commit them.
"""

from __future__ import annotations

import os
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import PathCollection
from matplotlib.testing.compare import compare_images
from matplotlib.text import Text
from PIL import Image

import scjko as sj

BASELINE = Path(__file__).parent / "baseline"
DPI = 40
#: Root mean square of the differences of grey levels (0 to 255) that is allowed. Versions of matplotlib differ in the
#: smoothing of edges: 3.10.0 and 3.11.2 by at most 2.8 in these pictures. Without cells the pictures that are tested
#: for it differ by 5.2 and more. Pictures with long legends are left out: their layout depends on the version.
TOLERANCE = 3.0

PICTURES = {
    "level_curves": lambda adata: sj.pl.level_curves(adata, [0, 4, 7], return_fig=True),
    "level_curves_wells": lambda adata: sj.pl.level_curves(adata, [4, 7], wells=True, scale="panel", return_fig=True),
    "landscape": lambda adata: sj.pl.landscape(adata, 7, wells=True, return_fig=True),
    "barriers": lambda adata: sj.pl.barriers(adata, return_fig=True),
    "predictions": lambda adata: sj.pl.predictions(adata, [1, 3, 7], return_fig=True),
    "velocity": lambda adata: sj.pl.velocity(adata, return_fig=True),
    "trajectories": lambda adata: sj.pl.trajectories(adata, return_fig=True),
    "couplings": lambda adata: sj.pl.couplings(adata, [0, 4], return_fig=True),
}
DARK = ("level_curves",)


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def without_text(figure) -> None:
    """Letters differ between versions of fonts and of what draws them; places follow from their sizes."""
    for text in figure.findobj(Text):
        text.set_text("")
    for axes in figure.axes:
        for axis in axes._axis_map.values():
            axis.set_major_formatter(matplotlib.ticker.NullFormatter())


def draw(name: str, adata, style: str):
    # A style of its own: settings of the user's machine must not change the pictures.
    with matplotlib.style.context(["default", *(["dark_background"] if style == "dark" else [])]):
        figure = PICTURES[name](adata)
        without_text(figure)
        return figure


def saved(figure, path: Path) -> None:
    """A picture of 40 dots per inch, each the mean of nine: edges that are smoothed in another way are even there."""
    size = np.round(figure.get_size_inches() * DPI) / DPI
    figure.set_size_inches(size)
    figure.savefig(path, dpi=3 * DPI, facecolor=figure.get_facecolor())
    with Image.open(path) as picture:
        picture.convert("RGB").reduce(3).save(path, optimize=True)


def compared(figure, name: str, folder: Path) -> str | None:
    """What compare_images says, None if the pictures are alike."""
    made = folder / f"{name}.png"
    saved(figure, made)
    return compare_images(str(BASELINE / made.name), str(made), tol=TOLERANCE)


@pytest.mark.parametrize(
    ("name", "style"), [*((name, "light") for name in PICTURES), *((name, "dark") for name in DARK)]
)
def test_pictures_are_those_that_were_looked_at(name, style, drawable, tmp_path):
    figure = draw(name, drawable, style)
    called = name if style == "light" else f"{name}_dark"
    if os.environ.get("SCJKO_BASELINE"):
        saved(figure, BASELINE / f"{called}.png")
    assert compared(figure, called, tmp_path) is None


@pytest.mark.parametrize("name", ["level_curves", "predictions", "velocity"])
def test_a_picture_without_its_cells_is_found(name, drawable, tmp_path):
    figure = draw(name, drawable, "light")
    for axes in figure.axes:
        for cells in [made for made in axes.collections if isinstance(made, PathCollection)]:
            cells.remove()
    assert "Error: Image files did not match" in compared(figure, name, tmp_path)


def test_a_picture_without_its_wells_is_found(drawable, tmp_path):
    figure = draw("level_curves_wells", drawable, "light")
    for axes in figure.axes[:2]:
        for line in list(axes.lines):
            line.remove()
    assert "Error: Image files did not match" in compared(figure, "level_curves_wells", tmp_path)


def test_pictures_to_compare_with_are_small():
    sizes = [path.stat().st_size for path in BASELINE.glob("*.png")]
    assert len(sizes) == len(PICTURES) + len(DARK) and max(sizes) < 40_000 and np.sum(sizes) < 1_000_000
