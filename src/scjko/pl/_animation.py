from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from anndata import AnnData
from matplotlib import animation as mpl_animation
from matplotlib.axes import Axes
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure

from ..edge.checks import check_integer
from ..edge.fitted import fitted_cells
from ._canvas import HEIGHTS, colour_bar, dots, figure_of, ink, xy
from ._frame import frame
from ._page import open_page
from ._surface import fill, nice_levels, note, surfaces
from ._times import keep_drawable, texts, times_with_cells

#: By the ending of the file: the writer that makes it, and what to install where it is not there.
WRITERS = {".gif": ("pillow", "pip install pillow"), ".mp4": ("ffmpeg", "the program ffmpeg")}

#: Keywords of contourf that no signature names.
UNNAMED = ("corner_mask", "algorithm")

#: Cells that are followed, at most.
MOST = 3000


def animation(
    adata: AnnData,
    path: str | Path | None = None,
    components: tuple[int, int] | str = (1, 2),
    *,
    n_frames: int = 40,
    fps: int = 10,
    others: str = "mean",
    key: str = "jko",
    ax: Axes | Iterable[Axes] | None = None,
    show: bool | None = None,
    return_fig: bool = False,
    **kwargs: Any,
) -> mpl_animation.FuncAnimation | Figure:
    """The landscape moving through time, with the cells of the first time point followed over it.

    Of more than 3000 cells as many are followed, drawn at random.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    path
        Where to write it: a ``.gif``, or an ``.mp4``, which needs the program ffmpeg. By default nothing is written.
    components
        The two fitted components to draw, counted from one.
    n_frames
        The number of pictures.
    fps
        Pictures per second.
    others
        Where the components that are not drawn are held, as for :func:`scjko.pl.level_curves`.
    key
        The ``key_added`` of the fit.
    ax
        Axes to draw on; by default those of a new figure.
    show
        Takes no effect: an animation is shown as ``HTML(made.to_jshtml())`` in a notebook.
    return_fig
        Whether to return the figure, with its first picture drawn.
    kwargs
        ``figsize`` and ``title`` as in scanpy. Extra keywords go to :meth:`matplotlib.axes.Axes.contourf`.

    Returns
    -------
    The animation, or the figure if ``return_fig``.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> figure = sj.pl.animation(adata, n_frames=3, return_fig=True)
    >>> figure.axes[0].get_title()
    'day 0.0'
    """
    page = open_page(
        animation,
        (ax, show, return_fig),
        kwargs,
        Axes.contourf,
        ContourSet,
        also=UNNAMED,
        but=("color", "levels", "save", "ncols"),
    )
    seen = fitted_cells(adata, key)
    check_integer("n_frames", n_frames, minimum=2)
    check_integer("fps", fps)
    writer = None if path is None else _writer(path, fps)
    plane = frame(seen, None, components)
    present = times_with_cells(seen)
    if len(present) < 2:
        raise ValueError(
            f"adata has cells of one time point only, {texts(present)}; an animation runs from the first time point "
            "with cells to the last. Pass cells of two or more, or draw this one with sj.pl.level_curves."
        )
    (first, *_, last), fitted = present, list(seen.energy.times)
    keep_drawable(seen, fitted, [first <= t <= last for t in fitted])
    times = np.linspace(first, last, n_frames)
    found = surfaces(plane, list(times), others, n_points=60)
    levels = nice_levels(found, 20)
    here = np.flatnonzero(seen.times == first)
    followed = np.random.default_rng(0).permutation(here)[:MOST]
    paths = seen.energy.simulate(seen.coordinates[followed], times)[..., plane.columns]
    axes = page.single(size=(4.2, 3.4))
    told = note(plane, others)

    def draw(k: int) -> list[Any]:
        axes.clear()
        filled = fill(axes, found[k], levels, fade=True, **{"cmap": HEIGHTS} | kwargs)
        moved = axes.scatter(*xy(paths[k]), color=ink(axes), alpha=0.6, zorder=3, **dots(axes, len(paths[k])))
        lines = [page.title, f"{seen.time_key} {times[k]:.1f}", told]
        plane.dress(axes, "\n".join(str(line) for line in lines if line))
        return [filled, moved]

    figure = figure_of(axes)
    colour_bar(draw(0)[0], [axes], "potential", pad=0.02)
    if return_fig and writer is None:  # matplotlib warns of an animation that nobody plays
        return figure
    made = mpl_animation.FuncAnimation(figure, draw, frames=n_frames, interval=1000 / fps)
    if writer is not None:
        made.save(str(path), writer=writer, dpi=120)
    return figure if return_fig else made


def _writer(path: str | Path, fps: int) -> Any:
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"path must be the name of a file that ends in {' or '.join(WRITERS)}, not {path!r}.")
    path = Path(path)
    if path.suffix.lower() not in WRITERS:
        raise ValueError(f"path={str(path)!r} must end in {' or '.join(WRITERS)}.")
    name, remedy = WRITERS[path.suffix.lower()]
    if not mpl_animation.writers.is_available(name):
        raise RuntimeError(f"Writing {path.suffix} files needs {remedy}; .gif works without it.")
    if not path.resolve().parent.is_dir():
        raise FileNotFoundError(f"path={str(path)!r}: the folder {str(path.parent)!r} does not exist.")
    return mpl_animation.writers[name](fps=fps)
