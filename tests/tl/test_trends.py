"""Trends of genes along trajectories, and the plots of genes."""

from __future__ import annotations

import anndata as ad
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from helpers import assert_same, simulate

import scjko as sj


@pytest.fixture(scope="module")
def _driven():
    adata = simulate(500, n_genes=100, n_drivers=4, random_state=10)
    options = {"parametrization": sj.Linear(degree=2, n_centers=0, ridge=0.1), "progress": False}
    sj.tl.fit_energy(adata, "day", 4, **options)
    sj.tl.fates(adata, "fate")
    sj.tl.drivers(adata, n_exchanges=10, factors=["gene 0", "gene 99"])
    sj.tl.trends(adata, ["gene 0", "gene 4", "gene 50"])
    return adata


@pytest.fixture
def driven(_driven):
    yield _driven.copy()
    plt.close("all")


def test_drivers_rise_on_the_trajectory_to_their_fate(driven, tmp_path):
    table = driven.uns["jko_trends"]
    assert (table.groupby(["gene", "fate"], observed=True).size() == 50).all()
    ends = table.groupby(["gene", "fate"], observed=True)["mean"].agg(["first", "last"])
    rise = ends["last"] - ends["first"]
    assert rise["gene 0", "fate 1"] > 0.5 > rise["gene 0", "fate 2"]
    print(rise)
    assert rise["gene 4", "fate 2"] > 0.5 and abs(rise["gene 50", "fate 1"]) < 0.5
    assert (table["low"] <= table["mean"]).all() and (table["n_effective"] > 1).all()
    driven.write_h5ad(tmp_path / "cells.h5ad")
    pd.testing.assert_frame_equal(ad.read_h5ad(tmp_path / "cells.h5ad").uns["jko_trends"], table, check_dtype=False)


def test_other_pseudo_times_and_no_fates(driven):
    driven.obs["pseudotime"] = driven.obsm["X_latent"][:, 0]
    one = sj.tl.trends(driven, "gene 0", fates="fate 1", along="pseudotime", n_points=7)
    assert one["at"].between(*driven.obs["pseudotime"].quantile([0, 1])).all() and len(one) == 7
    whole = sj.tl.trends(driven, ["gene 50"], fates=[], along="day")
    assert set(whole["fate"]) == {"all"}
    np.testing.assert_allclose(whole["mean"].mean(), driven[:, "gene 50"].X.toarray().mean(), atol=0.2)


@pytest.mark.parametrize(
    ("genes", "options", "error", "words"),
    [
        (["GENE 1"], {}, KeyError, "did you mean 'gene 1'"),
        ([], {}, KeyError, "none at all"),
        (["gene 1"], {"fates": ["fate 9"]}, KeyError, "none of 'fate 1'"),
        (["gene 1"], {"along": "dpt"}, KeyError, "No along='dpt'"),
        (["gene 1"], {"along": "fate"}, ValueError, "a pseudo-time is a number"),
        (["gene 1"], {"along": "broken"}, ValueError, "NaN or infinite"),
        (["gene 1"], {"along": "flat"}, ValueError, "all are at one point of 'flat'"),
        (["gene 1"], {"n_knots": 2}, ValueError, "n_knots=2"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(driven, genes, options, error, words):
    driven.obs["broken"], driven.obs["flat"] = np.nan, 1.0
    before = driven.copy()
    with pytest.raises(error, match=words):
        sj.tl.trends(driven, genes, **options)
    assert_same(driven, before)


def test_plots_draw_what_the_tables_have(driven):
    drawn = sj.pl.drivers(driven, n_genes=3, show=False)
    assert [axes.get_title() for axes in drawn] == ["fate 1", "fate 2", "fate 3"]
    names = [label.get_text() for label in drawn[0].get_yticklabels()]
    assert len(names) == 6 and set(names[3:]) < {f"gene {g}" for g in range(4)}
    top = driven.uns["jko_drivers"].query("of == 'fate 1' and effect > 0").head(3).sort_values("effect")
    np.testing.assert_allclose(drawn[0].collections[-1].get_offsets()[3:, 0], top["effect"])
    few = sj.pl.drivers(driven, "fate 2", kind="volcano", factors_only=True, show=False)
    assert len(few.collections[0].get_offsets()) == 2
    lines = sj.pl.trends(driven, ["gene 4"], show=False, linewidth=3)
    assert [line.get_label() for line in lines.lines] == ["fate 1", "fate 2", "fate 3"]
    assert lines.lines[0].get_linewidth() == 3
    heat = sj.pl.trends(driven, fates=["fate 2", "fate 1"], kind="heatmap", show=False)
    values = [axes.images[0].get_array() for axes in heat]
    assert min(v.min() for v in values) == 0 and max(v.max() for v in values) == 1
    assert sorted(label.get_text() for label in heat[0].get_yticklabels()) == ["gene 0", "gene 4", "gene 50"]


def test_plots_say_what_is_missing(driven):
    with pytest.raises(ValueError, match="of='fate 9'"):
        sj.pl.drivers(driven, "fate 9")
    with pytest.raises(ValueError, match="genes='gene 7'"):
        sj.pl.trends(driven, "gene 7")
    driven.uns["jko_drivers"] = driven.uns["jko_drivers"].drop(columns="factor")
    with pytest.raises(ValueError, match="factors='mouse'"):
        sj.pl.drivers(driven, factors_only=True)
    del driven.uns["jko_drivers"], driven.uns["jko_trends"]
    with pytest.raises(KeyError, match=r"run sj\.tl\.drivers"):
        sj.pl.drivers(driven)
    with pytest.raises(KeyError, match=r"run sj\.tl\.trends"):
        sj.pl.trends(driven)
