from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from anndata import AnnData

from ..core.fates.chain import MOST
from ..edge.checks import check_bool, check_writable
from ..edge.fates import mass_of
from ..edge.storage.fields import write_fields


def ancestors(
    adata: AnnData,
    cells: Any,
    *,
    time: float | str | None = None,
    couplings: Mapping[tuple[Any, Any], Any] | None = None,
    epsilon: float | Literal["noise"] | None = None,
    n_representatives: int = MOST,
    key: str = "jko",
    random_state: int = 0,
    copy: bool = False,
) -> AnnData | None:
    """Where a set of cells came from: their mass at every earlier time point, pulled back along the chain of cells.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    cells
        The cells, by name or as a mask, such as ``adata.obs["cell_type"] == "Monocyte"``.
    time
        The time point whose cells of the set are followed. Defaults to the only one that the set has.
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
    copy
        Whether to return a copy instead of writing into ``adata``.

    Returns
    -------
    ``None``, or with ``copy=True`` the AnnData, with these fields (for ``key="jko"``):

    ``obs["jko_ancestors"]``
        Each cell's share of the ancestors at its time point. Shares sum to one at the time of the set and at every
        earlier one; NaN after. Where cells grow, an ancestor counts by its descendants in the set.
    ``uns["jko_ancestors"]``
        ``times`` up to that of the set, and ``n_effective``, the number of equal cells whose shares have the same
        entropy.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.tl.ancestors(adata, adata.obs["fate"] == "fate 1", time=2)
    >>> adata.obs.groupby("day")["jko_ancestors"].sum().round(6).tolist()
    [1.0, 1.0, 1.0, 0.0, 0.0]
    """
    check_writable(adata, copy)
    check_bool("copy", copy)
    options: dict[str, Any] = {"n_representatives": n_representatives, "random_state": random_state}
    made, k, start = mass_of(adata, key, cells, time, couplings=couplings, epsilon=epsilon, **options)
    shares = [part[:, 0] / part.sum() for part in made.chain.ancestors(k, start)]
    after = [np.full(n, np.nan) for n in made.snapshots.sizes[k + 1 :]]
    logs = [np.log(np.where(share > 0, share, 1.0)) for share in shares]
    n_effective = np.array([np.exp(-share @ log) for share, log in zip(shares, logs, strict=True)])
    if copy:
        adata = adata.copy()
    name = made.cells.keys.ancestors
    write_fields(
        adata,
        obs={name: made.to_rows([*shares, *after])},
        uns={name: {"times": made.snapshots.times[: k + 1], "n_effective": n_effective}},
    )
    return adata if copy else None
