"""Plots of a part of the cells, and calls with a keyword or a colour that a plot does not take."""

from __future__ import annotations

import logging
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection

import scjko as sj

FUNCTIONS = {name: getattr(sj.pl, name) for name in sj.pl.__all__} | {
    "sankey": partial(sj.pl.sankey, cluster_key="fate")
}
#: Plots that need no more than one fit with a potential.
OF_A_POTENTIAL = sorted(
    set(FUNCTIONS)
    - {"interaction", "validation", "growth", "fates", "ancestry", "sankey", "barriers", "drivers", "trends"}
)
NOT_SHOWN = {
    name: {"n_frames": 3, "return_fig": True} if name == "animation" else {"show": False} for name in FUNCTIONS
}


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def draw(name, adata, **options):
    return FUNCTIONS[name](adata, **NOT_SHOWN[name] | options)


def part(adata, *days):
    return adata[np.isin(adata.obs["day"], days)].copy()


def titles(drawn) -> list[str]:
    return [axes.get_title() for axes in np.ravel(drawn)]


# Parts of the cells: the days of the fit are 0, 1, 2, 4 and 7.


# matplotlib 3.11 projects vertices that it never set, of the faces at the rim of a surface.
rim = pytest.mark.filterwarnings("ignore:.* encountered in dot:RuntimeWarning")


@rim
@pytest.mark.parametrize("days", [(0, 1, 2), (1, 2, 4, 7), (0, 1, 4, 7)], ids=["no late", "no first", "gap"])
@pytest.mark.parametrize("name", sorted(set(OF_A_POTENTIAL) - {"couplings"}))
def test_cells_without_some_time_points_are_drawn(name, days, fitted):
    """No NaN and no empty array, both of which end in an error or, here, in a warning."""
    draw(name, part(fitted, *days))
    plt.gcf().canvas.draw()


@rim
@pytest.mark.parametrize("day", [0, 2, 7])
@pytest.mark.parametrize("name", sorted(set(OF_A_POTENTIAL) - {"couplings", "animation", "trajectories", "waddington"}))
def test_cells_of_one_time_point_are_drawn(name, day, fitted):
    draw(name, part(fitted, day))
    plt.gcf().canvas.draw()


def test_times_without_cells_are_left_out_and_the_log_says_so(fitted, caplog):
    with caplog.at_level(logging.INFO, logger="scjko"):
        assert titles(sj.pl.level_curves(part(fitted, 0, 1, 2), show=False)) == ["day 0", "day 1", "day 2"]
    assert "adata has no cells of day 4 and 7, left out of the plot." in caplog.text


def test_predictions_are_of_times_that_some_cells_are_at_or_lead_to(fitted):
    panels = sj.pl.predictions(part(fitted, 1), show=False)
    assert titles(panels) == ["day 1", "day 2"]
    assert [[c.get_label() for c in axes.collections] for axes in panels] == [["observed"], ["predicted"]]
    assert titles(sj.pl.predictions(part(fitted, 1), kind="observed", show=False)) == ["day 1"]
    assert titles(sj.pl.predictions(part(fitted, 1), kind="predicted", show=False)) == ["day 2"]


def test_a_time_in_a_gap_is_drawn_with_the_cells_before_and_after(fitted):
    some = part(fitted, 0, 1, 4, 7)
    axes = sj.pl.level_curves(some, times=2, show=False)
    (dots,) = [c for c in axes.collections if isinstance(c, PathCollection)]
    assert len(dots.get_offsets()) == np.isin(some.obs["day"], (1, 4)).sum()


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("level_curves", {"times": [0, 4]}, "times has 4"),
        ("level_curves", {"times": 6}, "times has 6"),
        ("landscape", {"time": 7}, "time=7"),
        ("predictions", {"times": [0, 7]}, "times has 7"),
    ],
)
def test_a_requested_time_without_cells_is_named_with_the_times_that_have_some(name, options, named, fitted):
    with pytest.raises(ValueError, match=rf"{named}, but adata has no cells.*it has cells of 0, 1 and 2\."):
        draw(name, part(fitted, 0, 1, 2), **options)


def test_between_the_last_cells_and_the_next_time_point_there_is_a_picture(fitted):
    assert titles(sj.pl.level_curves(part(fitted, 0, 1, 2), times=3, show=False)) == ["day 3"]


