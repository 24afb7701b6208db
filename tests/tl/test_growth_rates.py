"""Growth rates from genes."""

from __future__ import annotations

import numpy as np
import pytest
import scanpy as sc
from anndata import AnnData
from helpers import assert_same

import scjko as sj
from scjko.edge.genes import APOPTOSIS, PROLIFERATION


@pytest.fixture
def cells(rng):
    """Cells of which the first half divides and the last quarter dies, by their genes."""
    up, down = PROLIFERATION["human"][:30], [g for g in APOPTOSIS["human"] if g not in PROLIFERATION["human"]][:30]
    names = [*up, *down, *(f"gene {k}" for k in range(300))]
    x = rng.gamma(2.0, 0.5, (80, len(names)))
    x[:40, :30] += 1.5
    x[60:, 30:60] += 1.5
    adata = AnnData(x.astype(np.float32))
    adata.var_names, adata.obs_names = names, [f"cell {i}" for i in range(80)]
    return adata


def test_rates_are_births_minus_deaths(cells):
    sj.tl.growth_rates(cells)
    rate = cells.obs["jko_growth_prior"]
    assert rate[:40].mean() > 1 and abs(rate[40:60].mean()) < 0.6 and rate[60:].mean() < -1
    scores = [cells.obs[f"jko_growth_prior_{name}"] for name in ("proliferation", "apoptosis")]
    expected = [
        0.3 + 1.4 / (1 + np.exp(-4 * (s - c) / w)) for s, c, w in zip(scores, (0.25, 0.1), (0.5, 0.2), strict=True)
    ]
    np.testing.assert_allclose(rate, expected[0] - expected[1])
    check = cells.copy()
    sc.tl.score_genes(check, PROLIFERATION["human"][:30], score_name="score", use_raw=False)
    np.testing.assert_allclose(check.obs["score"], scores[0])


def test_own_genes_hours_layers_and_copies(cells):
    cells.layers["other"] = cells.X.copy()
    own = {"proliferation": cells.var_names[:30], "apoptosis": cells.var_names[30:60]}
    made = sj.tl.growth_rates(cells, **own, day=24, layer="other", key_added="rate", copy=True)
    sj.tl.growth_rates(cells)
    assert "rate" not in cells.obs
    np.testing.assert_allclose(24 * made.obs["rate"], cells.obs["jko_growth_prior"])


def test_mouse_genes_are_known_by_their_spelling(cells):
    cells.var_names = [name.capitalize() for name in cells.var_names]
    before = cells.copy()
    with pytest.raises(ValueError, match="organism='mouse'"):
        sj.tl.growth_rates(cells)
    assert_same(before, cells)
    sj.tl.growth_rates(cells, organism="mouse")
    assert cells.obs["jko_growth_prior"][:40].mean() > 1


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"proliferation": ["MKI67", "A", "B"]}, ValueError, "0 of the 3 genes of proliferation"),
        ({"proliferation": "MKI67"}, TypeError, "proliferation must be a list"),
        ({"organism": "yeast"}, ValueError, "organism='yeast'"),
        ({"day": 0}, ValueError, "day=0"),
        ({"birth": (0.1,)}, ValueError, "a centre and a width"),
        ({"layer": "counts"}, KeyError, "No layer='counts'"),
    ],
)
def test_what_cannot_be_scored_is_said(cells, options, error, said):
    before = cells.copy()
    with pytest.raises(error, match=said):
        sj.tl.growth_rates(cells, **options)
    assert_same(before, cells)


def test_estimates_start_from_what_genes_suggest(caplog):
    adata = sj.datasets.simulated(400, 5, 2, growth=(0.3, -0.3))
    adata.obs["jko_growth_prior"] = adata.obs["true_growth"]
    options = {"use_rep": "X_latent", "parametrization": sj.Linear(n_centers=20), "progress": False}
    with caplog.at_level("INFO", "scjko"):
        sj.tl.fit_energy(adata, "day", growth="auto", **options)
    assert "around the rates expected in obs['jko_growth_prior']" in caplog.text
    assert np.corrcoef(adata.obs["jko_growth"], adata.obs["true_growth"])[0, 1] > 0.8
    assert {"mean", "sd", "prior_mean", "prior_sd"} <= set(adata.uns["jko"]["growth"])
    axes = sj.pl.growth(adata, show=False)
    assert axes.get_xlabel() == "growth rate in jko_growth_prior" and len(axes.get_legend().get_texts()) == 5
    assert len(sj.pl.growth(adata, "fate", show=False).get_legend().get_texts()) == 2


def test_a_fit_without_growth_has_no_picture_of_it(fitted):
    with pytest.raises(ValueError, match="has no growth; fit with growth='auto'"):
        sj.pl.growth(fitted)
