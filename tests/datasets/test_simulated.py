"""The simulated differentiation is the truth that other tests measure against; this is the truth about it."""

from __future__ import annotations

import numpy as np
import pytest
import scanpy as sc

import scjko as sj
from scjko.datasets._simulated import Landscape


@pytest.mark.parametrize("n_fates", [2, 3])
def test_velocity_is_minus_the_gradient_of_the_potential(rng, n_fates):
    landscape, x, h = Landscape.fan(n_fates), rng.normal(size=(50, 2)) * 3, 1e-5
    slope = np.stack(
        [(landscape.potential(x + h * e) - landscape.potential(x - h * e)) / (2 * h) for e in np.eye(2)], axis=1
    )
    np.testing.assert_allclose(landscape.velocity(x), -slope, atol=1e-8)


def test_the_wells_are_where_the_fates_are():
    landscape = Landscape.fan(3)
    np.testing.assert_array_equal(landscape.fate(landscape.fates), [0, 1, 2])
    assert landscape.potential(np.zeros((1, 2))) > landscape.potential(landscape.fates).max() + 1


def test_fields_are_what_the_docstring_lists(adata):
    assert {"day", "fate", "commitment", "true_potential"} <= set(adata.obs)
    assert adata.obsm["X_latent"].shape == adata.obsm["true_velocity"].shape == (400, 2)
    assert adata.layers["counts"].dtype == np.float32
    counts = adata.layers["counts"].toarray()
    assert (counts >= 0).all() and (counts == counts.round()).all()
    landscape = Landscape(adata.uns["landscape"]["fates"])
    np.testing.assert_allclose(adata.obs["true_potential"], landscape.potential(adata.obsm["X_latent"]))


def test_cells_start_together_roll_down_and_end_in_every_fate():
    adata = sj.datasets.simulated(1500)
    mean = adata.obs.groupby("day")["true_potential"].mean()
    assert (np.diff(mean) < 0).all()
    commitment = adata.obs.groupby("day")["commitment"].mean()
    assert commitment.iloc[0] < 0.6 and commitment.iloc[-1] > 0.95
    last = adata.obs[adata.obs["day"] == 7]
    assert (last["fate"].value_counts(normalize=True) > 0.15).all()


def test_times_and_sizes_are_unequal_and_sizes_add_up():
    adata = sj.datasets.simulated(777)
    sizes = adata.obs["day"].value_counts()
    assert adata.n_obs == 777 and sizes.nunique() > 2
    assert len(np.unique(np.diff(np.unique(adata.obs["day"])))) > 1


def test_counts_are_overdispersed(adata):
    counts = adata.layers["counts"].toarray()
    mean, variance = counts.mean(axis=0), counts.var(axis=0)
    assert np.median(variance / mean) > 1.2


def test_the_first_components_span_the_plane():
    adata = sj.datasets.simulated(1000)
    sc.pp.normalize_total(adata)
    sc.pp.log1p(adata)
    sc.pp.pca(adata, n_comps=2)
    latent = adata.obsm["X_latent"]
    design = np.column_stack([adata.obsm["X_pca"], np.ones(1000)])
    fitted = design @ np.linalg.lstsq(design, latent, rcond=None)[0]
    assert 1 - ((latent - fitted) ** 2).sum() / ((latent - latent.mean(axis=0)) ** 2).sum() > 0.9


def test_growth_changes_proportions_and_not_numbers():
    without, grown = sj.datasets.simulated(1500, 5, 2), sj.datasets.simulated(1500, 5, 2, growth=(0.3, -0.3))
    np.testing.assert_array_equal(without.obs["day"], grown.obs["day"])
    assert (without.obs["true_growth"] == 0).all()
    late = [data.obs[data.obs["day"] == 7] for data in (without, grown)]
    shares = [(obs["fate"] == "fate 1").mean() for obs in late]
    # Lineages that sit in their fates for five of the seven days differ by e^{0.6 · 5} and more.
    assert abs(shares[0] - 0.5) < 0.1 and shares[1] > 0.93
    committed = grown.obs[grown.obs["commitment"] > 0.99]
    rate = np.where(committed["fate"] == "fate 1", 0.3, -0.3)
    np.testing.assert_allclose(committed["true_growth"], rate, atol=0.01)
    np.testing.assert_array_equal(grown.uns["landscape"]["growth"], [0.3, -0.3])


def test_growth_that_is_the_same_for_all_fates_changes_nothing_but_the_draw():
    grown = sj.datasets.simulated(1500, 5, 2, growth=(0.5, 0.5))
    np.testing.assert_allclose(grown.obs["true_growth"], 0.5)
    late = grown.obs[grown.obs["day"] == 7]
    assert abs((late["fate"] == "fate 1").mean() - 0.5) < 0.1


