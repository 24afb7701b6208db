from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from ..edge.fitted import fitted_cells
from ._canvas import PALETTE, Drawn, dress, shade
from ._options import merged
from ._page import open_page

#: Directions in which the kernel is looked at.
N_DIRECTIONS = 64


def interaction(
    adata: AnnData,
    *,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """The interaction kernel U and its force against the distance of two cells.

    A force above zero pushes cells apart, one below draws them together. The line is the mean over directions, the
    band the range of four in five; distances go up to that of nine in ten pairs of cells, with a grey line at the
    median.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy` that has an interaction.
    key
        The ``key_added`` of the fit.
    ax
        Two axes to draw on; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :meth:`matplotlib.axes.Axes.plot`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the two axes.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> options = {"parametrization": sj.Linear(degree=3, n_centers=0), "progress": False}
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", terms=("potential", "interaction"), **options)
    >>> [axes.get_ylabel() for axes in sj.pl.interaction(adata, show=False)]
    ['kernel U', 'force']
    """
    page = open_page(interaction, (ax, show, return_fig), kwargs, Axes.plot, Line2D)
    seen = fitted_cells(adata, key)
    energy = seen.energy
    if "interaction" not in energy.terms:
        raise ValueError(
            f"The fit at adata.uns[{key!r}] has no interaction: it was fitted with terms={energy.terms}. Fit with "
            "terms=('potential', 'interaction')."
        )
    rng = np.random.default_rng(0)  # directions and pairs to look at, the same in every picture
    one, two = (np.concatenate([p[rng.integers(len(p), size=500)] for p in seen.snapshots.points]) for _ in range(2))
    distances = np.linalg.norm(one - two, axis=1)
    reach = np.linspace(0, np.quantile(distances, 0.9), 80)[1:]
    towards = rng.standard_normal((N_DIRECTIONS, energy.n_dims))
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    away = (reach[:, None, None] * towards).reshape(-1, energy.n_dims)
    kernel = energy.interaction(away).reshape(len(reach), -1)
    slope = energy.interaction_gradient(away).reshape(len(reach), N_DIRECTIONS, -1)
    force = -np.sum(slope * towards, axis=2)

    drawn = page.panels(2, size=(2.6, 2.2))
    for axes, values, name, colour in zip(drawn, (kernel, force), ("kernel U", "force"), PALETTE, strict=False):
        low, high = np.quantile(values, [0.1, 0.9], axis=1)
        axes.axhline(0, color=shade(axes, 0.2), linewidth=0.8, zorder=0)
        axes.axvline(np.median(distances), color=shade(axes, 0.2), linewidth=0.8, zorder=0)
        axes.fill_between(reach, low, high, color=colour, alpha=0.2, linewidth=0)
        look: dict[str, Any] = {"color": colour, "linewidth": 1.4}
        axes.plot(reach, values.mean(axis=1), **merged(look, kwargs, Line2D))
        dress(axes, xlabel="distance of two cells", ylabel=name)
    small: dict[str, Any] = {
        "ha": "right",
        "fontsize": 7,
        "color": shade(drawn[1], 0.6),
        "transform": drawn[1].transAxes,
    }
    drawn[1].text(0.97, 0.96, "apart", va="top", **small)
    drawn[1].text(0.97, 0.04, "together", va="bottom", **small)
    return page.finish(drawn)
