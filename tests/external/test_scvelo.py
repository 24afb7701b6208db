"""The real scVelo on our velocities. ``make test-interop`` installs it."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
import scanpy as sc

import scjko as sj

scv = pytest.importorskip("scvelo", reason="scVelo is not installed; make test-interop has it")
pytestmark = pytest.mark.filterwarnings("default")  # warnings of scVelo are its own


def test_the_stream_is_drawn_as_it_is(fitted):
    sc.pp.neighbors(fitted, use_rep="X_jko")
    fitted.obsm["X_umap"] = fitted.obsm["X_jko"].copy()
    sj.tl.velocity_embedding(fitted, basis="umap")
    arrows = fitted.obsm["jko_velocity_umap"].copy()
    axes = scv.pl.velocity_embedding_stream(fitted, basis="umap", vkey="jko_velocity", show=False)
    # Streamlines and their arrowheads lie over the cells.
    assert any(len(drawn.get_paths()) > 20 for drawn in axes.collections)
    np.testing.assert_array_equal(fitted.obsm["jko_velocity_umap"], arrows)
    plt.close("all")
