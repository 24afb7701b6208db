from __future__ import annotations

from anndata import AnnData

from ..core.energy.energy import Energy
from ..edge.storage.fields import fitted
from ..edge.storage.serialized import energy_from_uns


def energy(adata: AnnData, key: str = "jko") -> Energy:
    """The energy of a fit, rebuilt bit for bit from ``adata.uns``.

    Parameters
    ----------
    adata
        Annotated data with a fit, in memory or read back from a file.
    key
        The ``key_added`` of the fit.

    Returns
    -------
    An energy to evaluate anywhere with ``.potential(x, t)``, ``.gradient(x, t)``, ``.velocity(x, t)`` and
    ``.hessian(x, t)``, to move cells with ``.step(x, t0, t1)`` and to follow them with ``.simulate(x, times)``.
    Coordinates are in the units of ``obsm["X_jko"]``, times in those of the time column.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.get.energy(adata).gradient(adata.obsm["X_jko"], t=1.0).shape
    (300, 2)
    """
    return energy_from_uns(fitted(adata, key))
