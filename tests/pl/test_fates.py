"""Plots of fates, of ancestry and of flows between groups."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import simulate
from matplotlib.patches import PathPatch, Rectangle

import scjko as sj


@pytest.fixture(scope="module")
def _cells():
    adata = simulate(300, random_state=10)
    options = {"parametrization": sj.Kantorovich(n_members=1), "progress": False}
    sj.tl.fit_energy(adata, "day", 5, **options)
    sj.tl.fates(adata, "fate")
    adata.obs["clone"] = adata.obs["fate"].astype(str) + (np.arange(300) % 30).astype(str)
    return adata


@pytest.fixture
def cells(_cells):
    yield _cells.copy()
    plt.close("all")


def test_every_fate_has_a_panel_with_all_cells(cells):
    drawn = sj.pl.fates(cells, show=False)
    assert [axes.get_title() for axes in drawn] == ["fate 1", "fate 2", "fate 3"]
    values = np.asarray(drawn[1].collections[0].get_array())
    np.testing.assert_allclose(values, np.sort(cells.obsm["jko_fates"]["fate 2"]))


def test_log_odds_are_of_two_fates(cells):
    axes = sj.pl.fates(cells, kind="log_odds", names=["fate 1", "fate 3"], show=False)
    p, q = (cells.obsm["jko_fates"][name].to_numpy() for name in ("fate 1", "fate 3"))
    odds = np.clip(np.log(np.maximum(p, 1e-300) / np.maximum(q, 1e-300)), -5, 5)
    drawn = np.asarray(axes.collections[0].get_array())
    np.testing.assert_allclose(np.sort(drawn), np.sort(odds), atol=1e-6)
    assert (np.diff(np.abs(drawn)) >= 0).all()
    with pytest.raises(ValueError, match="kind='log_odds' draws 2 fates, not 3"):
        sj.pl.fates(cells, kind="log_odds", show=False)


def test_corners_of_the_triangle_are_certain_cells(cells):
    axes = sj.pl.fates(cells, kind="triangle", show=False)
    places = np.asarray(axes.collections[0].get_offsets())
    sure = cells.obsm["jko_fates"]["fate 2"].to_numpy() > 1 - 1e-12
    np.testing.assert_allclose(places[sure], np.tile([1, 0], (sure.sum(), 1)), atol=1e-9)
    assert {text.get_text() for text in axes.texts} == {"fate 1", "fate 2", "fate 3"}


def test_over_time_cells_commit(cells):
    axes = sj.pl.fates(cells, kind="time", names=["fate 1", "fate 2"], show=False)
    assert len(axes.lines) == 2
    for line in axes.lines:
        height = line.get_ydata()
        assert height[-1] == 1 and height[0] < height[-1]


def test_predicted_against_clonal_fates(cells):
    axes = sj.pl.fates(cells, kind="clones", clone_key="clone", show=False)
    assert axes.get_ylabel() == "share among clonal sisters"
    top = [
        np.asarray(c.get_offsets())[-1] for c in axes.collections if len(c.get_offsets()) and c.get_label()[0] != "_"
    ]
    assert len(top) == 3 and all(y > 0.7 for _, y in top)
    with pytest.raises(ValueError, match="needs clone_key"):
        sj.pl.fates(cells, kind="clones", show=False)


def test_ancestry_has_a_panel_for_each_time(cells):
    with pytest.raises(KeyError, match=r"run sj\.tl\.ancestors or sj\.tl\.descendants first"):
        sj.pl.ancestry(cells, show=False)
    chosen = cells.obs["fate"] == "fate 1"
    sj.tl.ancestors(cells, chosen, time=2)
    assert len(sj.pl.ancestry(cells, show=False)) == 3
    sj.tl.descendants(cells, chosen, time=2)
    titles = [axes.get_title() for axes in sj.pl.ancestry(cells, show=False)]
    assert titles == [
        *("ancestors, day 0", "ancestors, day 1", "cells, day 2"),
        *("descendants, day 4", "descendants, day 7"),
    ]


def test_bars_of_a_sankey_are_shares_of_groups(cells):
    axes = sj.pl.sankey(cells, "fate", show=False)
    bars = [patch for patch in axes.patches if isinstance(patch, Rectangle)]
    last = sorted((bar for bar in bars if bar.get_x() > 3.5), key=lambda bar: bar.get_y())
    shares = cells.obs["fate"][cells.obs["day"] == 7].value_counts(normalize=True).sort_index()
    np.testing.assert_allclose([bar.get_height() for bar in last], shares, atol=1e-4)
    assert any(isinstance(patch, PathPatch) for patch in axes.patches)


def test_errors_name_what_is_missing(cells):
    with pytest.raises(ValueError, match="kind='pie' is not an option"):
        sj.pl.fates(cells, kind="pie")
    with pytest.raises(ValueError, match="names='fate 9' is not an option"):
        sj.pl.fates(cells, names=["fate 9"])
    with pytest.raises(KeyError, match="No cluster_key='type'"):
        sj.pl.sankey(cells, "type")
    with pytest.raises(TypeError, match="takes no 'fgsize'"):
        sj.pl.fates(cells, fgsize=(3, 3))
    del cells.obsm["jko_fates"]
    with pytest.raises(KeyError, match=r"run sj\.tl\.fates"):
        sj.pl.fates(cells)
