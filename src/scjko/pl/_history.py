from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter

from ..edge.options import FitOptions
from ..edge.storage.fields import fitted
from ._canvas import PALETTE, Drawn, dress, finish, key_beside, single
from ._options import check_options, merged


def history(
    adata: AnnData,
    *,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """The loss over training, relative to a zero energy.

    Parameters
    ----------
    adata
        Annotated data with a neural fit by :func:`scjko.tl.fit_energy`; a linear one has no history, it is solved at
        once.
    key
        The ``key_added`` of the fit.
    ax
        Axes to draw on; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        Extra keywords go to :meth:`matplotlib.axes.Axes.plot`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> len(sj.pl.history(adata, show=False).lines[0].get_xdata())
    20
    """
    check_options(history, kwargs, Axes.plot, Line2D)
    stored = fitted(adata, key)
    losses = {name: np.atleast_1d(values) for name, values in stored.get("history", {}).items()}
    if not losses or not FitOptions.read(stored["params"]).parametrization.trained:
        raise ValueError(
            f"The fit at adata.uns[{key!r}] has no history: no network was trained, and other energies are solved at "
            f"once. How good it is, adata.uns[{key!r}]['diagnostics']['explained'] says."
        )
    axes = single(ax, size=(3.5, 2.6))
    for (name, values), colour in zip(losses.items(), PALETTE, strict=False):
        look: dict[str, Any] = {"color": colour, "linewidth": 1.2, "label": name.replace("_", " ")}
        axes.plot(np.arange(1, len(values) + 1), values, **merged(look, kwargs, Line2D))
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    dress(axes, xlabel="epoch", ylabel="loss (1: no motion at all)")
    if len(losses) > 1:
        key_beside(axes)
    return finish([axes], ours=ax is None, show=show, return_fig=return_fig)
