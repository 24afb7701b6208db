"""What every plot takes from scanpy's, and what it looks like on many cells, many groups and a dark page."""

from __future__ import annotations

import inspect
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
import scanpy as sc
from anndata import AnnData
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex, to_rgb, to_rgba
from matplotlib.image import imread

import scjko as sj
from scjko.pl._canvas import HEIGHTS, dots, ink, paper, scale, shade
from scjko.pl._groups import groups
from scjko.pl._page import columns

#: Calls of the plots that a linear fit and its landscape are enough for.
CALLS = {
    "barriers": {},
    "couplings": {"times": [0, 4]},
    "energy_over_time": {"groupby": "fate"},
    "landscape": {"time": 7},
    "level_curves": {"times": [0, 7]},
    "predictions": {"times": [1, 7]},
    "trajectories": {"n_cells": 5},
    "velocity": {},
    "waddington": {"n_paths": 3},
}


@pytest.fixture(autouse=True)
def _closed():
    with matplotlib.rc_context():
        yield
    plt.close("all")


@pytest.fixture
def figdir(tmp_path):
    """The folder that scanpy saves figures into."""
    before = sc.settings.figdir
    sc.settings.figdir = tmp_path
    yield tmp_path
    sc.settings.figdir = before


def draw(name, adata, **options):
    return getattr(sj.pl, name)(adata, **CALLS[name] | options)


@pytest.mark.parametrize("name", CALLS)
def test_size_title_and_file_are_taken_as_in_scanpy(name, drawable, figdir, monkeypatch):
    saved = []
    savefig = matplotlib.figure.Figure.savefig
    monkeypatch.setattr(
        matplotlib.figure.Figure, "savefig", lambda *a, **k: (saved.append(a[1]), savefig(*a, **k | {"dpi": 30}))
    )
    figure = draw(name, drawable, figsize=(5, 4), title="mine", save="_x.png", return_fig=True)
    assert tuple(figure.get_size_inches()) == (5, 4)
    assert "mine" in [figure.get_suptitle().splitlines()[0] if figure.get_suptitle() else figure.axes[0].get_title()]
    assert saved == [figdir / f"{name}_x.png"], "once"
    picture = imread(saved[0])[..., :3]
    assert np.mean(np.ptp(picture, axis=2) > 0.1) > 0.002 or len(np.unique(picture)) > 20, "no empty axes"


def test_panels_can_be_named_and_put_in_columns(drawable):
    figure = sj.pl.level_curves(drawable, [0, 1, 7], ncols=2, title=["a", "b", "c"], return_fig=True)
    assert [axes.get_title() for axes in figure.axes[:3]] == ["a", "b", "c"]
    first, second, third = (axes.get_subplotspec() for axes in figure.axes[:3])
    assert (first.rowspan.start, second.rowspan.start, third.rowspan.start) == (0, 0, 1)


@pytest.mark.parametrize(
    ("save", "file"),
    [
        (True, "level_curves.pdf"),
        ("x.png", "level_curvesx.png"),
        ("_v1.2", "level_curves_v1.2.pdf"),
        (Path("sub") / "mine.svg", "sub/mine.svg"),
        ("sub/mine.png", "sub/mine.png"),
    ],
)
def test_names_of_files_are_those_of_scanpy_and_paths_are_paths(save, file, figdir, monkeypatch, drawable):
    monkeypatch.chdir(figdir)
    plt.rcParams["savefig.dpi"] = 20
    sj.pl.level_curves(drawable, 7, save=save, show=False)
    assert [path.relative_to(figdir).as_posix() for path in figdir.rglob("*.*")] == [file]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"figsize": 3}, "figsize=3 must be two numbers"),
        ({"figsize": (3, -1)}, r"figsize=\(3, -1\) must be two numbers"),
        ({"ncols": 0}, "ncols=0 is too small"),
        ({"title": ["a"]}, r"title=\['a'\] must be one text, or 2, one for each panel"),
        ({"title": 3}, "title must be text"),
        ({"save": 3}, "save must be True"),
        ({"scale": "own"}, "scale='own' is not an option"),
    ],
)
def test_what_a_page_cannot_be_is_named(options, message, drawable):
    with pytest.raises((ValueError, TypeError), match=message):
        draw("level_curves", drawable, **options)


