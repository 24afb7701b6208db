from __future__ import annotations

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from ..core.motion.transitions import markov_chain
from ..edge.checks import check_bool, check_fraction, check_integer
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.snapshots import representation
from ..edge.storage.fields import write_fields


def transition_matrix(
    adata: AnnData, n_neighbors: int = 30, *, within: float = 0.2, key: str = "jko", copy: bool = False
) -> AnnData | None:
    """The probability of each cell to become each other cell, by the fitted energy, as a Markov chain.

    A cell becomes one of the cells of the next snapshot near the position that the energy predicts for it, or one near
    itself in its own snapshot. In the last snapshot it always stays: what comes after has not been measured.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    n_neighbors
        Number of cells of a snapshot that a cell may become; nearer ones are more probable.
    within
        Probability of staying in one's own snapshot, from 0 to below 1. Without it a chain that only goes forward in
        time cannot distinguish a fate from cells in transit to it, as estimators of terminal states must.
    key
        The ``key_added`` of the fit.
    copy
        Whether to return a copy instead of writing into ``adata``.

    Returns
    -------
    ``None``, or with ``copy=True`` the AnnData, with this field (for ``key="jko"``):

    ``obsp["jko_transition"]``
        The matrix as :class:`scipy.sparse.csr_matrix`; every row sums to one.
        Where cells grow, it says where the descendants of a cell are, not how many.
        ``cellrank.kernels.PrecomputedKernel(adata.obsp["jko_transition"], adata=adata)`` takes it as it is.
    ``obs["jko_weight"]``
        If the fit has growth: the factor by which the mass of each cell grows until the next snapshot, 1 in the last.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.tl.transition_matrix(adata)
    >>> adata.obsp["jko_transition"].shape
    (300, 300)
    """
    check_integer("n_neighbors", n_neighbors)
    check_fraction("within", within)
    check_bool("copy", copy)
    cells = fitted_cells(adata, key)
    if cells.keys.predicted not in adata.obsm:
        raise KeyError(
            f"No adata.obsm[{cells.keys.predicted!r}], the predicted positions of these cells; run sj.tl.fit_energy on "
            "them."
        )
    moved = representation(adata, cells.keys.predicted, None)[1].astype(np.float64)
    _, snapshot = np.unique(cells.times, return_inverse=True)
    matrix = markov_chain(moved, cells.coordinates.astype(np.float64), snapshot, within, n_neighbors)
    if copy:
        adata = adata.copy()
    write_fields(adata, obs=_masses(cells), obsp={cells.keys.transition: matrix})
    return adata if copy else None


def _masses(cells: FittedCells) -> dict[str, NDArray[np.float64]]:
    """The factor by which the mass of each cell grows until the next snapshot, if any does."""
    field, timeline = cells.energy.growth_field, cells.energy.timeline
    if field is None:
        return {}
    interval, fraction = timeline.locate(cells.times)
    mass = np.ones(len(cells.times))
    for k in range(timeline.n_intervals):
        here = (interval == k) & (fraction == 0)
        mass[here] = np.exp(timeline.gaps[k] * field.over(cells.coordinates[here].astype(np.float64), k, 0.0))
    return {cells.keys.weight: mass}
