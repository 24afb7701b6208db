from __future__ import annotations

from typing import Any

import numpy as np
from anndata import AnnData

from ..edge.storage import fitted, time_values_from_uns


def params(adata: AnnData, key: str = "jko") -> dict[str, Any]:
    """The parameters of a fit, ready to repeat it: ``sj.tl.fit_energy(adata, **sj.get.params(adata))``.

    On the same cells, machine and versions the fit is then the same bit for bit. The versions that it was made with are
    in ``uns["jko"]["versions"]``.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`, in memory or read back from a file.
    key
        The ``key_added`` of the fit.

    Returns
    -------
    Arguments of :func:`scjko.tl.fit_energy` by name, what was left to it as it was chosen: the representation, the
    number of components and epochs, whether the potential varies in time, and the solver of the couplings, if one took
    them all. Options that were not given and have no value of their own are left out. A fit that was handed its
    couplings has ``coupling="ready-made"`` and asks for them again, as ``couplings``.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", epochs=20, progress=False)
    >>> params = sj.get.params(adata)
    >>> params["epochs"], params["coupling"]
    (20, 'exact')
    >>> sj.tl.fit_energy(adata, **params, progress=False)
    """
    stored = fitted(adata, key)
    found = {name: _plain(value) for name, value in stored["params"].items()}
    if "time_values" in found:
        found["time_values"] = time_values_from_uns(stored)
    solvers = {str(name) for name in stored["couplings"]["solver"]}
    if found["coupling"] == "auto" and len(solvers) == 1:
        # What "auto" chose by the memory of one machine it need not choose on another.
        (found["coupling"],) = solvers
    return found


def _plain(value: Any) -> Any:
    """Arrays as tuples and numpy's numbers as Python's."""
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return value.item() if isinstance(value, np.generic) else value