def test_trajectories_start_at_the_first_cells_there_are(fitted):
    late = part(fitted, 2, 4, 7)
    axes = sj.pl.trajectories(late, n_cells=10, show=False)
    assert axes.get_title() == "day 2 to day 7"
    (lines,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    first = late.obsm["X_jko"][late.obs["day"] == 2]
    starts = np.asarray(lines.get_segments())[:10, 0]
    # Positions go through float32.
    assert all(np.isclose(first, start, rtol=1e-5).all(axis=1).any() for start in starts)


@pytest.mark.parametrize(
    ("days", "options", "message"),
    [
        ((0, 1, 2, 4, 7), {"start": 7}, r"start=7 is not before stop=7.*start at cells of 0, 1, 2 or 4"),
        ((7,), {}, r"start=7 is not before stop=7.*adata has cells of 7\."),
        ((0, 1), {"start": 1, "stop": 0}, r"start=1 is not before stop=0.*set a later stop"),
        ((1, 2), {"start": 0}, r"start=0 is no time point with cells; adata has cells of 1 and 2\."),
        ((0, 1), {"start": 8}, r"start=8, but the fit covers times from 0 to 7"),
        ((0, 1), {"stop": "late"}, r"stop='late' is neither a number nor a label"),
    ],
)
def test_trajectories_that_lead_nowhere_are_explained(days, options, message, fitted):
    with pytest.raises(ValueError, match=message):
        sj.pl.trajectories(part(fitted, *days), show=False, **options)


def test_couplings_need_all_cells_and_an_animation_two_time_points(fitted):
    with pytest.raises(ValueError, match=r"no cells of 4 and 7, which were fitted.*Pass the whole AnnData"):
        sj.pl.couplings(part(fitted, 0, 1, 2))
    with pytest.raises(ValueError, match=r"one time point only, 2; an animation"):
        sj.pl.animation(part(fitted, 2))


@pytest.mark.parametrize("name", ["animation", "couplings", "level_curves", "predictions", "trajectories"])
def test_cells_of_other_times_than_those_fitted_are_named(name, fitted):
    fitted.obs["day"] = fitted.obs["day"].astype(float) + 100
    with pytest.raises(
        ValueError, match=r"no cells of the time points that were fitted, 0, 1, 2, 4 and 7: obs\['day'\]"
    ):
        draw(name, fitted)


# Keywords.


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_unknown_keyword_is_named_with_those_there_are(name, fitted):
    """A TypeError of ours before anything is drawn, where matplotlib raised an AttributeError about its artists."""
    with pytest.raises(TypeError, match=rf"^{name} takes no 'frobnicate'\. It takes .*key, .*; other keywords go to"):
        draw(name, fitted, frobnicate=1)
    assert not plt.get_fignums()


@pytest.mark.parametrize(
    "name", sorted(set(FUNCTIONS) - {"ancestry", "fates", "landscape", "level_curves", "trajectories", "velocity"})
)
def test_a_basis_where_none_is_taken_names_the_plots_that_take_one(name, fitted):
    taking = "ancestry, fates, landscape, level_curves, trajectories and velocity"
    with pytest.raises(TypeError, match=f"{name} takes no 'basis', which {taking} take"):
        draw(name, fitted, basis="umap")


@pytest.mark.parametrize(
    ("name", "misspelt", "meant"),
    [
        ("level_curves", "time", "times"),
        ("level_curves", "colour", "color"),
        ("level_curves", "n_level", "n_levels"),
        ("landscape", "compnents", "components"),
        ("trajectories", "n_cell", "n_cells"),
        ("history", "linewdith", "linewidth"),
        ("velocity", "densty", "density"),
        ("level_curves", "edgecolors", "edgecolor"),  # scanpy sets one of the two
    ],
)
def test_the_keyword_that_was_meant_is_suggested(name, misspelt, meant, fitted):
    with pytest.raises(TypeError, match=rf"takes no '{misspelt}'; did you mean '{meant}'\?"):
        draw(name, fitted, **{misspelt: 1})


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("keyword", ["layer", "use_raw", "gene_symbols"])
def test_keywords_of_scanpy_get_a_remedy(name, keyword, fitted):
    with pytest.raises(TypeError, match=rf"{name} takes no '{keyword}'; put the values into a column of adata.obs"):
        draw(name, fitted, **{keyword: "x"})


@rim
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("animation", {"alpha": 0.5, "zorder": -1, "corner_mask": True}),
        ("couplings", {"lw": 2, "color": "red", "linestyles": "dotted"}),
        ("energy_over_time", {"lw": 2, "c": "red", "ls": ":", "mfc": "white"}),
        ("history", {"linewidth": 2, "drawstyle": "steps", "label": "mine"}),
        ("landscape", {"shade": False, "edgecolor": "black", "lw": 0.1, "norm": None, "rstride": 2}),
        ("level_curves", {"na_color": "red", "s": 3, "color_map": "magma", "edgecolor": "none", "frameon": True}),
        ("predictions", {"linewidth": 0.2, "c": "red", "marker": "+"}),
        ("trajectories", {"lw": 2, "cmap": "viridis", "capstyle": "round"}),
        ("velocity", {"density": 0.5, "broken_streamlines": True, "minlength": 0.2}),
        ("velocity", {"kind": "arrows", "scale": 5, "headwidth": 4, "facecolor": "red", "alpha": 0.4}),
    ],
)
def test_keywords_of_what_draws_a_plot_work_under_all_their_names(name, options, fitted):
    """Also where a plot sets the same property itself, under another name: matplotlib takes no two of them."""
    draw(name, fitted, **options)
    plt.gcf().canvas.draw()


