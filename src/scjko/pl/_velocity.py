from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex, to_rgba
from matplotlib.quiver import Quiver
from numpy.typing import NDArray

from ..core.motion.embedding import smoothed
from ..edge.checks import check_integer, check_option
from ..edge.fitted import fitted_cells
from ..edge.snapshots import representation
from ._canvas import Drawn, ink, paper, xy
from ._cells import bar_beside, check_color, draw_cells, group_key, shared_range
from ._frame import Frame, frame
from ._options import merged
from ._page import open_page
from ._surface import fade_away

KINDS = ("stream", "arrows")
#: How dark lines are where nothing is known.
FAINT = 0.2


def velocity(
    adata: AnnData,
    basis: str | None = None,
    components: tuple[int, int] | str = (1, 2),
    *,
    kind: str = "stream",
    color: str | None = None,
    n_arrows: int = 300,
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Where the energy moves cells, as streamlines or as an arrow for each cell.

    Lines are faint where the standard deviation of the velocity, if the fit has any, exceeds the velocity.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    basis
        The embedding to draw on; by default the fitted coordinates. On any other, run
        :func:`scjko.tl.velocity_embedding` first.
    components
        The two components to draw, counted from one.
    kind
        ``"stream"``, streamlines of the velocity averaged over nearby cells of all times, or ``"arrows"``.
    color
        A column of ``obs`` or a gene to colour the cells by; the time column by default.
    n_arrows
        The most arrows to draw, at cells chosen evenly.
    key
        The ``key_added`` of the fit.
    ax
        Axes to draw on; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :meth:`matplotlib.axes.Axes.streamplot`, or to :meth:`matplotlib.axes.Axes.quiver`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.pl.velocity(adata, show=False).get_xlabel()
    'latent1'
    """
    check_option("kind", kind, KINDS)
    drawers = (Axes.streamplot,) if kind == "stream" else (Axes.quiver, Quiver)
    page = open_page(velocity, (ax, show, return_fig), kwargs, *drawers, but=("norm",))
    cmap = kwargs.pop("cmap", None)  # of the cells
    seen, color = fitted_cells(adata, key), check_color(adata, color)
    check_integer("n_arrows", n_arrows)
    plane = frame(seen, basis, components)
    moves = _velocities(adata, plane, basis)
    axes = page.single(size=(4.2, 3.2))
    color = seen.time_key if color is None else color
    shared = shared_range(adata, color)
    if "vmin" in shared:
        shared["cmap"] = cmap or "viridis"
    draw_cells(axes, plane, np.arange(adata.n_obs), color, {"alpha": 0.6} | shared)
    if kind == "stream":
        _stream(axes, plane, moves, _known(adata, plane), kwargs)
    else:
        shown = np.linspace(0, adata.n_obs - 1, min(n_arrows, adata.n_obs)).astype(int)
        arrows: dict[str, Any] = {"color": ink(axes), "width": 0.004, "angles": "xy", "zorder": 3}
        known = _known(adata, plane)
        if known is not None:
            arrows["color"] = [to_rgba(ink(axes), FAINT + (1 - FAINT) * share) for share in known[shown]]
        axes.quiver(*xy(plane.positions[shown]), *xy(moves[shown]), **merged(arrows, kwargs, Quiver))
    plane.dress(axes, "")
    bar_beside(axes, color, shared) if "vmin" in shared else group_key(axes, adata, color)
    return page.finish([axes])


def _velocities(adata: AnnData, plane: Frame, basis: str | None) -> NDArray[np.float64]:
    """The velocity of each cell in the plane."""
    keys = plane.cells.keys
    if plane.fitted:
        name = keys.velocity
    else:
        assert basis is not None
        name = keys.velocity_on(basis)
    if name not in adata.obsm:
        run = f"sj.tl.velocity_embedding(adata, {basis!r})" if not plane.fitted else "sj.tl.fit_energy"
        raise KeyError(f"No {name!r} in adata.obsm; run {run} first.")
    return representation(adata, name, None)[1][:, plane.columns].astype(np.float64)


def _known(adata: AnnData, plane: Frame) -> NDArray[np.float64] | None:
    """How well the velocity of each cell is known: from 0, where its standard deviation exceeds it, to 1, twice as far.

    None if the fit has no standard deviations.
    """
    keys = plane.cells.keys
    if keys.velocity_std not in adata.obsm or keys.velocity not in adata.obsm:
        return None
    signal, noise = (np.linalg.norm(adata.obsm[name], axis=1) for name in (keys.velocity, keys.velocity_std))
    return np.asarray(np.clip(signal / np.maximum(noise, 1e-300) - 1, 0.0, 1.0), dtype=np.float64)


def _stream(
    axes: Axes,
    plane: Frame,
    moves: NDArray[np.float64],
    known: NDArray[np.float64] | None,
    options: dict[str, Any],
) -> None:
    x, y = (np.linspace(*limits, 50) for limits in plane.limits)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(x, y)], axis=1)
    mean = smoothed(grid, plane.positions, moves, 30)
    mean[fade_away(plane.positions, grid) >= 0.5] = np.nan
    u, v = (np.ma.masked_invalid(column.reshape(50, 50)) for column in mean.T)
    look: dict[str, Any] = {"color": ink(axes), "linewidth": 0.7, "arrowsize": 0.8, "density": 1.2, "zorder": 3}
    if known is not None:
        share = smoothed(grid, plane.positions, known[:, None], 30).reshape(50, 50)
        look |= {
            "color": FAINT + (1 - FAINT) * share,
            "cmap": LinearSegmentedColormap.from_list("known", [to_hex(paper(axes)), ink(axes)]),
            "norm": Normalize(0, 1),
        }
    axes.streamplot(x, y, u, v, **look | options)
