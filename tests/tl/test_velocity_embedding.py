"""Velocities on embeddings."""

from __future__ import annotations

import numpy as np
import pytest
import scanpy as sc
from scipy import sparse

import scjko as sj
from scjko.core.motion.embedding import project, smoothed


def test_projection_equals_its_formula(rng):
    x, velocity, embedding = rng.normal(size=(30, 4)), rng.normal(size=(30, 4)), rng.normal(size=(30, 2))
    dense = np.triu((rng.random((30, 30)) < 0.3) * rng.random((30, 30)), 1)
    dense += dense.T
    pairs = [(i, j) for i in range(30) for j in range(30) if dense[i, j]]
    cosine = {
        (i, j): (x[j] - x[i]) @ velocity[i] / np.linalg.norm(x[j] - x[i]) / np.linalg.norm(velocity[i])
        for i, j in pairs
    }
    unit = {(i, j): (embedding[j] - embedding[i]) / np.linalg.norm(embedding[j] - embedding[i]) for i, j in pairs}
    scale, speed = np.std(list(cosine.values())), np.linalg.norm(velocity, axis=1)
    apart = np.mean([np.linalg.norm(embedding[j] - embedding[i]) for i, j in pairs])
    expected = np.zeros((30, 2))
    for i in range(30):
        near = np.flatnonzero(dense[i])
        p = np.array([dense[i, j] * np.exp(cosine[i, j] / scale) for j in near])
        u = np.array([unit[i, j] for j in near])
        expected[i] = (p / p.sum() - dense[i, near] / dense[i, near].sum()) @ u * speed[i] / speed.mean() * apart
    np.testing.assert_allclose(project(velocity, x, embedding, sparse.csr_matrix(dense)), expected, atol=1e-12)


def test_cells_at_rest_or_without_neighbours_stay_where_they_are(rng):
    x = rng.normal(size=(10, 2))
    graph = np.ones((10, 10))
    graph[3], graph[:, 3] = 0, 0
    velocity = rng.normal(size=(10, 2))
    velocity[5] = 0
    moved = project(velocity, x, x, sparse.csr_matrix(graph))
    assert np.isfinite(moved).all() and not moved[3].any() and not moved[5].any()
    assert not project(np.zeros((10, 2)), x, x, sparse.csr_matrix((10, 10))).any()


def test_smoothing_keeps_constants_and_finds_values_at_points(rng):
    points = rng.normal(size=(200, 2))
    np.testing.assert_allclose(smoothed(rng.normal(size=(50, 2)), points, np.full((200, 1), 3.0)), 3.0)
    field = points @ np.array([[1.0], [-2.0]])
    near = smoothed(points, points, field)
    assert np.corrcoef(near[:, 0], field[:, 0])[0, 1] > 0.98
    assert np.isfinite(smoothed(points, np.zeros((5, 2)), np.ones((5, 1)))).all()


def test_on_an_embedding_that_is_the_fitted_plane_turned_arrows_point_the_turned_way(fitted):
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]])
    fitted.obsm["X_umap"] = 3 * fitted.obsm["X_jko"] @ turn + 5
    sc.pp.neighbors(fitted, use_rep="X_jko")
    assert sj.tl.velocity_embedding(fitted, basis="umap") is None
    moved, true = fitted.obsm["jko_velocity_umap"], fitted.obsm["jko_velocity"] @ turn
    cosine = np.sum(moved * true, axis=1) / np.linalg.norm(moved, axis=1) / np.linalg.norm(true, axis=1)
    assert np.median(cosine) > 0.9  # measured 0.97; thirty neighbours point in few directions


def test_a_copy_leaves_the_original_alone(fitted):
    sc.pp.neighbors(fitted, use_rep="X_jko", key_added="mine")
    made = sj.tl.velocity_embedding(fitted, basis="latent", neighbors_key="mine", copy=True)
    assert "jko_velocity_latent" in made.obsm and "jko_velocity_latent" not in fitted.obsm


def test_what_is_missing_is_named(fitted, adata):
    with pytest.raises(KeyError, match=r"run sj\.tl\.fit_energy"):
        sj.tl.velocity_embedding(adata)
    with pytest.raises(KeyError, match="No basis='umap'"):
        sj.tl.velocity_embedding(fitted)
    with pytest.raises(KeyError, match=r"run sc\.pp\.neighbors\(adata, use_rep='X_jko'\) first"):
        sj.tl.velocity_embedding(fitted, basis="latent")
    with pytest.raises(KeyError, match=r"key_added='mine'"):
        sj.tl.velocity_embedding(fitted, basis="latent", neighbors_key="mine")
