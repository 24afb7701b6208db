"""Kernels of CellRank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData

from .._fitted import fitted_cells
from .._keys import Keys
from .._storage import fitted, restored_on_error, write_fields
from ..get import couplings as fitted_couplings
from ._packages import package


def velocity_kernel(adata: AnnData, *, key: str = "jko", backward: bool = False, **kwargs: Any) -> Any:
    """CellRank's kernel of the fitted velocity: cells step to those neighbours that their velocity points to.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy` and neighbours by :func:`scanpy.pp.neighbors`, best of
        the same representation (``use_rep="X_jko"``).
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
    if "connectivities" not in adata.obsp:
        coordinates = Keys(key).coordinates
        raise KeyError(f"No neighbours in adata.obsp; run sc.pp.neighbors(adata, use_rep={coordinates!r}) first.")
    keys = Keys(key)
    kernel = cr.kernels.VelocityKernel(adata, backward=backward, attr="obsm", xkey=keys.coordinates, vkey=keys.velocity)
    # Processes forked from one that runs JAX may wait for each other for ever; threads do not.
    return kernel.compute_transition_matrix(**{"backend": "threading", "show_progress_bar": False, **kwargs})


def realtime_kernel(
    adata: AnnData, *, couplings: Mapping[tuple[Any, Any], Any] | None = None, key: str = "jko", **kwargs: Any
) -> Any:
    """CellRank's kernel of the couplings of a fit: cells become those that they are coupled to.

    One time in five, and always at the last time point, cells step to neighbours of their own time point instead, in
    the coordinates of the fit (``self_transitions="all"``, ``conn_weight=0.2``).

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    couplings
        Couplings ``{(t0, t1): matrix}`` of all consecutive time points; by default those of the fit, solved anew.
    key
        The ``key_added`` of the fit.
    kwargs
        Options of ``compute_transition_matrix`` of ``cellrank.kernels.RealTimeKernel``.

    Returns
    -------
    The ``cellrank.kernels.RealTimeKernel``, its transition matrix computed. The kernel asks for a column of categories,
    which is written into ``obs["jko_time"]`` (for ``key="jko"``): the time of each cell as a number.

    Examples
    --------
    .. code-block:: python

        kernel = sj.external.cellrank.realtime_kernel(adata)
        estimator = cellrank.estimators.GPCCA(kernel)
    """
    cr = package("cellrank")
    cells = fitted_cells(adata, key)
    plans = fitted_couplings(adata, key) if couplings is None else dict(couplings)
    kept = {(cells.time("couplings", t0), cells.time("couplings", t1)): plan for (t0, t1), plan in plans.items()}
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
        kernel = cr.kernels.RealTimeKernel(adata, time_key=cells.keys.time, couplings=kept)
        return kernel.compute_transition_matrix(**options)
