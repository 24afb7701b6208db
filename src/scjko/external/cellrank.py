"""Kernels of CellRank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from scipy import sparse

from ..core.compute.neighbours import nearest
from ..core.transport import Coupling
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.keys import Keys
from ..edge.ready_made import as_matrices, ready_made
from ..edge.snapshots import neighbours
from ..edge.storage.fields import fitted, restored_on_error, time_values_from_uns, write_fields
from ._packages import package


def velocity_kernel(
    adata: AnnData, *, neighbors_key: str | None = None, key: str = "jko", backward: bool = False, **kwargs: Any
) -> Any:
    """CellRank's kernel of the fitted velocity: cells step to those neighbours that their velocity points to.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy` and neighbours by :func:`scanpy.pp.neighbors`, best of
        the same representation (``use_rep="X_jko"``).
    neighbors_key
        The ``key_added`` of the neighbours.
    key
        The ``key_added`` of the fit.
    backward
        Whether the kernel goes back in time.
    kwargs
        Options of ``compute_transition_matrix`` of ``cellrank.kernels.VelocityKernel``.

    Returns
    -------
    The ``cellrank.kernels.VelocityKernel``, its transition matrix computed.

    Examples
    --------
    .. code-block:: python

        sc.pp.neighbors(adata, use_rep="X_jko")
        kernel = sj.external.cellrank.velocity_kernel(adata)
        estimator = cellrank.estimators.GPCCA(kernel)
    """
    cr = package("cellrank")
    fitted(adata, key)
    keys = Keys(key)
    kernel = cr.kernels.VelocityKernel(
        adata,
        backward=backward,
        attr="obsm",
        xkey=keys.coordinates,
        vkey=keys.velocity,
        conn_key=neighbours(adata, neighbors_key, keys.coordinates),
    )
    # Processes forked from one that runs JAX may wait for each other for ever; threads do not.
    return kernel.compute_transition_matrix(**{"backend": "threading", "show_progress_bar": False, **kwargs})


def realtime_kernel(
    adata: AnnData, *, couplings: Mapping[tuple[Any, Any], Any] | None = None, key: str = "jko", **kwargs: Any
) -> Any:
    """CellRank's kernel of the couplings of a fit: cells become those that they are coupled to.

    One time in five, and always at the last time point, cells step to neighbours of their own time point instead, in
    the coordinates of the fit (``self_transitions="all"``, ``conn_weight=0.2``). A cell that is coupled to none, as a
    partial coupling may leave it, becomes what the nearest coupled cell of its time point does.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    couplings
        Couplings ``{(t0, t1): matrix}`` of all consecutive time points, as :func:`scjko.tl.fit_energy` takes them; by
        default those of the fit, solved anew. A fit to ready-made couplings does not keep them, and needs them here.
    key
        The ``key_added`` of the fit.
    kwargs
        Options of ``compute_transition_matrix`` of ``cellrank.kernels.RealTimeKernel``.

    Returns
    -------
    The ``cellrank.kernels.RealTimeKernel``, its transition matrix computed. The kernel needs a column of categories,
    which is written into ``obs["jko_time"]`` (for ``key="jko"``): the time of each cell as a number.

    Examples
    --------
    .. code-block:: python

        kernel = sj.external.cellrank.realtime_kernel(adata)
        estimator = cellrank.estimators.GPCCA(kernel)
    """
    cr = package("cellrank")
    cells = fitted_cells(adata, key)
    if cells.keys.coordinates not in adata.obsm:
        raise KeyError(f"No adata.obsm[{cells.keys.coordinates!r}], the coordinates of the fit; run sj.tl.fit_energy.")
    solved = cells.couplings if couplings is None else _told(couplings, cells)
    points = cells.snapshots.points
    solved = [_of_every_cell(coupling, x) for coupling, x in zip(solved, points[:-1], strict=True)]
    options = {
        # Couplings are sparse already; CellRank's threshold would prune those of cells with little mass.
        "threshold": None,
        # As CellRank advises: a chain that only goes forward in time has no terminal states to be found.
        "self_transitions": "all",
        "conn_weight": 0.2,
        "conn_kwargs": {"use_rep": cells.keys.coordinates},
        **kwargs,
    }
    column = pd.Categorical(cells.times, categories=np.unique(cells.times))
    with restored_on_error(adata, obs=[cells.keys.time]):
        write_fields(adata, obs={cells.keys.time: column})
        kernel = cr.kernels.RealTimeKernel(
            adata, time_key=cells.keys.time, couplings=as_matrices(solved, cells.snapshots)
        )
        return kernel.compute_transition_matrix(**options)


def _told(couplings: Mapping[tuple[Any, Any], Any], cells: FittedCells) -> list[Coupling]:
    """Couplings that a user hands in, checked as those of a fit are."""
    names, values = cells.adata.obs_names, time_values_from_uns(cells.stored)
    told = ready_made(couplings, cells.snapshots, names, cells.column, values)
    matrices = [coupling for coupling in told if isinstance(coupling, Coupling)]
    if len(matrices) < len(told):
        raise TypeError(
            "CellRank needs the matrices of couplings, and of a low-rank solution there is none; solve it without "
            "rank, or use velocity_kernel or sj.tl.transition_matrix."
        )
    return matrices


def _of_every_cell(coupling: Coupling, x: NDArray[np.float64]) -> Coupling:
    """The coupling with partners for every source: one that has none takes those of the nearest that has some.

    CellRank makes rows sum to one, and would send a cell without partners anywhere. The mass in all is more than one.
    """
    has_partners = coupling.source_weight > 0
    if has_partners.all():
        return coupling
    lenders, lonely = np.flatnonzero(has_partners), np.flatnonzero(~has_partners)
    row = np.arange(len(x))
    row[lonely] = lenders[nearest(x[lenders], x[lonely], 1)[1][:, 0]]
    plan = sparse.csr_matrix((coupling.weight, (coupling.source, coupling.target)), shape=coupling.shape)
    lent = sparse.coo_matrix(plan[row])
    return replace(coupling, source=lent.row, target=lent.col, weight=lent.data)


def lineages(adata: AnnData, *, key: str = "jko") -> None:
    """Fates as CellRank's fate probabilities, where its plots look for them.

    Parameters
    ----------
    adata
        Annotated data with fates by :func:`scjko.tl.fates`.
    key
        The ``key_added`` of the fit.

    Returns
    -------
    ``None``, with these fields, those of an estimator that CellRank fitted before being replaced:

    ``obsm["lineages_fwd"]``
        The probabilities as an array, which ``cellrank.Lineage.from_adata(adata)`` reads.
    ``obs["term_states_fwd"]``
        The terminal set of each cell that is in one. Its categories name the columns, and
        ``uns["term_states_fwd_colors"]`` has their colours.

    Examples
    --------
    .. code-block:: python

        sj.tl.fates(adata, "cell_type")
        sj.external.cellrank.lineages(adata)
        cellrank.pl.circular_projection(adata, keys="cell_type")
    """
    fitted(adata, key)
    keys = Keys(key)
    if keys.fates not in adata.obsm or keys.terminal not in adata.obs:
        raise KeyError(f"No adata.obsm[{keys.fates!r}]; run sj.tl.fates(adata, ..., key={key!r}) first.")
    table = adata.obsm[keys.fates]
    states = pd.Categorical(adata.obs[keys.terminal].astype(object), categories=list(table.columns))
    write_fields(
        adata,
        obs={"term_states_fwd": states},
        obsm={"lineages_fwd": table.to_numpy(dtype=np.float64)},
        uns={"term_states_fwd_colors": np.asarray(adata.uns[f"{keys.fate}_colors"])},
    )