def test_size_and_columns_are_of_a_new_figure(drawable):
    _, given = plt.subplots(1, 2)
    for options in ({"figsize": (3, 3)}, {"ncols": 2}):
        with pytest.raises(ValueError, match="is of a new figure, and ax has axes of yours"):
            draw("level_curves", drawable, ax=given, **options)


def test_no_panel_is_left_alone():
    rows = {n: [columns(n)] * (n // columns(n)) + [n % columns(n)] * (n % columns(n) > 0) for n in range(1, 26)}
    assert rows[6] == [3, 3] and rows[7] == [4, 3] and rows[8] == [4, 4] and rows[10] == [5, 5]
    assert all(row[-1] > 1 for n, row in rows.items() if n > 1)


@pytest.mark.parametrize("name", ["level_curves", "trajectories", "velocity", "landscape"])
def test_a_colour_map_is_that_of_the_colour_bar(name, drawable):
    figure = draw(name, drawable, cmap="cividis", return_fig=True)
    mapped = [m for axes in figure.axes for m in [*axes.collections, *axes.images] if m.get_array() is not None]
    assert "cividis" in [m.get_cmap().name for m in mapped]


@pytest.mark.parametrize("name", ["level_curves", "couplings", "predictions"])
def test_axes_of_the_user_get_the_keys_too(name, drawable):
    figure, given = plt.subplots(1, 2)
    draw(name, drawable, ax=given)
    assert len(figure.axes) == 3 or given[-1].get_legend() is not None


def test_groups_have_one_colour_each_and_the_same_in_all_panels(drawable):
    """Of ten groups, some have no cells at the first time, where scanpy coloured by what is left."""
    figure = sj.pl.level_curves(drawable, color="type", times=[0, 7], return_fig=True)
    names = drawable.obs["type"].cat.categories
    expected = groups(drawable, "color", "type", figure.axes[0], most=None).colours
    assert len(set(expected.values())) == len(expected) == 10 and names[10] not in expected
    x, day = drawable.obsm["X_jko"], drawable.obs["day"].to_numpy()
    for axes, time in zip(figure.axes, (0, 7), strict=False):
        (cells,) = [c for c in axes.collections if isinstance(c, PathCollection)]
        drawn = {
            tuple(p): to_hex(c) for p, c in zip(np.float32(cells.get_offsets()), cells.get_facecolors(), strict=True)
        }
        for point, name in zip(x[day == time], drawable.obs["type"][day == time], strict=True):
            assert drawn[tuple(np.float32(point))] == to_hex(expected[name])
    key = figure.axes[1].get_legend()
    assert [text.get_text() for text in key.get_texts()] == list(expected)


def test_colours_are_those_of_uns(drawable):
    drawable.uns["fate_colors"] = ["#111111", "#222222", "#333333"]
    axes = sj.pl.energy_over_time(drawable, "fate", show=False)
    assert [line.get_color() for line in axes.lines] == ["#111111", "#222222", "#333333"]
    cells = AnnData(obs=pd.DataFrame({"g": pd.Categorical(list("ab"), categories=list("abc"))}, index=["0", "1"]))
    cells.uns["g_colors"] = ["red", "lime", "blue"]
    assert groups(cells, "color", "g", axes).colours == {"a": "red", "b": "lime"}
    del cells.uns["g_colors"]
    assert len(set(groups(cells, "color", "g", axes).colours.values())) == 2


def test_groups_of_few_cells_are_dots_without_a_band(drawable):
    few = drawable.obs["fate"] == "fate 1"
    drawable.obs["rare"] = pd.Categorical(np.where(few.to_numpy() & (few.cumsum() < 15), "rare", "rest"))
    axes = sj.pl.energy_over_time(drawable, "rare", show=False)
    rare, rest = axes.lines
    assert np.isnan(rare.get_ydata()).all() and np.isfinite(rest.get_ydata()).all()
    drawn = [c for c in axes.collections if isinstance(c, PathCollection)]
    assert len(drawn[0].get_offsets()) == (drawable.obs["rare"] == "rare").sum()


def test_types_are_said_not_to_compare_where_couplings_are_balanced(drawable):
    said = sj.pl.energy_over_time(drawable, "fate", show=False).get_title()
    assert "not comparable" in said and not sj.pl.energy_over_time(drawable, show=False).get_title()
    drawable.uns["jko"]["couplings"]["dropped"] = np.array([0.1, 0, 0, 0])
    assert not sj.pl.energy_over_time(drawable, "fate", show=False).get_title()


def test_a_scale_of_its_own_shows_flat_panels(drawable):
    shared = sj.pl.level_curves(drawable, [0, 7], return_fig=True)
    own = sj.pl.level_curves(drawable, [0, 7], scale="panel", return_fig=True)
    assert (len(shared.axes), len(own.axes)) == (3, 4)
    levels = [[axes.collections[0].levels for axes in figure.axes[:2]] for figure in (shared, own)]
    assert np.array_equal(*levels[0]) and not np.array_equal(*levels[1])
    tops = [sj.pl.landscape(drawable, 0, scale=which, show=False).get_zlim() for which in ("shared", "panel")]
    assert np.ptp(tops[0]) > np.ptp(tops[1])
    with pytest.raises(ValueError, match="scale='shared' is of one time"):
        sj.pl.landscape(drawable, scale="shared")


def test_wells_lie_on_the_surface(drawable):
    axes = sj.pl.landscape(drawable, 7, wells=True, show=False)
    wells = drawable.uns["jko_landscape"]["wells"]
    here = wells["time"] == 7
    marks = np.array([np.ravel(line.get_data_3d()) for line in axes.lines if line.get_marker() == "o"])
    assert len(marks) == here.sum()
    reach = np.ptp(sj.get.energy(drawable).potential(drawable.obsm["X_jko"], 7.0))
    for position, height in zip(wells["position"][here], wells["height"][here], strict=True):
        nearest = marks[np.argmin(np.linalg.norm(marks[:, :2] - position, axis=1))]
        # The surface is a grid of 100 points a side, and marks are raised by a hundredth.
        assert abs(nearest[2] - height) < 0.05 * reach
    with pytest.raises(ValueError, match="wells=True is of one time"):
        sj.pl.landscape(drawable, wells=True)


@pytest.mark.parametrize(
    ("limits", "label", "text"),
    [
        ((0, 3e6), "V ($10^{6}$)", "2.5"),
        ((-4e-5, 0), "V ($10^{-6}$)", "2.5e+12"),
        ((0, 9999), "V", "2500000"),
        ((0, 0), "V", "2500000"),
    ],
)
def test_large_numbers_are_in_units_that_the_label_names(limits, label, text):
    _, axes = plt.subplots()
    scale(axes.yaxis, "V", limits)
    assert axes.get_ylabel() == label
    assert axes.yaxis.get_major_formatter()(2.5e6) == text


def test_many_cells_are_small_dots_and_pixels():
    _, axes = plt.subplots()
    few, many = dots(axes, 300), dots(axes, 130_000)
    assert few["s"] > 5 > many["s"] > 0 and many["rasterized"] and not few["rasterized"]


def test_the_lowest_potential_is_no_page_on_any_page(drawable):
    for style in ("default", "dark_background"):
        with matplotlib.style.context(style):
            axes = sj.pl.level_curves(drawable, 7, show=False)
            assert np.linalg.norm(np.subtract(to_rgb(HEIGHTS(0.0)[:3]), paper(axes))) > 0.3
            coloured = sj.pl.level_curves(drawable, 7, color="fate", show=False)
            low, high = (coloured.collections[0].get_cmap()(end)[:3] for end in (0.0, 1.0))
            page = np.array(paper(coloured))
            assert np.linalg.norm(low - page) > 0.1 and np.linalg.norm(high - page) > 0.5
            mask = axes.images[0].get_array()
            np.testing.assert_allclose(mask[0, 0, :3], paper(axes))


def test_nothing_is_black_on_black(drawable):
    """On a dark page what was black is white, also where only the user's axes are dark."""
    _, given = plt.subplots(facecolor="black")
    given.set_facecolor("#101010")
    assert ink(given) == "white" and np.mean(shade(given, 0.2)) < 0.4
    axes = sj.pl.level_curves(drawable, 7, ax=given)
    (cells,) = [c for c in axes.collections if isinstance(c, PathCollection)]
    assert to_rgba(cells.get_facecolors()[0])[:3] == (1, 1, 1)
    plt.style.use("dark_background")
    (lines,) = [c for c in sj.pl.velocity(drawable, show=False).collections if isinstance(c, LineCollection)]
    assert to_rgb(lines.get_colors()[0][:3]) == (1, 1, 1)


def test_trajectories_are_smooth_and_on_an_embedding_amid_cells(drawable):
    axes = sj.pl.trajectories(drawable, n_cells=10, show=False)
    (lines,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    pieces = np.asarray(lines.get_segments()).reshape(-1, 10, 2, 2)
    steps = np.diff(pieces, axis=2)[:, :, 0]
    cosine = np.sum(steps[1:] * steps[:-1], axis=-1) / np.prod(np.linalg.norm([steps[1:], steps[:-1]], axis=-1), axis=0)
    # Straight lines from time point to time point turned by up to 90 degrees at once.
    assert np.quantile(cosine, 0.01) > 0.8
    axes = sj.pl.trajectories(drawable, n_cells=10, basis="umap", show=False)
    ends = np.asarray(axes.collections[-1].get_offsets())
    cells = drawable.obsm["X_umap"][drawable.obs["day"] == 7]
    near = np.linalg.norm(ends[:, None] - cells[None], axis=2).min(axis=1)
    assert near.max() < 0.1 * np.ptp(cells)


def test_large_snapshots_are_thinned_before_they_are_coupled(drawable, monkeypatch):
    from scjko.pl import _couplings

    monkeypatch.setattr(_couplings, "MOST", 20)
    axes = sj.pl.couplings(drawable, 4, show=False)
    assert [text.get_text() for text in axes.texts] == ["plan of 20 cells of each time"]
    lines = np.asarray(axes.collections[-1].get_segments())
    assert len(lines) == 20
    day, x = drawable.obs["day"].to_numpy(), drawable.obsm["X_jko"]
    for end, when in ((0, 4), (1, 7)):
        assert all(np.isclose(x[day == when], point, rtol=1e-6).all(axis=1).any() for point in lines[:, end])


def test_far_cells_do_not_squash_the_picture(drawable):
    usual = sj.pl.velocity(drawable, show=False).get_xlim()
    drawable.obsm["X_umap"][0] = 1000
    limits = sj.pl.trajectories(drawable, basis="umap", n_cells=3, show=False).get_xlim()
    assert np.ptp(limits) < 10 * np.ptp(usual)


def test_every_page_keyword_is_refused_by_no_plot_but_the_animation(drawable):
    with pytest.raises(TypeError, match="animation takes no 'save'; name the file as path="):
        sj.pl.animation(drawable, save="x.gif")
    figure = sj.pl.animation(drawable, n_frames=2, title="mine", figsize=(3, 3), return_fig=True)
    assert figure.axes[0].get_title().startswith("mine\n") and tuple(figure.get_size_inches()) == (3, 3)
    assert all("kwargs" in inspect.signature(getattr(sj.pl, name)).parameters for name in sj.pl.__all__)
