"""A cheap fit for pictures, the same on every machine."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData

import scjko as sj


@pytest.fixture(scope="session")
def _drawable() -> AnnData:
    adata = sj.datasets.simulated(400)
    linear = sj.Linear(degree=3, n_centers=0)
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=linear, coupling="exact", progress=False)
    sj.tl.landscape(adata, [4, 7], cluster_key="fate", paths=False)
    adata.obsm["X_umap"] = adata.obsm["X_latent"] * (2, -3) + 1
    # Ten groups, three of which have cells at the last time point only, and one that has none at all.
    order = np.argsort(np.argsort(np.arctan2(*adata.obsm["X_latent"].T)))
    late = adata.obs["day"].to_numpy() == 7
    number = 6 * order // len(order) + 4 * late
    names = [f"type {k}" for k in range(11)]
    adata.obs["type"] = pd.Categorical.from_codes(number.tolist(), names)
    return adata


@pytest.fixture
def drawable(_drawable: AnnData) -> AnnData:
    """Simulated cells with a linear fit, its landscape, ten groups and an embedding."""
    return _drawable.copy()