def test_same_seed_same_cells():
    one, same, other = (sj.datasets.simulated(100, random_state=seed) for seed in (1, 1, 2))
    assert (one.X != same.X).nnz == 0
    assert (one.X != other.X).nnz > 0


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"n_fates": 5}, "n_fates=5"),
        ({"times": (0,)}, "increasing from 0"),
        ({"times": (0, 2, 1)}, "increasing from 0"),
        ({"n_cells": 3}, "n_cells=3"),
        ({"n_genes": 0}, "n_genes=0"),
        ({"growth": (0.1, 0.2)}, "a rate for each of the 3 fates"),
        ({"growth": (0.1, 0.2, np.nan)}, "a rate for each of the 3 fates"),
        ({"growth": (0.1, 0.2, 9)}, "from −2 to 2"),
    ],
)
def test_bad_sizes_are_named(options, said):
    with pytest.raises(ValueError) as error:
        sj.datasets.simulated(**options)
    assert said in str(error.value)


def test_tilted_wells_are_as_deep_as_they_should_be():
    tilted = sj.datasets.simulated(300, tilt=(0, 1.3, 0))
    depth = tilted.uns["landscape"]["depth"]
    np.testing.assert_allclose(depth[1] - depth[[0, 2]], 1.3, atol=0.02)
    landscape = Landscape.fan(3, tilt=np.array([0, 1.3, 0]))
    x = tilted.obsm["X_latent"][:50]
    for axis in range(2):
        step = 1e-5 * np.eye(2)[axis]
        slope = (landscape.potential(x + step) - landscape.potential(x - step)) / 2e-5
        np.testing.assert_allclose(landscape.velocity(x)[:, axis], -slope, atol=1e-6)


@pytest.mark.parametrize("tilt", [(1, 2), (0, -1, 0), (0, 11, 0), (0, float("nan"), 0)])
def test_a_tilt_that_is_none_is_named(tilt):
    with pytest.raises(ValueError, match="tilt="):
        sj.datasets.simulated(100, tilt=tilt)


def test_drivers_follow_their_fate_and_others_follow_nothing():
    adata = sj.datasets.simulated(800, 100, n_drivers=4)
    assert adata.var["program"].value_counts().to_dict() == {"none": 88, "fate 1": 4, "fate 2": 4, "fate 3": 4}
    np.testing.assert_allclose(adata.var.groupby("program", observed=True)["drive"].sum(), [1, 1, 1, 0])
    late = adata[adata.obs["day"] == 7]
    counts = late.layers["counts"].toarray()
    ratio = counts[late.obs["fate"] == "fate 2"].mean(axis=0) / counts[late.obs["fate"] != "fate 2"].mean(axis=0)
    # Inert genes differ by chance, and a little because sequencing depth is shared.
    assert (ratio[4:8] > 1.2).all() and abs(np.log(ratio[12:])).mean() < 0.2


def test_a_knock_out_draws_cells_away_by_the_share_of_the_gene():
    options = {"n_genes": 60, "n_drivers": 4, "random_state": 3}
    whole, weak, strong, inert = (
        sj.datasets.simulated(600, **options, knock_out=lost) for lost in ((), ["gene 3"], ["gene 0"], ["gene 50"])
    )
    shares = [(data.obs["fate"][data.obs["day"] == 7] == "fate 1").mean() for data in (whole, weak, strong)]
    assert shares[0] > shares[1] > shares[2]
    assert (strong[:, "gene 0"].X.toarray() == 0).all()
    np.testing.assert_array_equal(inert.obsm["X_latent"], whole.obsm["X_latent"])
    landscape = Landscape.fan(3, pull=np.array([-0.7, 0.0, 0.0]))
    x, h = whole.obsm["X_latent"][:50], 1e-5
    slope = [(landscape.potential(x + h * e) - landscape.potential(x - h * e)) / (2 * h) for e in np.eye(2)]
    np.testing.assert_allclose(landscape.velocity(x), -np.stack(slope, axis=1), atol=1e-6)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"knock_out": ["gene 0"]}, ValueError, "no effect without drivers"),
        ({"n_drivers": 200}, ValueError, "more than n_genes=500"),
        ({"n_drivers": 2, "knock_out": ["Gata1"]}, KeyError, "genes are called 'gene 0' to 'gene 499'"),
    ],
)
def test_drivers_that_cannot_be_are_named(options, kind, said):
    with pytest.raises(kind) as error:
        sj.datasets.simulated(100, **options)
    assert said in str(error.value)
