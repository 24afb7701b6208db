"""Networks in many dimensions, which have sums beside their layers: trained, stored and read again."""

from __future__ import annotations

import copy

import anndata
import numpy as np
import pandas as pd
import pytest

import scjko as sj
from scjko.core.fitting.descent import ENOUGH_ROWS, MANY_DIMS, network

SUMS = {f"{kind}_{part}" for kind in ("unit", "ridge") for part in ("slope", "shift", "height")}


def shifted(n_dims, n_cells=450):
    """Three snapshots of a Gaussian that moves."""
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(n_cells, n_dims)) + k for k in range(3)]
    obs = pd.DataFrame({"day": np.repeat([0.0, 1.0, 2.0], n_cells)}, index=np.arange(3 * n_cells).astype(str))
    return anndata.AnnData(obs=obs, obsm={"X_pca": np.concatenate(x)})


@pytest.fixture(scope="module")
def fitted():
    adata = shifted(MANY_DIMS)
    for key, kind in (("jko", sj.Neural(epochs=2)), ("mean", sj.Stacked(share=0.5, network=sj.Neural(epochs=2)))):
        sj.tl.fit_energy(adata, "day", parametrization=kind, key_added=key, progress=False)
    return adata


@pytest.mark.parametrize("key", ["jko", "mean"])
def test_sums_are_stored_and_give_the_same_after_reading(fitted, key, tmp_path):
    stored = fitted.uns[key]["weights"]["potential"]
    assert set(stored if key == "jko" else stored["part0"]) >= SUMS
    fitted.write_h5ad(tmp_path / "fit.h5ad")
    energy, again = (sj.get.energy(a, key) for a in (fitted, anndata.read_h5ad(tmp_path / "fit.h5ad")))
    x = fitted.obsm["X_pca"][:20]
    np.testing.assert_array_equal(again.gradient(x, 0.5), energy.gradient(x, 0.5))
    assert np.isfinite(energy.gradient(x, 0.5)).all()


def test_networks_without_sums_open_and_give_the_perceptron(fitted):
    """As files have it that were written before there were sums: what is left is the perceptron."""
    adata = fitted.copy()
    adata.uns["jko"] = copy.deepcopy(dict(adata.uns["jko"]))
    weights = adata.uns["jko"]["weights"]["potential"]
    for kind in ("unit", "ridge"):
        weights[f"{kind}_height"] = np.zeros_like(weights[f"{kind}_height"])
    x, expected = adata.obsm["X_pca"][:20], sj.get.energy(adata)
    for name in SUMS:
        del weights[name]
    np.testing.assert_allclose(sj.get.energy(adata).gradient(x, 0.5), expected.gradient(x, 0.5), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("unit_slope", None, "weights/potential lacks unit_slope"),
        ("ridge_height", None, "weights/potential lacks ridge_height"),
        ("unit_shift", lambda w: w[:, 1:], "unit_shift has the shape"),
        ("ridge_slope", lambda w: w[1:], "ridge_slope has the shape"),
        ("ridge_shift", lambda w: w * np.nan, "ridge_shift holds NaN"),
    ],
)
def test_damaged_sums_are_refused(fitted, name, change, said):
    adata = fitted.copy()
    adata.uns["jko"] = copy.deepcopy(dict(adata.uns["jko"]))
    weights = adata.uns["jko"]["weights"]["potential"]
    if change is None:
        del weights[name]
    else:
        weights[name] = change(weights[name])
    with pytest.raises(ValueError, match=said):
        sj.get.energy(adata)


def test_few_dimensions_and_few_cells_have_a_perceptron_alone():
    """Fits in few dimensions stay as they were, and so does the embryoid subset, which the sums made worse."""
    enough = ENOUGH_ROWS * MANY_DIMS
    sizes = [(enough, MANY_DIMS), (enough - 1, MANY_DIMS), (10**6, MANY_DIMS - 1)]
    assert [network(sj.Neural(), *size).n_units > 0 for size in sizes] == [True, False, False]
