"""Predicted and interpolated cells with the labels and, through the loadings, the genes of their source cells."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import simulate

import scjko as sj

LINEAR = {"parametrization": sj.Linear(degree=2, n_centers=0, ridge=0.1), "progress": False}


@pytest.fixture(scope="module", params=[False, True], ids=["", "white"])
def in_pcs(request):
    adata = simulate(300, n_genes=60)
    sj.tl.fit_energy(adata, "day", 5, whiten=request.param, **LINEAR)
    return adata


def mapped(adata, z):
    """z Pᵀ + m, the whitening undone."""
    whitening = adata.uns["jko"].get("whitening")
    z = z if whitening is None else z * whitening["std"] + whitening["mean"]
    mean = np.asarray(adata.X.mean(axis=0)).ravel().astype(float)
    return z @ adata.varm["PCs"][:, :5].T.astype(float) + mean


@pytest.mark.parametrize("tool", [sj.tl.predict, sj.tl.interpolate])
def test_cells_come_with_genes_and_labels(in_pcs, tool):
    made = tool(in_pcs, 3)
    assert list(made.var_names) == list(in_pcs.var_names) and made.X.dtype == np.float32
    expected = mapped(in_pcs, made.obsm["X_jko"])
    np.testing.assert_allclose(made.X, expected, atol=1e-4 * np.abs(expected).max())
    source = in_pcs.obs.loc[made.obs["jko_source"]]
    assert (made.obs["fate"].to_numpy() == source["fate"].to_numpy()).all()
    assert made.obs["fate"].dtype == in_pcs.obs["fate"].dtype and (made.obs["day"] == 3).all()
    assert "jko_potential" not in made.obs
    # They are cells of the fit: their velocity in genes, and the energy.
    frame = sj.tl.project_genes(made, ["gene 3"], as_frame=True)
    np.testing.assert_allclose(frame["predicted", "gene 3"], made[:, "gene 3"].X.ravel(), atol=1e-4)
    velocity = sj.get.energy(made).velocity(made.obsm["X_jko"], 3)
    std = in_pcs.uns["jko"].get("whitening", {"std": 1.0})["std"]
    loading = in_pcs.varm["PCs"][3, :5].astype(float)
    np.testing.assert_allclose(frame["velocity", "gene 3"], (velocity * std) @ loading, atol=1e-4)


def test_genes_can_be_left_out_or_insisted_on(in_pcs, tmp_path):
    assert sj.tl.predict(in_pcs, 3, genes=False).n_vars == 0
    sj.tl.predict(in_pcs, 3).write_h5ad(tmp_path / "predicted.h5ad")
    other = in_pcs.copy()
    del other.varm["PCs"]
    assert sj.tl.interpolate(other, 3).n_vars == 0
    with pytest.raises(KeyError, match="No loadings='PCs'"):
        sj.tl.predict(other, 3, genes=True)
    with pytest.raises(TypeError, match="genes must be True or False"):
        sj.tl.predict(in_pcs, 3, genes="all")
