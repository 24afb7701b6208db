from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..edge.checks import check_bool
from ..edge.expression import genes_at
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.loadings import linear_map
from ..edge.logging import logger
from ..edge.snapshots import representation
from ..edge.storage.fields import write_fields


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
        was for the PCA; or cells with genes from :func:`scjko.tl.predict` or :func:`scjko.tl.interpolate`.
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
        The state of each cell at the next snapshot, in units of ``X``; of cells that are predictions themselves, their
        own state. Genes that had no part in the PCA have their mean.

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
    if genes is not None and not adata.var_names.is_unique:
        raise ValueError("Genes by name need unique var_names; run adata.var_names_make_unique().")
    columns = genes_at(adata.var_names, genes)
    whole = linear_map(cells, loadings)
    linear = replace(whole, weights=whole.weights[columns], mean=whole.mean[columns])
    silent = int(np.sum(~linear.weights.any(axis=1)))
    if silent:
        logger.info("%d of %d genes had no part in the PCA: their velocity is 0.", silent, len(columns))
    velocity, predicted = _motion(cells)
    found = {"velocity": linear.change(velocity), "predicted": linear.genes(predicted)}
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


def _motion(cells: FittedCells) -> tuple[NDArray[np.floating], NDArray[np.floating]]:
    """The velocity and the prediction of each cell; predicted cells have none written, and are where they are."""
    adata, keys = cells.adata, cells.keys
    if keys.source in adata.obs and keys.velocity not in adata.obsm:
        x = cells.coordinates
        return cells.energy.velocity(x, cells.times).astype(x.dtype), x
    velocity, predicted = (representation(adata, name, None)[1] for name in (keys.velocity, keys.predicted))
    return velocity, predicted
