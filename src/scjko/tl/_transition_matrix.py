from __future__ import annotations

import numpy as np
from anndata import AnnData

from .._checks import check_bool, check_integer
from .._fitted import fitted_cells
from .._snapshots import representation
from .._storage import write_fields
from ..core.transitions import chain


def transition_matrix(adata: AnnData, n_neighbors: int = 30, *, key: str = "jko", copy: bool = False) -> AnnData | None:
    """The probability of each cell to become each other cell, by the fitted energy, as a Markov chain.

    A cell becomes one of the cells of the next snapshot near the position that the energy predicts for it. A cell of
    the last snapshot becomes one of the same snapshot, near its forecast: there the chain stays.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    n_neighbors
        Number of cells that a cell may become; nearer ones are more probable.
    key
        The ``key_added`` of the fit.
    copy
        Whether to return a copy instead of writing into ``adata``.

    Returns
    -------
    ``None``, or with ``copy=True`` the AnnData, with this field (for ``key="jko"``):

    ``obsp["jko_transition"]``
        The matrix as :class:`scipy.sparse.csr_matrix`; every row sums to one.
        ``cellrank.kernels.PrecomputedKernel(adata.obsp["jko_transition"], adata=adata)`` takes it as it is.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", epochs=20, progress=False)
    >>> sj.tl.transition_matrix(adata)
    >>> adata.obsp["jko_transition"].shape
    (300, 300)
    """
    check_integer("n_neighbors", n_neighbors)
    check_bool("copy", copy)
    cells = fitted_cells(adata, key)
    if cells.keys.predicted not in adata.obsm:
        raise KeyError(
            f"No adata.obsm[{cells.keys.predicted!r}], the predicted positions of these cells; run sj.tl.fit_energy on "
            "them."
        )
    moved = representation(adata, cells.keys.predicted, None)[1].astype(np.float64)
    times, snapshot = np.unique(cells.times, return_inverse=True)
    following = np.minimum(np.arange(1, len(times) + 1), len(times) - 1)
    matrix = chain(moved, cells.coordinates.astype(np.float64), snapshot, following, n_neighbors)
    if copy:
        adata = adata.copy()
    write_fields(adata, obsp={cells.keys.transition: matrix})
    return adata if copy else None
