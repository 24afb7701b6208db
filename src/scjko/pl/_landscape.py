from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.colors import Normalize
from matplotlib.ticker import MaxNLocator
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.axes3d import Axes3D  # type: ignore[import-untyped]
from numpy.typing import NDArray

from ..edge.checks import check_option
from ..edge.fitted import fitted_cells
from ..edge.landscape import stored_landscape
from ._canvas import HEIGHTS, Drawn, bare, dots
from ._canvas import scale as scale_of
from ._frame import Frame, frame
from ._marks import mark
from ._options import merged
from ._page import open_page
from ._surface import SCALES, Surface, note, surfaces, whole_course
from ._times import drawn_time, drawn_times

#: Keywords of plot_surface that its signature does not name.
STRIDES = ("rstride", "cstride", "rcount", "ccount")
#: Below one, so that the name of the upright axis has room.
ZOOM = 0.86
#: How much closer cells are on the surface than they would be all over the axes.
DENSER = 4


def landscape(
    adata: AnnData,
    time: float | str | None = None,
    components: tuple[int, int] | str = (1, 2),
    *,
    basis: str | None = None,
    others: str = "mean",
    wells: bool = False,
    scale: Literal["panel", "shared"] = "panel",
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
    wells
        Whether to mark the wells, saddles and paths of :func:`scjko.tl.landscape` at this time, as
        :func:`scjko.pl.level_curves` does.
    scale
        ``"panel"``: heights and colours range over this time. ``"shared"``: over all time points, so that pictures of
        several can be compared.
    key
        The ``key_added`` of the fit.
    ax
        Axes in three dimensions to draw on; by default those of a new figure.
    show
        Whether to show the figure; by default if it is a new one.
    return_fig
        Whether to return the figure.
    kwargs
        ``figsize``, ``ncols``, ``title`` and ``save`` as in scanpy. Extra keywords go to
        :meth:`mpl_toolkits.mplot3d.axes3d.Axes3D.plot_surface`.

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
    page = open_page(landscape, (ax, show, return_fig), kwargs, Axes3D.plot_surface, Poly3DCollection, also=STRIDES)
    seen = fitted_cells(adata, key)
    check_option("scale", scale, SCALES)
    plane = frame(seen, basis, components)
    if time is None and (wells or scale == SCALES[0]):
        named = "wells=True" if wells else "scale='shared'"
        raise ValueError(f"{named} is of one time, and all are drawn here; name it with time=...")
    marked = stored_landscape(seen) if wells else None
    if time is None:
        surface, rows = whole_course(plane), np.arange(adata.n_obs)
        titles = ["every cell at its own time"]
    else:
        at = drawn_time(seen, "time", time)
        (surface,), rows = surfaces(plane, [at], others), plane.around(at)
        titles = [plane.title(at), note(plane, others)]
    axes: Any = page.single(size=(4.2, 3.6), projection="3d")
    heights = surface.believed
    grid = np.meshgrid(surface.x, surface.y)
    alike = surfaces(plane, drawn_times(seen, None), others) if scale == SCALES[0] else []
    low, high = (f([f(one.believed) for one in [surface, *alike]]) for f in (np.nanmin, np.nanmax))
    shown = Normalize(low, high)
    # Every point of the grid and no edges: matplotlib would leave points out, and draw a net over the rest.
    look: dict[str, Any] = {
        "cmap": kwargs.get("cmap", HEIGHTS),
        "norm": shown,
        "rstride": 1,
        "cstride": 1,
        "linewidth": 0,
        "antialiased": False,
        "alpha": 0.85,
    }
    axes.plot_surface(*grid, heights, **merged(look, kwargs, Poly3DCollection))
    bottom = low - 0.35 * max(high - low, 1e-12)
    options: dict[str, Any] = {"levels": 10, "cmap": look["cmap"], "norm": shown, "linewidths": 0.7}
    axes.contour(surface.x, surface.y, heights, zdir="z", offset=bottom, **options)
    axes.set_zlim(bottom, high)
    _cells(axes, plane.positions[rows], surface.lift)
    if marked is not None:
        mark(axes, plane, marked, at, surface.lift)
    _dress(axes, plane, titles)
    axes.view_init(elev=38, azim=_downhill(surface) + 25)
    axes.set_box_aspect(None, zoom=ZOOM)
    return page.finish([axes])


def _downhill(surface: Surface) -> float:
    """The direction to look from, in degrees, such that the hill is behind and hides nothing."""
    row, column = np.unravel_index(np.nanargmax(surface.believed), surface.heights.shape)
    return float(np.degrees(np.arctan2(0.5 - row / len(surface.y), 0.5 - column / len(surface.x))))


def _cells(axes: Any, positions: NDArray[np.float64], lift: Callable[[NDArray[np.float64]], Any]) -> None:
    """Cells laid upon the surface."""
    # Drawn after the surface whatever the depth: dots that sink into it cannot be seen.
    axes.computed_zorder = False
    look = dots(axes, DENSER * len(positions)) | {"color": "black", "alpha": 0.6, "depthshade": False, "zorder": 3}
    axes.scatter(*lift(positions).T, **look)
    axes.collections[0].set_zorder(1)


def _dress(axes: Any, plane: Frame, titles: list[str]) -> None:
    """Names of the axes, panes of the page's colour, and room for all letters."""
    axes.set_title("\n".join(filter(None, titles)), fontsize=9)
    axes.set_xlabel(plane.labels[0], fontsize=8, labelpad=-10)
    axes.set_ylabel(plane.labels[1], fontsize=8, labelpad=-10)
    bare(axes)
    scale_of(axes.zaxis, "potential", axes.get_zlim())
    axes.zaxis.labelpad = 3
    axes.tick_params(labelsize=6.5)
    axes.tick_params(axis="z", pad=1.5)
    axes.zaxis.set_major_locator(MaxNLocator(5))
    axes.set(xticks=[], yticks=[], xlim=plane.limits[0], ylim=plane.limits[1])
