"""Back to genes: exactly the linear map of the PCA."""

from __future__ import annotations

import logging

import anndata
import numpy as np
import pytest
import scanpy as sc
from helpers import assert_same, simulate
from scipy import sparse

import scjko as sj

QUICK = {"parametrization": sj.Neural(epochs=2), "progress": False}


@pytest.fixture(scope="module")
def _in_pcs():
    adata = simulate()
    sj.tl.fit_energy(adata, "day", 5, **QUICK)
    return adata


@pytest.fixture
def in_pcs(_in_pcs):
    return _in_pcs.copy()


def the_map(adata, z, d=5):
    """z Pᵀ + m, from the definition of the PCA."""
    mean = np.asarray(adata.X.mean(axis=0)).ravel().astype(np.float64)
    return z @ adata.varm["PCs"][:, :d].T.astype(np.float64) + mean


def test_layers_are_the_linear_map_of_velocity_and_prediction(in_pcs):
    assert sj.tl.project_genes(in_pcs) is None
    v, y = in_pcs.obsm["jko_velocity"].astype(np.float64), in_pcs.obsm["jko_predicted"].astype(np.float64)
    # Layers are float32, as the velocities are.
    velocity = v @ in_pcs.varm["PCs"][:, :5].T.astype(np.float64)
    np.testing.assert_allclose(in_pcs.layers["jko_velocity"], velocity, atol=1e-6 * np.abs(velocity).max())
    predicted = the_map(in_pcs, y)
    np.testing.assert_allclose(in_pcs.layers["jko_predicted"], predicted, atol=1e-5 * np.abs(predicted).max())


def test_with_all_components_the_way_to_components_and_back_is_the_identity():
    """The centre is the one scanpy took away: cells come back to their own expression."""
    adata = simulate(60, n_genes=12)
    sc.pp.pca(adata, n_comps=11)
    sj.tl.fit_energy(adata, "day", **QUICK)
    adata.obsm["jko_predicted"] = adata.obsm["X_jko"].copy()
    frame = sj.tl.project_genes(adata, as_frame=True)["predicted"]
    expected = np.asarray(adata.X.todense())
    off = np.abs(frame.to_numpy() - expected)
    # One component of twelve is missing: what is left out is its share, not a shift of the centre.
    lost = expected - expected.mean(axis=0) - adata.obsm["X_pca"] @ adata.varm["PCs"].T
    np.testing.assert_allclose(off, np.abs(lost), atol=1e-5)


def test_chosen_genes_come_as_a_frame_or_as_layers_that_are_empty_elsewhere(in_pcs):
    genes = ["gene 7", "gene 3"]
    before = in_pcs.copy()
    frame = sj.tl.project_genes(in_pcs, genes, as_frame=True)
    assert_same(in_pcs, before)
    assert list(frame.columns) == [("velocity", g) for g in genes] + [("predicted", g) for g in genes]
    assert list(frame.index) == list(in_pcs.obs_names)
    made = sj.tl.project_genes(in_pcs, genes, copy=True)
    layer = made[:, genes].layers["jko_predicted"]
    np.testing.assert_allclose(layer, frame["predicted"].to_numpy(), rtol=1e-6)
    assert np.isnan(made.layers["jko_velocity"]).sum() == made.n_obs * (made.n_vars - 2)


@pytest.mark.parametrize("whiten", [False, True])
def test_whitening_is_undone(in_pcs, whiten):
    sj.tl.fit_energy(in_pcs, "day", 5, whiten=whiten, **QUICK)
    in_pcs.obsm["jko_predicted"] = in_pcs.obsm["X_jko"].copy()  # cells that stay where they are
    predicted = sj.tl.project_genes(in_pcs, as_frame=True)["predicted"].to_numpy()
    expected = the_map(in_pcs, in_pcs.obsm["X_pca"][:, :5].astype(np.float64))
    np.testing.assert_allclose(predicted, expected, atol=1e-4)  # whitened coordinates are float32


def test_cells_removed_since_the_pca_shift_the_centre_less_than_their_mean_and_it_is_said(in_pcs, caplog):
    whole = sj.tl.project_genes(in_pcs, as_frame=True)["predicted"]
    assert not caplog.text
    fewer = in_pcs[in_pcs.obs["day"] > 0].copy()
    part = sj.tl.project_genes(fewer, as_frame=True)["predicted"]
    assert "not all the cells that the PCA was computed from" in caplog.text
    shift = np.abs(part - whole.loc[part.index]).to_numpy().max()
    plain = np.abs(fewer.X.mean(axis=0) - in_pcs.X.mean(axis=0)).max()
    assert shift < 0.6 * plain  # measured 0.4: components beyond the five are not known


