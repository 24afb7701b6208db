from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from anndata import AnnData

from ..core.fates.chain import MOST
from ..edge.checks import check_bool, check_writable
from ..edge.fates import mass_of
from ..edge.storage.fields import write_fields


def descendants(
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
    """What becomes of a set of cells: their mass at every later time point, pushed along the chain of cells.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    cells
        The cells, by name or as a mask, such as ``adata.obs["cell_type"] == "HSC"``.
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

    ``obs["jko_descendants"]``
        Each cell's share of the descendants at its time point. Shares sum to one at the time of the set and at every
        later one; NaN before.
    ``uns["jko_descendants"]``
        ``times`` from that of the set on, and ``mass``, the fraction of the population in the set or descended from it.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.tl.descendants(adata, adata.obs["fate"] == "fate 1", time=2)
    >>> adata.obs.groupby("day")["jko_descendants"].sum().round(6).tolist()
    [0.0, 0.0, 1.0, 1.0, 1.0]
    """
    check_writable(adata, copy)
    check_bool("copy", copy)
    options: dict[str, Any] = {"n_representatives": n_representatives, "random_state": random_state}
    made, k, start = mass_of(adata, key, cells, time, couplings=couplings, epsilon=epsilon, **options)
    parts = made.chain.descendants(k, start)
    mass = np.array([part.sum() for part in parts])
    before = [np.full(n, np.nan) for n in made.snapshots.sizes[:k]]
    shares = [part[:, 0] / max(total, 1e-300) for part, total in zip(parts, mass, strict=True)]
    if copy:
        adata = adata.copy()
    name = made.cells.keys.descendants
    write_fields(
        adata,
        obs={name: made.to_rows([*before, *shares])},
        uns={name: {"times": made.snapshots.times[k:], "mass": mass}},
    )
    return adata if copy else None
