"""What predicted cells take over from the cells they were: labels, and genes through the loadings."""

from __future__ import annotations

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from .checks import check_bool
from .fitted import FittedCells
from .loadings import LOADINGS, has_loadings, linear_map

#: Genes times cells up to which genes are added unless a user decides: 80 MB.
MOST = 20_000_000


def described(
    obs: pd.DataFrame,
    positions: NDArray[np.floating],
    source: NDArray[np.int64],
    cells: FittedCells,
    genes: bool | None,
) -> AnnData:
    """Predicted cells with the columns of ``obs`` of the cells that they were, and genes where these can be had."""
    adata, keys = cells.adata, cells.keys
    if genes is not None:
        check_bool("genes", genes)
    ours = {cells.time_key, *obs.columns}
    kept = [name for name in adata.obs.columns if name not in ours and not str(name).startswith(f"{keys.key}_")]
    labels = adata.obs[kept].iloc[source].set_index(obs.index)
    obs = pd.concat([obs, labels], axis=1)
    obsm = {keys.coordinates: positions}
    small = len(obs) * adata.n_vars <= MOST and not adata.isbacked
    if not (has_loadings(cells) and small if genes is None else genes):
        return AnnData(obs=obs, obsm=obsm)
    linear = linear_map(cells)
    return AnnData(
        linear.genes(positions).astype(np.float32),
        obs=obs,
        var=adata.var.drop(columns=keys.gene_mean, errors="ignore").assign(**{keys.gene_mean: linear.mean}),
        obsm=obsm,
        varm={LOADINGS: np.asarray(adata.varm[LOADINGS])},
        uns={keys.key: dict(cells.stored)},
    )