def test_genes_without_a_part_in_the_pca_have_no_velocity(caplog):
    adata = simulate()
    adata.var["chosen"] = np.arange(adata.n_vars) < 400
    sc.pp.pca(adata, n_comps=5, mask_var="chosen")
    sj.tl.fit_energy(adata, "day", **QUICK)
    with caplog.at_level(logging.INFO, logger="scjko"):
        sj.tl.project_genes(adata)
    assert "100 of 500 genes had no part in the PCA" in caplog.text
    assert not adata.layers["jko_velocity"][:, 400:].any() and adata.layers["jko_velocity"][:, :400].any()
    mean = np.asarray(adata.X.mean(axis=0)).ravel()[400:]
    np.testing.assert_allclose(adata.layers["jko_predicted"][:, 400:], np.tile(mean, (adata.n_obs, 1)), atol=1e-5)


def test_an_uncentred_pca_has_no_centre():
    adata = simulate()
    sc.pp.pca(adata, n_comps=5, zero_center=False)
    sj.tl.fit_energy(adata, "day", **QUICK)
    predicted = sj.tl.project_genes(adata, as_frame=True)["predicted"].to_numpy()
    expected = adata.obsm["jko_predicted"] @ adata.varm["PCs"].T
    np.testing.assert_allclose(predicted, expected, atol=1e-4)


def test_expression_that_the_pca_did_not_see_is_said(in_pcs, caplog):
    in_pcs.X = in_pcs.layers["counts"]
    sj.tl.project_genes(in_pcs, ["gene 1"], as_frame=True)
    assert "adata.X is not what the PCA was computed from" in caplog.text


def test_what_cannot_be_projected_is_named(in_pcs, fitted, adata):
    before = in_pcs.copy()
    with pytest.raises(KeyError, match=r"run sj\.tl\.fit_energy"):
        sj.tl.project_genes(adata)
    with pytest.raises(KeyError, match="Not in adata.var_names: 'Gata1'"):
        sj.tl.project_genes(in_pcs, ["gene 1", "Gata1"])
    with pytest.raises(KeyError, match="none at all"):
        sj.tl.project_genes(in_pcs, [])
    with pytest.raises(KeyError, match="No loadings='mine' in adata.varm, which has 'PCs'"):
        sj.tl.project_genes(in_pcs, loadings="mine")
    with pytest.raises(ValueError, match="no linear map"):
        sj.tl.project_genes(fitted)  # fitted to X_latent
    assert_same(in_pcs, before)
    in_pcs.varm["few"] = in_pcs.varm["PCs"][:, :3]
    with pytest.raises(ValueError, match="has 3 components, fewer than the 5"):
        sj.tl.project_genes(in_pcs, loadings="few")
    in_pcs.var_names = ["same"] * in_pcs.n_vars
    with pytest.raises(ValueError, match="unique var_names"):
        sj.tl.project_genes(in_pcs, ["same"])


def test_loadings_of_another_linear_representation_serve_as_they_are(in_pcs, rng):
    in_pcs.obsm["X_factors"] = rng.normal(size=(in_pcs.n_obs, 3)).astype(np.float32)
    in_pcs.varm["factors"] = rng.normal(size=(in_pcs.n_vars, 3))
    sj.tl.fit_energy(in_pcs, "day", use_rep="X_factors", **QUICK)
    frame = sj.tl.project_genes(in_pcs, loadings="factors", as_frame=True)
    expected = in_pcs.obsm["jko_predicted"] @ in_pcs.varm["factors"].T
    np.testing.assert_allclose(frame["predicted"], expected, atol=1e-4)


def test_dense_expression_serves_too(in_pcs):
    expected = sj.tl.project_genes(in_pcs, as_frame=True)
    assert sparse.issparse(in_pcs.X)
    in_pcs.X = in_pcs.X.toarray()
    np.testing.assert_allclose(sj.tl.project_genes(in_pcs, as_frame=True), expected, atol=1e-5)


@pytest.mark.parametrize("dense", [False, True])
def test_a_file_that_is_not_in_memory_serves_too(in_pcs, tmp_path, dense):
    if dense:
        in_pcs.X = in_pcs.X.toarray()
    expected = sj.tl.project_genes(in_pcs, ["gene 1"], as_frame=True)
    in_pcs.write_h5ad(tmp_path / "fit.h5ad")
    backed = anndata.read_h5ad(tmp_path / "fit.h5ad", backed="r")
    found = sj.tl.project_genes(backed, ["gene 1"], as_frame=True)
    backed.file.close()
    np.testing.assert_allclose(found, expected, rtol=1e-6)