def test_a_keyword_replaces_what_the_plot_sets_under_another_name(fitted):
    (lines,) = [c for c in sj.pl.trajectories(fitted, lw=3, show=False).collections if isinstance(c, LineCollection)]
    assert set(lines.get_linewidth()) == {3}


# Colours.


@pytest.mark.parametrize("name", ["level_curves", "velocity"])
def test_a_list_of_colours_says_to_call_once_for_each(name, fitted):
    gene = fitted.var_names[0]
    with pytest.raises(ValueError, match=rf"color=\['fate', '{gene}'\] must name one.*call once for each, with ax="):
        draw(name, fitted, color=["fate", gene])
    with pytest.raises(ValueError, match=r"color=\[\] must name one"):
        draw(name, fitted, color=[])
    draw(name, fitted, color=["fate"])
    assert plt.get_fignums(), "a list of one is that one"


@pytest.mark.parametrize("name", ["level_curves", "velocity"])
def test_a_colour_that_is_no_column_or_gene_is_named(name, fitted):
    with pytest.raises(KeyError, match=r"No color='fat' in adata.obs, which has 'day', 'fate'.*Did you mean 'fate'\?"):
        draw(name, fitted, color="fat")
    with pytest.raises(KeyError, match="color names what cells are coloured by, not a colour"):
        draw(name, fitted, color="red")
    with pytest.raises(TypeError, match="color must be the name of a column of obs or of a gene, as text, not 3"):
        draw(name, fitted, color=3)
    assert not plt.get_fignums()


def test_a_gene_kept_in_raw_only_colours_cells(fitted):
    fitted.raw = fitted.copy()
    gene, few = fitted.var_names[3], fitted[:, :2].copy()
    axes = sj.pl.velocity(few, color=gene, show=False)
    dots = next(c for c in axes.collections if isinstance(c, PathCollection))
    # scanpy draws cells in the order of their values.
    np.testing.assert_array_equal(np.sort(dots.get_array()), np.sort(fitted.obs_vector(gene)))


@pytest.mark.parametrize("name", ["predictions", "trajectories", "couplings", "energy_over_time", "animation"])
def test_a_column_where_a_colour_is_taken_names_the_plots_that_take_columns(name, fitted):
    keyword = "colors" if name == "animation" else "color"
    with pytest.raises(ValueError, match=f"{keyword}='fate' is no colour.*in level_curves, velocity and waddington"):
        draw(name, fitted, **{keyword: "fate"})


# Other arguments.


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("velocity", {"kind": "arrows", "n_arrows": 0}, "n_arrows=0 is too small"),
        ("velocity", {"n_arrows": "many"}, "n_arrows must be a whole number"),
        ("couplings", {"random_state": -1}, "random_state=-1 is too small"),
        ("trajectories", {"random_state": "a"}, "random_state must be a whole number"),
        ("animation", {"path": 3}, r"path must be the name of a file that ends in \.gif or \.mp4, not 3"),
        ("history", {"ax": "mine"}, "ax must be 2 matplotlib Axes, one for each panel, not 'mine'"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(name, options, message, fitted):
    with pytest.raises((TypeError, ValueError), match=message):
        draw(name, fitted, **options)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_key_without_a_fit_says_what_to_run(name, fitted):
    with pytest.raises(KeyError, match=r"at adata\.uns\['second'\]; run sj\.tl\..*key_added='second'"):
        draw(name, fitted, key="second")
