from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullFormatter
from numpy.typing import NDArray

from ..edge.options import FitOptions
from ..edge.storage.fields import fitted
from ._canvas import PALETTE, Drawn, dress, key_beside, seen_on, shade
from ._options import merged
from ._page import open_page


def history(
    adata: AnnData,
    *,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """The loss over training, and the errors on held-out cells that settings were chosen by.

    The loss is relative to a zero energy, errors to not moving.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy` that trained a network, or chose its settings; a linear
        one has no history, it is solved at once.
    key
        The ``key_added`` of the fit.
    ax
        Axes to draw on, one for each panel; by default those of a new figure. A single one gets the errors on held-out
        cells or, if nothing was chosen by them, the loss.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :meth:`matplotlib.axes.Axes.plot`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes, a list if there are both panels.
    The curve of held-out errors is over the length of training, or over the softness if no network was tried; a ring
    marks what was chosen.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> len(sj.pl.history(adata, show=False).lines[0].get_xdata())
    20
    """
    page = open_page(history, (ax, show, return_fig), kwargs, Axes.plot, Line2D)
    stored = fitted(adata, key)
    losses = {name: np.atleast_1d(values) for name, values in stored.get("history", {}).items()}
    trained = bool(losses) and FitOptions.read(stored["params"]).parametrization.trained
    choice = stored.get("choice")
    if not trained and choice is None:
        raise ValueError(
            f"The fit at adata.uns[{key!r}] has no history: no network was trained, and other energies are solved at "
            f"once. How good it is, adata.uns[{key!r}]['diagnostics']['explained'] says."
        )
    losses_too = trained and (choice is None or not isinstance(ax, Axes))
    drawn = page.panels(losses_too + (choice is not None), size=(2.9, 2.2))
    if losses_too:
        _draw_losses(drawn[0], losses, kwargs)
    if choice is not None:
        _draw_choice(drawn[-1], choice, kwargs)
    return page.finish(drawn)


def _draw_losses(axes: Axes, losses: Mapping[str, NDArray[Any]], options: dict[str, Any]) -> None:
    """The loss of every epoch."""
    for (name, values), colour in zip(losses.items(), seen_on(PALETTE, axes), strict=False):
        look: dict[str, Any] = {"color": colour, "linewidth": 1.2, "label": name.replace("_", " ")}
        axes.plot(np.arange(1, len(values) + 1), values, **merged(look, options, Line2D))
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())
    dress(axes, xlabel="epoch", ylabel="loss (1: no motion at all)")
    if len(losses) > 1:
        key_beside(axes)


def _draw_choice(axes: Axes, choice: Mapping[str, Any], options: dict[str, Any]) -> None:
    """Errors on held-out cells, one curve for each kind of energy that was tried."""
    table = {name: np.atleast_1d(values) for name, values in choice.items()}
    by_length = bool((table["updates"] > 0).any())
    across = table["updates" if by_length else "softness"]
    kinds = list(zip(table["share"], table["n_members"], strict=True))
    for kind, colour in zip(dict.fromkeys(kinds), seen_on(PALETTE, axes), strict=False):
        own = np.array([each == kind for each in kinds])
        look: dict[str, Any] = {"color": colour, "linewidth": 1.2, "label": _words(*kind)}
        if by_length and kind[0] == 1:  # no network: the best softness, whatever the length
            axes.axhline(table["error"][own].min(), **merged(look | {"linestyle": (0, (4, 2))}, options, Line2D))
        else:
            axes.plot(
                across[own], table["error"][own], **merged(look | {"marker": "o", "markersize": 3}, options, Line2D)
            )
    chosen = int(np.argmax(table["chosen"]))
    if not by_length or table["updates"][chosen] > 0:
        axes.scatter(
            across[chosen], table["error"][chosen], s=60, facecolors="none", edgecolors=[shade(axes, 0.8)], zorder=3
        )
    if across.max() > across[across > 0].min():
        axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    dress(
        axes,
        xlabel="updates" if by_length else "softness",
        ylabel="held-out error (1: not moving)",
        title=f"chosen: {_words(*kinds[chosen])}",
    )
    key_beside(axes)


def _words(share: float, n_members: float) -> str:
    """A kind of energy in a legend."""
    if share == 0:
        return "network"
    envelope = "one plan" if n_members == 1 else f"{n_members:g} plans"
    return envelope if share == 1 else f"network and {envelope}"
