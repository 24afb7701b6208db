from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..edge.checks import check_bool, check_list, check_name
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.keys import PCA
from ..edge.logging import logger
from ..edge.snapshots import representation
from ..edge.storage.fields import whitening_from_uns, write_fields


def project_genes(
    adata: AnnData,
    genes: Iterable[str] | None = None,
    *,
    loadings: str = "PCs",
    as_frame: bool = False,
    key: str = "jko",
    copy: bool = False,
) -> AnnData | pd.DataFrame | None:
    """Velocity and predicted state of each cell in genes, through the loadings of the principal components.

    This is the exact linear map back from the fitted components. With loadings P (genes by components) and the mean m
    of the genes that the PCA subtracted, a velocity v becomes v Pᵀ, and a position z becomes z Pᵀ + m. Components
    beyond the fitted ones are left out. The mean must be that of the cells in the PCA. If some were dropped, it is
    estimated from the others, with a warning.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy` to components of :func:`scanpy.pp.pca`, and ``X`` as it
        was for the PCA.
    genes
        Names of the genes, all by default.
    loadings
        Key in ``adata.varm`` of the loadings.
    as_frame
        Whether to return a frame instead of writing layers. Layers are dense: for many cells and few genes a frame is
        smaller.
    key
        The ``key_added`` of the fit.
    copy
        Whether to return a copy instead of writing into ``adata``.

    Returns
    -------
    With ``as_frame=True`` a frame of the cells, with columns ``("velocity", gene)`` and ``("predicted", gene)``.
    Otherwise ``None``, or with ``copy=True`` the AnnData, with these fields (for ``key="jko"``), NaN for genes that
    were not requested:

    ``layers["jko_velocity"]``
        The velocity of each gene, in units of ``X`` per unit of time. Genes that had no part in the PCA have none.
    ``layers["jko_predicted"]``
        The state of each cell at the next snapshot, in units of ``X``. Genes that had no part in the PCA have their
        mean.

    Examples
    --------
    >>> import scanpy as sc
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sc.pp.normalize_total(adata); sc.pp.log1p(adata); sc.pp.pca(adata)
    >>> sj.tl.fit_energy(adata, "day", n_pcs=5, parametrization=sj.Neural(epochs=20), progress=False)
    >>> frame = sj.tl.project_genes(adata, ["gene 1", "gene 2"], as_frame=True)
    >>> frame["velocity"].shape
    (300, 2)
    """
    cells = fitted_cells(adata, key)
    check_bool("as_frame", as_frame)
    check_bool("copy", copy)
    columns = _columns(adata, genes)
    weights = _loadings(cells, loadings)
    mean = _mean(cells, weights)[columns]
    weights = weights[columns]
    silent = int(np.sum(~weights.any(axis=1)))
    if silent:
        logger.info("%d of %d genes had no part in the PCA: their velocity is 0.", silent, len(columns))
    whitening = whitening_from_uns(cells.stored)
    scale, origin = (1.0, 0.0) if whitening is None else (whitening.std, whitening.mean)
    velocity, predicted = (representation(adata, name, None)[1] for name in (cells.keys.velocity, cells.keys.predicted))
    found = {
        "velocity": (velocity * scale) @ weights.T,
        "predicted": (predicted * scale + origin) @ weights.T + mean,
    }
    if as_frame:
        frames = {name: pd.DataFrame(v, adata.obs_names, adata.var_names[columns]) for name, v in found.items()}
        return pd.concat(frames, axis=1)
    if copy:
        adata = adata.copy()

    def layer(values: NDArray[np.float64]) -> NDArray[np.floating]:
        spread = np.full(adata.shape, np.nan, dtype=velocity.dtype)
        spread[:, columns] = values
        return spread

    names = {"velocity": cells.keys.velocity, "predicted": cells.keys.predicted}
    write_fields(adata, layers={names[what]: layer(values) for what, values in found.items()})
    return adata if copy else None


def _columns(adata: AnnData, genes: Iterable[str] | None) -> NDArray[np.int64]:
    """Where the genes stand in ``adata``."""
    if genes is None:
        return np.arange(adata.n_vars)
    if not adata.var_names.is_unique:
        raise ValueError("Genes by name need unique var_names; run adata.var_names_make_unique().")
    wanted = [genes] if isinstance(genes, str) else list(check_list("genes", genes))
    unknown = [gene for gene in wanted if gene not in adata.var_names]
    if unknown or not wanted:
        named = ", ".join(map(repr, unknown[:5])) if unknown else "none at all"
        raise KeyError(f"Not in adata.var_names: {named}; genes must be names of these.")
    return adata.var_names.get_indexer(wanted)


def _loadings(cells: FittedCells, name: str) -> NDArray[np.float64]:
    """The loadings of the fitted components (genes, d)."""
    check_name("loadings", name)
    rep, n_dims, varm = str(cells.params["use_rep"]), cells.coordinates.shape[1], cells.adata.varm
    if name not in varm:
        there = ", ".join(map(repr, varm)) or "nothing"
        raise KeyError(f"No loadings={name!r} in adata.varm, which has {there}; sc.pp.pca writes 'PCs'.")
    if name == "PCs" and rep not in PCA:
        raise ValueError(
            f"The energy was fitted to obsm[{rep!r}], and varm['PCs'] are loadings of the PCA: there is no linear map "
            "from that representation to genes. Fit to the PCA, or name the loadings that belong to it."
        )
    weights = np.asarray(varm[name], dtype=np.float64)
    if weights.shape[1] < n_dims:
        raise ValueError(f"varm[{name!r}] has {weights.shape[1]} components, fewer than the {n_dims} that were fitted.")
    return weights[:, :n_dims]


def _mean(cells: FittedCells, weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of all genes that the PCA subtracted, or zero.

    Of the cells at hand, less what their own components say of it: cells may have been removed since the PCA.
    """
    adata, rep = cells.adata, str(cells.params["use_rep"])
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
    return mean
