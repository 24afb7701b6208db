from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from anndata import AnnData

from ..core.fates.chain import MOST
from ..core.timeline import time_text
from ..edge.checks import check_bool
from ..edge.fates import cell_chain
from ..edge.snapshots import obs_column


def transition_table(
    adata: AnnData,
    cluster_key: str,
    *,
    times: tuple[Any, Any] | None = None,
    forward: bool = True,
    couplings: Mapping[tuple[Any, Any], Any] | None = None,
    epsilon: float | Literal["noise"] | None = None,
    n_representatives: int = MOST,
    key: str = "jko",
    random_state: int = 0,
) -> pd.DataFrame:
    """How groups of cells at one time become groups at another: a table of shares of mass.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    cluster_key
        Column of ``adata.obs`` with the groups, such as cell types. Cells without a label are left out.
    times
        The two time points. Defaults to the first and the last.
    forward
        Whether rows say what becomes of a group. With ``False``, columns say where a group came from.
    couplings
        Couplings ``{(t0, t1): matrix}`` to use instead of entropic ones, as in :func:`scjko.tl.fates`.
    epsilon
        Regularisation of the couplings, as in :func:`scjko.tl.fates`.
    n_representatives
        Larger snapshots are coupled by as many cluster centres.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the choice of representatives.

    Returns
    -------
    A DataFrame with the groups of the earlier time in its rows and those of the later in its columns,
    like ``cell_transition`` in moscot. Rows sum to one, columns with ``forward=False``. ``attrs["mass"]`` has the
    shares of the population in the table. They sum to one, or to less if some cells have no label.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> table = sj.tl.transition_table(adata, "fate", times=(4, 7))
    >>> table.sum(axis=1).round(6).tolist()
    [1.0, 1.0, 1.0]
    """
    check_bool("forward", forward)
    labels = obs_column(adata, "cluster_key", cluster_key).astype("category")
    options: dict[str, Any] = {"n_representatives": n_representatives, "random_state": random_state}
    made = cell_chain(adata, key, couplings=couplings, epsilon=epsilon, **options)
    known = made.snapshots.times
    told = [float(known[0]), float(known[-1])] if times is None else made.cells.asked_times(times)
    if len(told) != 2 or not told[0] < told[1] or not set(told) <= set(known.tolist()):
        raise ValueError(
            f"times={times!r} must be two time points, the earlier first, of {', '.join(map(time_text, known))}."
        )
    k, end = (int(np.flatnonzero(known == time)[0]) for time in told)
    codes = made.by_time(labels.cat.codes.to_numpy())
    names = list(labels.cat.categories)
    rows, columns = (_groups(codes[j], names, cluster_key, known[j]) for j in (k, end))
    start = (codes[k][:, None] == rows) * made.snapshots.weights[k][:, None]
    arrived = made.chain.descendants(k, start)[end - k]
    mass = np.stack([arrived[codes[end] == column].sum(axis=0) for column in columns], axis=1)
    table = pd.DataFrame(mass, index=[names[i] for i in rows], columns=[names[j] for j in columns])
    table.index.name, table.columns.name = (f"{cluster_key} at {time_text(time)}" for time in told)
    total = table.sum(axis=1) if forward else table.sum(axis=0)
    shares = table.div(total.where(total > 0, 1.0), axis=0 if forward else 1)
    shares.attrs["mass"] = table
    return shares


def _groups(codes: Any, names: list[Any], cluster_key: str, time: float) -> list[int]:
    """The groups that have cells at a time."""
    there = [j for j in range(len(names)) if (codes == j).any()]
    if not there:
        raise ValueError(f"obs[{cluster_key!r}] has no labels at time {time_text(time)}.")
    return there
