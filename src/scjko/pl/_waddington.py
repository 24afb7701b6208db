from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LightSource, Normalize
from mpl_toolkits.mplot3d.art3d import Poly3DCollection  # type: ignore[import-untyped]
from mpl_toolkits.mplot3d.axes3d import Axes3D  # type: ignore[import-untyped]
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from ..core.timeline import time_text
from ..edge.checks import check_integer
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.landscape import stored_landscape
from ._canvas import HEIGHTS, PALETTE, Drawn, bare, colour_bar, dots, paper, seen_on, shade
from ._cells import bar_beside, check_color, colour_values, group_key, shared_range
from ._groups import groups
from ._marks import halo
from ._options import merged
from ._page import open_page
from ._times import times_with_cells
from ._valley import Coordinate, Valley, valley
from ._valley import coordinate as direction_of

Array = NDArray[np.float64]

#: Cells to draw, at most.
MOST = 4000
#: How a surface is lit.
LIGHT = LightSource(azdeg=300, altdeg=50)


def waddington(
    adata: AnnData,
    coordinate: str | None = None,
    *,
    color: str | None = None,
    cells: bool = True,
    n_paths: int = 30,
    wells: bool | None = None,
    key: str = "jko",
    random_state: int = 0,
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> Drawn:
    """Waddington's landscape: the fitted potential over one coordinate, with time running down the slope.

    Across is a coordinate of the cells, towards the reader is time. Colours are the potential relative to the mean cell
    of that time. Heights are the same without units, with two things added that were not fitted: the surface falls with
    time, and rises to bare walls where there are no cells. Lines are simulated trajectories.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    coordinate
        What separates the fates:

        - a column of ``obs`` with groups, such as cell types: the direction that separates them best at the last time
          point (linear discriminant analysis of the fitted coordinates).
        - a column of ``obs`` with numbers, or a gene.

        Defaults to the first principal axis of the cells of the last time point.
    color
        A column of ``obs`` or a gene to colour the cells by. Defaults to black.
    cells
        Whether to draw the cells at their times.
    n_paths
        The number of simulated trajectories of cells of the first time point.
    wells
        Whether to mark the wells that :func:`scjko.tl.landscape` found. Defaults to whether it was run.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the choice of cells, and of the noise if the energy has any.
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
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization="linear", progress=False)
    >>> sj.pl.waddington(adata, "fate", show=False).get_xlabel()
    'direction that separates fate'
    """
    but = ("norm", "facecolors", "color", "ncols")
    page = open_page(waddington, (ax, show, return_fig), kwargs, Axes3D.plot_surface, Poly3DCollection, but=but)
    seen, color = fitted_cells(adata, key), check_color(adata, color)
    check_integer("n_paths", n_paths, minimum=0)
    check_integer("random_state", random_state, minimum=0)
    times = times_with_cells(seen)
    if len(times) < 2:
        raise ValueError("adata has cells of one time point only; draw this one with sj.pl.landscape.")
    charted = adata.uns.get(seen.keys.landscape)
    if wells and charted is None:
        stored_landscape(seen)  # says what to run
    along = direction_of(seen, coordinate)
    surface = valley(seen, along, random_state)
    axes: Any = page.single(size=(5.2, 4.6), projection="3d")
    axes.computed_zorder = False  # what lies on the surface is drawn after it
    believed = surface.potential[surface.bare < 1]
    shown = Normalize(*np.quantile(believed, (0.01, 0.99)))
    mapped = ScalarMappable(shown, kwargs.pop("cmap", HEIGHTS))
    look: dict[str, Any] = {"rstride": 1, "cstride": 1, "linewidth": 0, "antialiased": False, "shade": False}
    look |= {"facecolors": _lit(surface, mapped.to_rgba(surface.potential)[..., :3], axes), "zorder": 1}
    axes.plot_surface(*np.meshgrid(surface.s, surface.t), surface.heights, **merged(look, kwargs, Poly3DCollection))
    _edges(axes, surface)
    if cells:
        _cells(axes, seen, along, surface, color, random_state)
    if n_paths:
        _paths(axes, seen, along, surface, n_paths, random_state)
    if charted is not None and wells is not False:
        _wells(axes, along, surface, charted)
    _dress(axes, seen, along, surface)
    colour_bar(mapped, [axes], "potential", shrink=0.5, pad=0.02)
    if cells and color is not None:
        shared = shared_range(adata, color)
        bar_beside(axes, color, shared) if shared else group_key(axes, adata, color)
    return page.finish([axes])


def _lit(surface: Valley, colours: NDArray[Any], axes: Axes) -> NDArray[Any]:
    """The colours of the faces: the potential where cells are, grey walls elsewhere, lit from a side."""
    bare = surface.bare[..., None]
    mixed = (1 - bare) * colours + bare * np.array(shade(axes, 0.16))
    return np.asarray(LIGHT.shade_rgb(mixed, surface.heights * 22, blend_mode="soft", fraction=0.7))


def _edges(axes: Any, surface: Valley) -> None:
    """The front face, which gives the surface a body, and the outline of the back."""
    s, front = surface.s, surface.heights[-1]
    bottom = surface.heights.min() - 0.15 * np.ptp(surface.heights)
    face = [*zip(s, front, strict=True), (s[-1], bottom), (s[0], bottom)]
    corners = [[(x, surface.t[-1], z) for x, z in face]]
    axes.add_collection3d(Poly3DCollection(corners, facecolor=shade(axes, 0.3), linewidth=0, zorder=1.4))
    for row in (0, -1):
        line = np.full(len(s), surface.t[row])
        axes.plot(s, line, surface.heights[row], color=shade(axes, 0.55), linewidth=0.8, zorder=1.5)
    axes.set_zlim(bottom, surface.heights.max())


def _cells(
    axes: Any, seen: FittedCells, along: Coordinate, surface: Valley, color: str | None, random_state: int
) -> None:
    """Cells at their own times, a little apart in time so that they are seen."""
    rng = np.random.default_rng(random_state)
    rows = rng.permutation(np.flatnonzero(np.isin(seen.times, times_with_cells(seen))))[:MOST]
    apart = 0.035 * np.ptp(surface.t) * rng.uniform(-1, 1, len(rows))
    t = np.clip(seen.times[rows] + apart, surface.t[0], surface.t[-1])
    s = along.known[rows]
    inside = (s >= surface.s[0]) & (s <= surface.s[-1])
    rows, s, t = rows[inside], s[inside], t[inside]
    look = dots(axes, 5 * len(rows)) | {"depthshade": False, "zorder": 2, "alpha": 0.7, "color": "black"}
    if color is not None:
        look |= _coloured(seen, rows, color, axes)
    axes.scatter(s, t, surface.lift(s, t), **look)


def _coloured(seen: FittedCells, rows: NDArray[np.int64], color: str, axes: Axes) -> dict[str, Any]:
    """The look of cells by a column or a gene."""
    shared = shared_range(seen.adata, color)
    if shared:
        values = colour_values(seen.adata, color).to_numpy(dtype=np.float64)[rows]
        return {"c": values, "color": None, **shared}
    found = groups(seen.adata, "color", color, axes, most=None)
    named = found.labels.iloc[rows].astype(object).map(found.colours)
    return {"color": [shade(axes, 0.3) if not isinstance(one, str) else one for one in named]}


def _paths(axes: Any, seen: FittedCells, along: Coordinate, surface: Valley, n_paths: int, random_state: int) -> None:
    """Simulated trajectories, smooth between the time points."""
    times = times_with_cells(seen)
    here = np.flatnonzero(seen.times == times[0])
    chosen = np.random.default_rng(random_state).choice(here, min(n_paths, len(here)), replace=False)
    knots = seen.energy.simulate(seen.coordinates[chosen], times, random_state=random_state)
    at = np.stack([along(x) for x in knots])
    fine = np.linspace(times[0], times[-1], 120)
    for s in PchipInterpolator(times, at)(fine).T:
        axes.plot(s, fine, surface.lift(s, fine), color=paper(axes), linewidth=0.7, alpha=0.85, zorder=2.5)


def _wells(axes: Any, along: Coordinate, surface: Valley, charted: Any) -> None:
    """Wells of every time, those of one track joined by a line."""
    wells = charted["wells"]
    s, t = along(np.asarray(wells["position"], dtype=np.float64)), np.asarray(wells["time"], dtype=np.float64)
    light = paper(axes)
    for track in np.unique(wells["track"]):
        (colour,) = seen_on([PALETTE[int(track) % len(PALETTE)]], axes)
        own = np.flatnonzero((wells["track"] == track) & (t >= surface.t[0]) & (t <= surface.t[-1]))
        for row in own:
            point = s[row : row + 1], t[row : row + 1], surface.lift(s[row : row + 1], t[row : row + 1])
            face = colour if wells["resting"][row] else light
            look = {"markerfacecolor": face, "markersize": 5.5, "path_effects": halo(light)}
            axes.plot(*point, marker="o", color=colour, zorder=3, **look)


def _dress(axes: Any, seen: FittedCells, along: Coordinate, surface: Valley) -> None:
    """Time runs down to the reader; heights have no units, and no numbers."""
    bare(axes)
    times = times_with_cells(seen)
    axes.set_xlabel(along.name, fontsize=8, labelpad=-12)
    axes.set_ylabel(seen.time_key, fontsize=8, labelpad=4)
    axes.set(xticks=[], zticks=[], xlim=(surface.s[-1], surface.s[0]), ylim=(surface.t[0], surface.t[-1]))
    axes.set_yticks(times, list(map(time_text, times)))
    axes.tick_params(labelsize=7, pad=-1)
    axes.zaxis.line.set_visible(False)
    axes.view_init(elev=42, azim=72)
    axes.set_box_aspect((1.15, 1.3, 0.62), zoom=1.05)
