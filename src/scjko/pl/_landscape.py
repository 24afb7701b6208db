from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.axes3d import Axes3D  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

from ..edge.fitted import fitted_cells
from ._canvas import HEIGHTS, Drawn, finish, single, xy
from ._frame import frame
from ._options import check_options, merged
from ._surface import Surface, note, surfaces, whole_course
from ._times import drawn_time

#: Keywords of plot_surface that its signature does not name.
STRIDES = ("rstride", "cstride", "rcount", "ccount")


def landscape(
    adata: AnnData,
    time: float | str | None = None,
    components: tuple[int, int] | str = (1, 2),
    *,
    basis: str | None = None,
    others: str = "mean",
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """The potential as a surface in three dimensions, with the cells of that time on it.

    Where there are no cells the surface is cut away: a potential there is an extrapolation.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    time
        The time to draw, measured or between. By default all cells are drawn at the height they have at their own
        time, and the surface is interpolated between them.
    components
        The two components to draw, counted from one.
    basis
        An embedding to draw on in place of the fitted coordinates; the values at the cells are interpolated.
    others
        Where the components that are not drawn are held, as for :func:`scjko.pl.level_curves`.
    key
        The ``key_added`` of the fit.
    ax
        Axes in three dimensions to draw on; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        Extra keywords go to :meth:`mpl_toolkits.mplot3d.axes3d.Axes3D.plot_surface`.

    Returns
    -------
    ``None`` if the figure is shown, the figure if ``return_fig``, otherwise the axes.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.pl.landscape(adata, time=1, show=False).get_title()
    'day 1'
    """
    check_options(landscape, kwargs, Axes3D.plot_surface, Poly3DCollection, also=STRIDES)
    seen = fitted_cells(adata, key)
    plane = frame(seen, basis, components)
    if time is None:
        surface, rows = whole_course(plane), np.arange(adata.n_obs)
        titles = ["every cell at its own time"]
    else:
        at = drawn_time(seen, "time", time)
        (surface,), rows = surfaces(plane, [at], others), plane.around(at)
        titles = [plane.title(at), note(plane, others)]
    axes: Any = single(ax, size=(4.2, 3.6), projection="3d")
    heights = surface.believed
    grid = np.meshgrid(surface.x, surface.y)
    # Every point of the grid and no edges: matplotlib would leave points out, and draw a net over the rest.
    shown = Normalize(np.nanmin(heights), np.nanmax(heights))
    look: dict[str, Any] = {
        "cmap": HEIGHTS,
        "norm": shown,
        "rstride": 1,
        "cstride": 1,
        "linewidth": 0,
        "antialiased": False,
        "alpha": 0.85,
    }
    axes.plot_surface(*grid, heights, **merged(look, kwargs, Poly3DCollection))
    _floor(axes, surface, shown)
    _cells(axes, plane.positions[rows], surface)
    axes.set_title("\n".join(filter(None, titles)), fontsize=9)
    axes.set_xlabel(plane.labels[0], fontsize=8, labelpad=-10)
    axes.set_ylabel(plane.labels[1], fontsize=8, labelpad=-10)
    axes.set_zlabel("potential", fontsize=8, labelpad=4)
    axes.tick_params(labelsize=6.5, pad=-2)
    axes.set(xticks=[], yticks=[], xlim=plane.limits[0], ylim=plane.limits[1])
    axes.view_init(elev=38, azim=_downhill(surface) + 25)
    axes.set_box_aspect(None, zoom=1.0)
    return finish([axes], ours=ax is None, show=show, return_fig=return_fig)


def _downhill(surface: Surface) -> float:
    """The direction to look from, in degrees, such that the hill is behind and hides nothing."""
    row, column = np.unravel_index(np.nanargmax(surface.believed), surface.heights.shape)
    return float(np.degrees(np.arctan2(0.5 - row / len(surface.y), 0.5 - column / len(surface.x))))


def _floor(axes: Any, surface: Surface, shown: Normalize) -> None:
    """Level curves beneath the surface, which say where a slope is when the surface hides it."""
    heights = surface.believed
    low, high = np.nanmin(heights), np.nanmax(heights)
    bottom = low - 0.35 * max(high - low, 1e-12)
    axes.contour(
        surface.x, surface.y, heights, levels=10, zdir="z", offset=bottom, cmap=HEIGHTS, norm=shown, linewidths=0.7
    )
    axes.set_zlim(bottom, high)


def _cells(axes: Any, positions: NDArray[np.float64], surface: Surface) -> None:
    """Cells laid upon the surface."""
    height = RegularGridInterpolator((surface.y, surface.x), surface.heights)(positions[:, ::-1])
    raised = height + 0.01 * np.ptp(height)
    # Drawn after the surface whatever the depth: dots that sink into it cannot be seen.
    axes.computed_zorder = False
    axes.scatter(*xy(positions), raised, s=2.5, color="black", alpha=0.6, linewidths=0, depthshade=False, zorder=5)
    axes.collections[0].set_zorder(1)
