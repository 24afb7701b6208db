"""Couplings of moscot."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

#: The share of a row's mass that is kept of an entropic plan, in which every entry is above zero.
KEPT = 0.9999


class NamedOperator(LinearOperator):
    """A transport plan known by what it does to vectors, and the cells in its rows and columns."""

    def __init__(self, solution: Any, obs_names: pd.Index, var_names: pd.Index) -> None:
        super().__init__(np.dtype(np.float64), solution.shape)
        self.solution = solution
        self.obs_names = obs_names
        self.var_names = var_names

    def _matmat(self, values: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(self.solution.pull(values), dtype=np.float64)

    def _rmatmat(self, values: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(self.solution.push(values), dtype=np.float64)


def couplings(problem: Any) -> dict[tuple[Any, Any], AnnData | NamedOperator]:
    """The couplings of a solved ``moscot.problems.time.TemporalProblem``, for :func:`scjko.tl.fit_energy`.

    Parameters
    ----------
    problem
        The problem, after ``problem.prepare(...).solve(...)``. Problems of pairs of time points in general will do,
        such as a ``LineageProblem``.

    Returns
    -------
    Couplings ``{(t0, t1): coupling}`` with the cells by name: an AnnData with cells of t0 as ``obs``, those of t1 as
    ``var`` and a sparse ``X`` that keeps the largest entries of every row, 99.99 % of its mass, rescaled to the sum of
    the whole row, from which ``growth="auto"`` reads how the cell has grown; for a low-rank solution a linear
    operator, whose matrix is never formed. :func:`scjko.tl.fit_energy` takes them as ``coupling``, also for cells in
    another order.

    Examples
    --------
    .. code-block:: python

        problem = moscot.problems.time.TemporalProblem(adata).prepare("day").solve()
        sj.tl.fit_energy(adata, "day", coupling=sj.external.moscot.couplings(problem))
    """
    solutions = getattr(problem, "solutions", None)
    if not solutions:
        reason = "it has no solutions; run problem.solve() first" if solutions is not None else "it is none"
        raise ValueError(f"problem must be a solved problem of moscot, but {reason}.")
    return {pair: _coupling(solution, problem[pair]) for pair, solution in solutions.items()}


def _coupling(solution: Any, pair: Any) -> AnnData | NamedOperator:
    source, target = pair.adata_src.obs_names, pair.adata_tgt.obs_names
    if solution.is_low_rank:
        return NamedOperator(solution, source, target)
    plan = sparse.csr_matrix(solution.sparsify(mode="mass", value=KEPT).transport_matrix, dtype=np.float64)
    # Rows are rescaled to their whole mass, which is how the cell has grown.
    whole = np.asarray(solution.pull(np.ones((plan.shape[1], 1))), dtype=np.float64).ravel()
    kept = np.asarray(plan.sum(axis=1)).ravel()
    plan = sparse.csr_matrix(sparse.diags(np.divide(whole, kept, out=np.ones(len(kept)), where=kept > 0)) @ plan)
    return AnnData(plan, obs=source.to_frame()[[]], var=target.to_frame()[[]])
