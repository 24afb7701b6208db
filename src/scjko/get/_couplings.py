from __future__ import annotations

from typing import Any

from anndata import AnnData

from ..edge.checks import check_bool
from ..edge.fitted import fitted_cells
from ..edge.ready_made import as_matrices


def couplings(adata: AnnData, key: str = "jko", *, as_anndata: bool = False) -> dict[tuple[float, float], Any]:
    """The transport plans of a fit, one for each pair of consecutive time points.

    A fit stores only a summary of its couplings. They are solved again, with the same solvers and seed. Ready-made
    couplings cannot be recovered.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    key
        The ``key_added`` of the fit.
    as_anndata
        Whether to return each plan as AnnData in the layout of Waddington-OT.

    Returns
    -------
    Plans ``{(t0, t1): matrix}`` as :class:`scipy.sparse.csr_matrix`, the cells of t0 in the rows and those of t1 in the
    columns, in the order of ``adata``; a plan sums to one. :func:`scjko.tl.fit_energy` takes them as ``coupling``. Rows
    and columns of cells that a partial coupling leaves over are empty; ``uns["jko"]["couplings"]["dropped"]`` has their
    fraction of the mass.

    With ``as_anndata=True`` each is an AnnData whose ``obs_names`` are the cells of t0 and ``var_names`` those of t1,
    with masses in ``X`` as Waddington-OT has them: a row sums to one for a cell of the mean weight.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> plan = sj.get.couplings(adata)[0.0, 1.0]
    >>> round(float(plan.sum()), 6)
    1.0
    """
    check_bool("as_anndata", as_anndata)
    cells = fitted_cells(adata, key)
    plans = as_matrices(cells.couplings, cells.snapshots)
    if not as_anndata:
        return plans
    names = {t: adata.obs_names[cells.times == t] for t in cells.snapshots.times}
    return {
        (t0, t1): AnnData(plan * plan.shape[0], obs=_index(names[t0]), var=_index(names[t1]))
        for (t0, t1), plan in plans.items()
    }


def _index(names: Any) -> Any:
    return names.to_frame()[[]]
