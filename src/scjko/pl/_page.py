"""The page of a plot: its figure and axes, made or taken from the user, saved and returned as scanpy does."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import scanpy as sc
from matplotlib.axes import Axes
from matplotlib.backend_bases import FigureCanvasBase
from matplotlib.figure import Figure

from ..edge.checks import check_integer
from ._canvas import Drawn, figure_of
from ._options import PAGE, Drawer, check_options

#: Panels in a row, at most and, where there are several rows, at least.
ROW = (5, 3)
#: Dots per inch of saved figures, unless ``savefig.dpi`` of matplotlib has a number: what journals want of images.
DPI = 300


@dataclass(frozen=True)
class Page:
    """Where a plot is drawn, and what becomes of it."""

    plot: str
    ax: Any
    show: bool | None
    return_fig: bool
    figsize: tuple[float, float] | None = None
    ncols: int | None = None
    title: str | Sequence[str] | None = None
    save: str | os.PathLike[str] | bool | None = None

    def panels(
        self,
        n_panels: int,
        *,
        size: tuple[float, float] = (2.1, 2.1),
        beside: float = 0.0,
        projection: str | None = None,
    ) -> list[Axes]:
        """As many axes as there are panels: the user's, or those of a new figure in a grid with few gaps.

        ``beside`` is the room in inches for keys beside the panels.
        """
        self._check_title(n_panels)
        if self.ax is not None:
            return _given(self.ax, n_panels, projection)
        n_columns = columns(n_panels) if self.ncols is None else min(self.ncols, n_panels)
        n_rows = -(-n_panels // n_columns)
        figsize = self.figsize or (size[0] * n_columns + 0.6 + beside, size[1] * n_rows + 0.4)
        figure = plt.figure(figsize=figsize, layout="constrained")
        return [figure.add_subplot(n_rows, n_columns, k + 1, projection=projection) for k in range(n_panels)]

    def single(self, *, size: tuple[float, float] = (3.5, 3.0), projection: str | None = None) -> Axes:
        """One axes: the user's, or that of a new figure of one column's width."""
        return self.panels(1, size=(size[0] - 0.6, size[1] - 0.4), projection=projection)[0]

    def finish(self, axes: Sequence[Axes]) -> Drawn:
        """What the user gets; shown by default unless the axes are theirs, as scanpy does it."""
        figure = figure_of(axes[0])
        self._entitle(axes, figure)
        if self.save:
            self._save(figure)
        if self.return_fig:
            return figure
        if sc.settings.autoshow and self.ax is None if self.show is None else self.show:
            plt.show()
            return None
        return axes[0] if len(axes) == 1 else list(axes)

    def _check_title(self, n_panels: int) -> None:
        if self.title is not None and not isinstance(self.title, str) and len(self.title) != n_panels:
            raise ValueError(f"title={list(self.title)!r} must be one text, or {n_panels}, one for each panel.")

    def _entitle(self, axes: Sequence[Axes], figure: Figure) -> None:
        """One text goes above all panels, several above one each."""
        if self.title is None:
            return
        if isinstance(self.title, str) and len(axes) > 1:
            told = figure.get_suptitle()
            figure.suptitle(f"{self.title}\n{told}" if told else self.title, fontsize=10)
            return
        for panel, text in zip(axes, [self.title] if isinstance(self.title, str) else self.title, strict=True):
            panel.set_title(text, fontsize=9)

    def _save(self, figure: Figure) -> None:
        """Write the whole figure, once."""
        assert self.save is not None
        path = saved_as(self.plot, self.save)
        path.parent.mkdir(parents=True, exist_ok=True)
        dpi = plt.rcParams["savefig.dpi"]
        figure.savefig(path, dpi=DPI if isinstance(dpi, str) else dpi, bbox_inches="tight")


def open_page(
    plot: Callable[..., Any],
    handing: tuple[Any, bool | None, bool],
    options: dict[str, Any],
    *drawers: Drawer,
    also: tuple[str, ...] = (),
    but: tuple[str, ...] = (),
) -> Page:
    """The page of a call with these ``ax``, ``show`` and ``return_fig``, and with what ``options`` has for a page.

    That is taken out of ``options``; what is left is checked to go to a drawer.
    """
    taken = {name: options.pop(name) for name in PAGE if name in options and name not in but}
    check_options(plot, options, *drawers, also=also, but=but)
    page = Page(plot.__name__, *handing, **taken)
    _check_page(page, {name for name in taken if taken[name] is not None})
    return page


def columns(n_panels: int) -> int:
    """Panels in a row such that the fewest places of the last row are empty, and with as few rows as that takes."""
    most, least = ROW
    if n_panels <= most:
        return n_panels
    return min(range(most, least - 1, -1), key=lambda n: -n_panels % n)


def saved_as(plot: str, save: str | os.PathLike[str] | bool) -> Path:
    """The file that ``save`` means: as in scanpy what the name of the plot ends in, in its ``figdir``, or a path."""
    settings = sc.settings
    if isinstance(save, os.PathLike) or (isinstance(save, str) and Path(save).name != save):
        path = Path(save)
    else:
        path = Path(settings.figdir) / f"{plot}{'' if save is True else save}"
    if path.suffix[1:].lower() in FigureCanvasBase.get_supported_filetypes():
        return path
    return path.with_name(f"{path.name}{settings.plot_suffix}.{settings.file_format_figs}")


def _given(ax: Any, n_panels: int, projection: str | None) -> list[Axes]:
    """The user's axes, checked."""
    given: list[Any] = list(np.ravel(np.asarray(ax, dtype=object))) if isinstance(ax, Iterable) else [ax]
    if not all(isinstance(axes, Axes) for axes in given):
        raise TypeError(f"ax must be {n_panels} matplotlib Axes, one for each panel, not {ax!r}.")
    if len(given) != n_panels:
        raise ValueError(f"ax must be {n_panels} matplotlib Axes, one for each panel, not {len(given)}.")
    if projection is not None and any(axes.name != projection for axes in given):
        raise ValueError(f"ax must be made with projection={projection!r}: plt.subplots(subplot_kw=...).")
    return given


def _check_page(page: Page, taken: set[str]) -> None:
    """Raise unless the keywords of a page are what they should be."""
    if page.ax is not None and (idle := sorted(taken & {"figsize", "ncols"})):
        raise ValueError(f"{idle[0]} is of a new figure, and ax has axes of yours; leave one of them out.")
    if page.figsize is not None:
        try:
            width, height = (float(side) for side in page.figsize)
            good = 0 < width < np.inf and 0 < height < np.inf
        except (TypeError, ValueError):
            good = False
        if not good:
            raise ValueError(f"figsize={page.figsize!r} must be two numbers, width and height in inches.")
    if page.ncols is not None:
        check_integer("ncols", page.ncols)
    if page.title is not None and not isinstance(page.title, str):
        if not isinstance(page.title, Sequence) or not all(isinstance(text, str) for text in page.title):
            raise TypeError(f"title must be text, or a list of one text for each panel, not {page.title!r}.")
    if not isinstance(page.save, str | os.PathLike | bool | None):
        raise TypeError(f"save must be True, what the name of the file ends in, or a path, not {page.save!r}.")
