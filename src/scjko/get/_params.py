from __future__ import annotations

from typing import Any

from anndata import AnnData

from ..core.transport import REPLACED, Auto
from ..edge.options import READY_MADE, FitOptions
from ..edge.storage.fields import fitted


def params(adata: AnnData, key: str = "jko") -> dict[str, Any]:
    """The parameters of a fit, ready to repeat it: ``sj.tl.fit_energy(adata, **sj.get.params(adata))``.

    On the same cells, machine and versions the fit is then the same bit for bit. The package versions are in
    ``uns["jko"]["versions"]``.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`, in memory or read back from a file.
    key
        The ``key_added`` of the fit.

    Returns
    -------
    Arguments of :func:`scjko.tl.fit_energy` by name, including the choices that were left to it: the
    representation, the number of components and epochs, whether the potential varies in time, and the solver of the
    couplings, if one took them all. Options that were not given and have no value of their own are left out. A fit with
    ready-made couplings has ``coupling="ready-made"``, to be replaced by those couplings.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> params = sj.get.params(adata)
    >>> params["parametrization"].epochs, params["coupling"]
    (20, Exact(memory_limit=None))
    >>> sj.tl.fit_energy(adata, **params, progress=False)
    """
    stored = fitted(adata, key)
    options = FitOptions.read(stored["params"])
    found = {**options.arguments(), "key_added": str(stored["params"].get("key_added", key))}
    solvers = {REPLACED.get(str(name), str(name)) for name in stored["couplings"]["solver"]}
    if str(stored["params"]["coupling"]) == READY_MADE:
        found["coupling"] = READY_MADE
    elif isinstance(options.solver, Auto) and len(solvers) == 1:
        # What "auto" chose in one version it need not choose in another.
        found["coupling"] = options.solver.called(solvers.pop())
    return found
