from __future__ import annotations

import numpy as np
from anndata import AnnData
from scipy import sparse

from ..core.motion.embedding import project
from ..edge.checks import check_adata
from ..edge.keys import Keys
from ..edge.snapshots import embedding, neighbours, representation
from ..edge.storage.fields import fitted, write_fields


def velocity_embedding(
    adata: AnnData, basis: str = "umap", *, neighbors_key: str | None = None, key: str = "jko", copy: bool = False
) -> AnnData | None:
    """The fitted velocity on an embedding, for plots.

    The arrow of a cell points to those of its neighbours that its velocity points to, as scVelo and CellRank project
    velocities.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy` and neighbours by :func:`scanpy.pp.neighbors`.
    basis
        The embedding, such as ``"umap"`` for ``obsm["X_umap"]``.
    neighbors_key
        The ``key_added`` of the neighbours.
    key
        The ``key_added`` of the fit.
    copy
        Whether to return a copy instead of writing into ``adata``.

    Returns
    -------
    ``None``, or with ``copy=True`` the AnnData, with this field (for ``key="jko"``):

    ``obsm["jko_velocity_umap"]``
        The velocity of each cell on the embedding, which
        ``scv.pl.velocity_embedding_stream(adata, basis="umap", vkey="jko_velocity")`` draws as it is.

    Examples
    --------
    >>> import scanpy as sc
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sc.pp.neighbors(adata, use_rep="X_latent")
    >>> sj.tl.velocity_embedding(adata, basis="latent")
    >>> adata.obsm["jko_velocity_latent"].shape
    (300, 2)
    """
    check_adata(adata)
    fitted(adata, key)
    keys = Keys(key)
    _, embedded = embedding(adata, basis)
    x, velocity = (representation(adata, name, None)[1] for name in (keys.coordinates, keys.velocity))
    graph = sparse.csr_matrix(adata.obsp[neighbours(adata, neighbors_key, keys.coordinates)])
    projected = project(velocity.astype(np.float64), x.astype(np.float64), embedded.astype(np.float64), graph)
    if copy:
        adata = adata.copy()
    write_fields(adata, obsm={keys.velocity_on(basis): projected})
    return adata if copy else None
