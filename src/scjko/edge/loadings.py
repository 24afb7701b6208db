"""From the fitted coordinates to genes and back, through the loadings of a linear representation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from .checks import check_name
from .fitted import FittedCells
from .keys import PCA
from .logging import logger
from .snapshots import representation
from .storage.fields import whitening_from_uns

Array = NDArray[np.float64]
#: The key in ``varm`` where scanpy writes the loadings of the PCA.
LOADINGS = "PCs"


@dataclass(frozen=True, eq=False)
class Linear:
    """The linear map from the fitted coordinates z to genes: (z · std + origin) Pᵀ + m."""

    weights: Array
    """P (genes, d)."""
    mean: Array
    """m (genes,)."""
    std: Array | float
    """What the coordinates were divided by, and …"""
    origin: Array | float
    """… what was subtracted before, if they were whitened."""

    def genes(self, z: NDArray[np.floating]) -> Array:
        """Positions in genes."""
        return np.asarray((z * self.std + self.origin) @ self.weights.T + self.mean)

    def change(self, v: NDArray[np.floating]) -> Array:
        """Velocities or differences in genes."""
        return np.asarray((v * self.std) @ self.weights.T)


def linear_map(cells: FittedCells, loadings: str = LOADINGS) -> Linear:
    """The map from the fitted coordinates to genes; an error says what is missing."""
    weights = loadings_of(cells, loadings)
    whitening = whitening_from_uns(cells.stored)
    std, origin = (1.0, 0.0) if whitening is None else (whitening.std, whitening.mean)
    return Linear(weights, gene_mean(cells, weights), std, origin)


def linear_inward(cells: FittedCells, loadings: str = LOADINGS) -> Array:
    """Where a unit more of each gene moves a cell, in fitted coordinates (genes, d)."""
    whitening = whitening_from_uns(cells.stored)
    return np.asarray(loadings_of(cells, loadings) / (1.0 if whitening is None else whitening.std))


def has_loadings(cells: FittedCells, loadings: str = LOADINGS) -> bool:
    """Whether a linear map to genes can be had."""
    adata, d = cells.adata, cells.coordinates.shape[1]
    linear = str(cells.params["use_rep"]) in PCA and loadings in adata.varm and adata.varm[loadings].shape[1] >= d
    return bool(linear and (adata.X is not None or cells.keys.gene_mean in adata.var))


def loadings_of(cells: FittedCells, name: str) -> Array:
    """The loadings of the fitted components (genes, d)."""
    check_name("loadings", name)
    rep, n_dims, varm = str(cells.params["use_rep"]), cells.coordinates.shape[1], cells.adata.varm
    if name not in varm:
        held = ", ".join(map(repr, varm)) or "nothing"
        raise KeyError(f"No loadings={name!r} in adata.varm, which has {held}; sc.pp.pca writes 'PCs'.")
    if name == LOADINGS and rep not in PCA:
        raise ValueError(
            f"The energy was fitted to obsm[{rep!r}], and varm['PCs'] are loadings of the PCA: there is no linear way "
            "from that representation to genes. Fit to the PCA, or name the loadings that belong to it."
        )
    weights = np.asarray(varm[name], dtype=np.float64)
    if weights.shape[1] < n_dims:
        raise ValueError(f"varm[{name!r}] has {weights.shape[1]} components, fewer than the {n_dims} that were fitted.")
    return weights[:, :n_dims]


def gene_mean(cells: FittedCells, weights: Array) -> Array:
    """The mean of all genes that the PCA subtracted, or zero.

    Of the cells at hand, less what their own components say of it: cells may have been removed since the PCA.
    """
    adata, rep, kept = cells.adata, str(cells.params["use_rep"]), cells.keys.gene_mean
    if kept in adata.var:  # predicted cells, which bring it along
        return adata.var[kept].to_numpy(dtype=np.float64)
    params: Mapping[str, Any] = adata.uns.get("pca", {}).get("params", {})
    if rep not in PCA or not params.get("zero_center", True):
        return np.zeros(adata.n_vars)
    layer = params.get("layer")
    expression = adata.X if layer is None else adata.layers[str(layer)]
    if expression is None:
        raise ValueError("adata.X is missing; without it the mean that the PCA subtracted is not known.")
    components = representation(adata, rep, weights.shape[1])[1].astype(np.float64)
    if adata.isbacked:  # in memory for the mean; a file has no such thing
        expression = expression[:]
    mean = np.asarray(expression.mean(axis=0), dtype=np.float64).ravel() - components.mean(axis=0) @ weights.T
    _warn_of_others(adata, layer, expression, mean, components, weights)
    return mean


def _warn_of_others(
    adata: AnnData, layer: Any, expression: Any, mean: Array, components: Array, weights: Array
) -> None:
    """Say if these are not the cells, or not the expression, that the PCA was computed from."""
    if np.abs(components.mean(axis=0)).max() > 1e-3 * np.abs(components).max():
        logger.warning(
            "These are not all the cells that the PCA was computed from. The mean that it subtracted is estimated from "
            "them, and predicted states of genes may be shifted; velocities are not. Project before subsetting."
        )
    some = np.linspace(0, adata.n_obs - 1, min(adata.n_obs, 50)).astype(int)
    again = (expression[some] - mean) @ weights
    if not np.allclose(again, components[some], atol=0.05 * np.abs(components[some]).max()):
        logger.warning(
            "adata.%s is not what the PCA was computed from; predicted states are in the units of the PCA, around the "
            "mean of %s as it is now.",
            *(("X", "X") if layer is None else (f"layers[{layer!r}]", "that layer")),
        )
