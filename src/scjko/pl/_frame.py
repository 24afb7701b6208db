"""The two dimensions of a plot: components of what was fitted, or any embedding of the cells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ..core.timeline import time_text
from ..edge.fitted import FittedCells
from ..edge.snapshots import embedding
from ._canvas import dress
from ._times import times_with_cells

Array = NDArray[np.float64]

#: The fraction of cells at either end of a dimension that may be outliers: further from the rest than these are apart.
FAR = 0.005


@dataclass(frozen=True, eq=False)
class Frame:
    """Cells in the plane of a plot."""

    cells: FittedCells
    columns: tuple[int, int]
    """The components drawn, counted from zero."""
    positions: Array
    """Of each cell (n, 2)."""
    labels: tuple[str, str]
    fitted: bool
    """Whether the plane is one of the fitted coordinates, where the energy has a value at any point."""

    @property
    def limits(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """The range of cells and a little more, in x and in y; without those far from nearly all others."""
        low, high = self.positions.min(axis=0), self.positions.max(axis=0)
        most = np.quantile(self.positions, (FAR, 1 - FAR), axis=0)
        span = np.ptp(most, axis=0)
        if (span > 0).all():
            low, high = np.maximum(low, most[0] - span), np.minimum(high, most[1] + span)
        margin = np.where(high > low, 0.05 * (high - low), 1.0)
        (left, bottom), (right, top) = low - margin, high + margin
        return (left, right), (bottom, top)

    def around(self, time: float) -> NDArray[np.int64]:
        """Rows of the cells that a picture of this time is about: measured then, or just before and just after."""
        present = times_with_cells(self.cells)
        before, after = present[present <= time][-1:], present[present >= time][:1]
        near = [time] if time in present else [*before, *after]
        return np.flatnonzero(np.isin(self.cells.times, near))

    def dress(self, axes: Axes, title: str) -> None:
        """Names of the two dimensions, the range of the cells, and no ticks, whose numbers say nothing."""
        dress(axes, title=title, xlabel=self.labels[0], ylabel=self.labels[1])
        axes.set(xticks=[], yticks=[], xlim=self.limits[0], ylim=self.limits[1])

    def title(self, time: float) -> str:
        """What this time is called: by its label in the time column, if it has one."""
        at = np.flatnonzero(self.cells.times == time)
        label = str(self.cells.column.iloc[at[0]]) if len(at) else ""
        if not any(letter.isalpha() for letter in label):
            return f"{self.cells.time_key} {time_text(time) if len(at) else time_text(round(time, 2))}"
        return label


def frame(cells: FittedCells, basis: str | None, components: Any) -> Frame:
    """Two components of the fitted coordinates, or of the embedding that ``basis`` names."""
    rep, keys = str(cells.params["use_rep"]), cells.keys
    ours = {keys.coordinates, keys.coordinates.removeprefix("X_")}
    if "whitening" not in cells.stored:
        ours |= {rep, rep.removeprefix("X_")}
    fitted = basis is None or basis in ours
    name, values = (rep, cells.coordinates) if fitted else embedding(cells.adata, basis)
    columns = _columns(components, values.shape[1], name, fitted)
    short = "PC" if name in ("X_pca", "pca") else name.removeprefix("X_")
    short = short.upper() if short in ("umap", "phate", "tsne") else short
    first, second = (f"{short}{column + 1}" for column in columns)
    return Frame(cells, columns, values[:, columns].astype(np.float64), (first, second), fitted)


def _columns(components: Any, n_dims: int, name: str, fitted: bool) -> tuple[int, int]:
    """Two components, given as scanpy takes them: "1,2", or two numbers counted from one."""
    parts = components.split(",") if isinstance(components, str) else components
    try:
        first, second = (int(part) for part in parts)
    except (TypeError, ValueError):
        raise ValueError(f"components={components!r} must be two numbers counted from 1, such as (1, 2).") from None
    if n_dims == 1:
        raise ValueError(
            f"obsm[{name!r}] has one component{' that was fitted' * fitted}; a plane to draw on needs two."
        )
    if not (1 <= first <= n_dims and 1 <= second <= n_dims) or first == second:
        what = f"{n_dims} components of obsm[{name!r}] were fitted" if fitted else f"obsm[{name!r}] has {n_dims}"
        raise ValueError(f"components={components!r} must be two different ones from 1 to {n_dims}: {what}.")
    return first - 1, second - 1
