"""Perturbed genes: the shift that the loadings say, fates by the same chain, and a null that holds for inert genes."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same, simulate
from scipy import stats

import scjko as sj
from scjko.edge.drivers import stored_fates
from scjko.edge.fitted import fitted_cells
from scjko.edge.perturbation import ways

LINEAR = {"parametrization": sj.Linear(degree=2, n_centers=0, ridge=0.1), "progress": False}


@pytest.fixture(scope="module")
def _driven():
    adata = simulate(700, n_genes=200, n_drivers=5, random_state=10)
    sj.tl.fit_energy(adata, "day", 5, **LINEAR)
    sj.tl.fates(adata, "fate")
    return adata


@pytest.fixture
def driven(_driven):
    return _driven.copy()


def test_fates_at_cells_are_the_fates_of_cells_and_slopes_are_slopes(driven, rng):
    cells = fitted_cells(driven, "jko")
    stored = stored_fates(cells)
    for k, ahead in enumerate(ways(stored)):
        rows = cells.snapshots.rows_by_time[k]
        x = cells.coordinates[rows].astype(float)
        np.testing.assert_allclose(ahead.fates(x), stored.table.to_numpy()[rows], atol=1e-6)
        arrow = rng.normal(size=x.shape)
        h = 1e-5
        change = (ahead.fates(x + h * arrow) - ahead.fates(x - h * arrow)) / (2 * h)
        np.testing.assert_allclose(np.einsum("nqd,nd->nq", ahead.slopes(x), arrow), change, atol=1e-6)


def test_a_knock_out_is_the_shift_that_the_loadings_say(driven):
    table = sj.tl.perturb(driven, {"gene 0": 0.0, "gene 1": 0.5}, n_cells=5000).set_index("of")
    assert set(table["perturbation"]) == {"gene 0, gene 1 × 0.5"}
    cells = fitted_cells(driven, "jko")
    early = (driven.obs["day"] < 7).to_numpy()
    x = driven.X[:, :2].toarray().astype(float)
    change = np.column_stack([-x[:, 0], np.log1p(0.5 * np.expm1(x[:, 1])) - x[:, 1]])
    shift = change @ driven.varm["PCs"][:2, :5]
    energy, z = sj.get.energy(driven), driven.obsm["X_pca"][:, :5].astype(float)
    day = driven.obs["day"].to_numpy(dtype=float)[early]
    height = energy.potential((z + shift)[early], day) - energy.potential(z[early], day)
    np.testing.assert_allclose(table.loc["potential", "effect"], height.mean(), rtol=1e-5)
    np.testing.assert_allclose(table.loc["potential", "error"], height.std(ddof=1) / np.sqrt(early.sum()), rtol=1e-5)
    np.testing.assert_allclose(table["effect"].iloc[:3].sum(), 0, atol=1e-9)
    moved = []
    for k in range(4):
        rows = cells.snapshots.rows_by_time[k]
        t0, t1 = cells.snapshots.times[k : k + 2]
        moved.append(np.linalg.norm(energy.step((z + shift)[rows], t0, t1) - energy.step(z[rows], t0, t1), axis=1))
    np.testing.assert_allclose(table.loc["population", "effect"], np.concatenate(moved).mean(), rtol=1e-5)
    assert np.isnan(table.loc["population", "p"])


def test_knock_outs_lower_their_fate_as_in_the_simulation_without_them(driven):
    table = sj.tl.perturb(driven, population=False)
    assert table["perturbation"].nunique() == 200
    planted = driven.var["program"].astype(str).to_dict()
    fates = table[table["of"].str.startswith("fate")]
    program = fates["perturbation"].map(planted)
    own, inert = program == fates["of"], program == "none"
    assert (fates["effect"][own] < 0).all()
    assert (fates["q"][inert] < 0.05).mean() < 0.05
    assert (fates["q"][own] < 0.05).mean() > 0.5
    # The truth: shares of fates at the last day, with the same noise and without the gene.
    after = driven.obs["day"] == 7
    shares = driven.obs["fate"][after].value_counts(normalize=True)
    true = []
    for gene in driven.var_names[:5]:
        other = sj.datasets.simulated(700, 200, n_drivers=5, knock_out=[gene], random_state=10).obs
        true.append(other["fate"][other["day"] == 7].value_counts(normalize=True) - shares)
    effects = fates.set_index(["perturbation", "of"])["effect"]
    predicted = [
        effects[gene, fate] for gene, change in zip(driven.var_names, true, strict=False) for fate in change.index
    ]
    assert stats.spearmanr(predicted, np.concatenate(true))[0] > 0.7


def test_pairs_add_to_more_and_lists_keep_their_order(driven):
    wanted = ["gene 0", {"gene 0": 0, "gene 1": 0}, ("gene 100", "gene 101"), {"gene 0": 2.0}]
    table = sj.tl.perturb(driven, wanted, population=False)
    effect = table[table["of"] == "fate 1"].set_index("perturbation")["effect"]
    assert list(effect.index) == ["gene 0", "gene 0, gene 1", "gene 100, gene 101", "gene 0 × 2"]
    assert effect["gene 0, gene 1"] < effect["gene 0"] < 0 < effect["gene 0 × 2"]
    assert driven.uns["jko_perturb"].shape == table.shape


def test_an_encoder_that_is_the_pca_gives_what_the_loadings_give(driven):
    mean = np.asarray(driven.X.mean(axis=0)).ravel()
    loadings = driven.varm["PCs"][:, :5].astype(float)
    one = sj.tl.perturb(driven, ["gene 0", "gene 100"], population=False)
    options = {"population": False, "n_random": 20}
    other = sj.tl.perturb(driven, ["gene 0", "gene 100"], encoder=lambda x: (x - mean) @ loadings, **options)
    np.testing.assert_allclose(other["effect"], one["effect"], atol=1e-9)
    with pytest.raises(ValueError, match="encoder gave an array of shape"):
        sj.tl.perturb(driven, "gene 0", encoder=lambda x: x[:3])
    with pytest.raises(TypeError, match="must be a function"):
        sj.tl.perturb(driven, "gene 0", encoder="scvi")


@pytest.mark.parametrize(
    ("genes", "error", "words"),
    [
        ({"Gene 0": 0.0}, KeyError, "did you mean 'gene 0'"),
        ({"Gata1": 0.0}, KeyError, "'Gata1'; genes are named as there"),
        ({"gene 0": -1}, ValueError, "must be a factor"),
        ({"gene 0": "off"}, ValueError, "must be a factor"),
        (["gene 0", "gene 0"], ValueError, "more than once"),
        ([], ValueError, "genes is empty"),
        (3, TypeError, "a mapping"),
    ],
)
def test_bad_genes_are_named_and_change_nothing(driven, genes, error, words):
    before = driven.copy()
    with pytest.raises(error, match=words):
        sj.tl.perturb(driven, genes)
    assert_same(driven, before)


def test_data_that_cannot_be_perturbed_are_named(driven):
    scaled = driven.copy()
    scaled.X = scaled.X.toarray() - 1
    with pytest.raises(ValueError, match="numbers below zero, as scaled"):
        sj.tl.perturb(scaled, "gene 0")
    silent = driven.copy()
    silent.varm["PCs"][3] = 0
    with pytest.raises(ValueError, match="'gene 3' had no part in the PCA"):
        sj.tl.perturb(silent, "gene 3")
    with pytest.raises(ValueError, match="no cells to perturb"):
        sj.tl.perturb(driven, "gene 0", cells=driven.obs["day"] == 7)
    sj.tl.fit_energy(driven, "day", use_rep="X_latent", **LINEAR)
    with pytest.raises(ValueError, match="not linear pass encoder="):
        sj.tl.perturb(driven, "gene 0")
