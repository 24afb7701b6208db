"""Cells as dots in the plane of a plot, coloured by a column or a gene."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

import numpy as np
import pandas as pd
import scanpy as sc
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize, to_hex
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from ..edge.snapshots import obs_column
from ._canvas import colour_bar, dots, ink, key_beside, names_below, shade
from ._frame import Frame
from ._groups import groups

#: So many black dots are fainter, so that the map beneath them is seen.
MANY = 10_000
#: The quantiles of numbers that have the first and the last colour: single cells would leave all others alike.
OUTLIERS = (0.01, 0.99)


def check_color(adata: AnnData, color: Any) -> str | None:
    """The one column of ``obs`` or gene that ``color`` names, by itself or alone in a list; None if it is None."""
    if color is None:
        return None
    names = list(color) if isinstance(color, Iterable) and not isinstance(color, str) else [color]
    if len(names) != 1:
        raise ValueError(
            f"color={color!r} must name one column of obs or one gene; to colour by several, call once for each, with "
            "ax=... to place the plots side by side."
        )
    if not isinstance(names[0], str):
        raise TypeError(f"color must be the name of a column of obs or of a gene, as text, not {names[0]!r}.")
    colour_values(adata, names[0])
    return str(names[0])


def colour_values(adata: AnnData, color: str) -> pd.Series:
    """The values of a column of ``obs`` or of a gene, from ``adata.raw`` if the gene is left there only."""
    if color in adata.obs.columns:
        return obs_column(adata, "color", color)
    if color in adata.var_names:
        return sc.get.obs_df(adata, [color])[color]
    if adata.raw is not None and color in adata.raw.var_names:
        return sc.get.obs_df(adata, [color], use_raw=True)[color]
    columns = ", ".join(map(repr, adata.obs.columns))
    near = get_close_matches(color, [*map(str, adata.obs.columns), *map(str, adata.var_names)], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise KeyError(
        f"No color={color!r} in adata.obs, which has {columns}, nor among the {adata.n_vars} genes of adata.var_names. "
        f"color names what cells are coloured by, not a colour.{hint}"
    )


def shared_range(adata: AnnData, color: str | None) -> dict[str, Any]:
    """The range of the numbers that cells are coloured by, one for all panels; nothing for groups."""
    if color is None or not numbers(values := colour_values(adata, color)):
        return {}
    known = values.to_numpy(dtype=np.float64)
    known = known[np.isfinite(known)]
    low, high = np.quantile(known, OUTLIERS) if len(known) else (0.0, 1.0)
    if not high > low:  # such as a gene that few cells express
        low, high = (known.min(), known.max()) if len(known) else (0.0, 1.0)
    return {"vmin": float(low), "vmax": float(high), "cmap": "magma"}


def range_key(drawn: list[Axes], color: str, shared: dict[str, Any]) -> None:
    """A colour bar for the cells, beneath the panels."""
    mapped = ScalarMappable(Normalize(shared["vmin"], shared["vmax"]), shared["cmap"])
    colour_bar(mapped, drawn, color, location="bottom", shrink=0.5, aspect=35, pad=0.02)


def bar_beside(axes: Axes, color: str, shared: dict[str, Any]) -> None:
    """A colour bar for the cells, beside the only panel."""
    mapped = ScalarMappable(Normalize(shared["vmin"], shared["vmax"]), shared["cmap"])
    colour_bar(mapped, [axes], color, pad=0.02)


def group_key(axes: Axes, adata: AnnData, color: str) -> None:
    """A legend of all groups, beside the last panel."""
    found = groups(adata, "color", color, axes, most=None)
    look: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 5, "markeredgewidth": 0}
    handles = [Line2D([], [], color=colour, label=name, **look) for name, colour in found.colours.items()]
    columns = -(-len(handles) // names_below(axes))
    key_beside(axes, handles=handles, title=color, title_fontsize=7.5, ncols=columns, handletextpad=0.3)


def draw_cells(axes: Axes, plane: Frame, rows: NDArray[np.int64], color: str | None, options: dict[str, Any]) -> None:
    """Cells of these rows in the plane, by scanpy, coloured by a column of ``obs`` or a gene; without a key."""
    adata = plane.cells.adata
    rows = np.random.default_rng(0).permutation(rows)  # no group lies on top of another
    # A small AnnData of its own: scanpy writes colours into what it draws.
    obs = pd.DataFrame(index=adata.obs_names[rows])
    colours = None
    if color is not None:
        values = colour_values(adata, color)
        if not numbers(values):
            found = groups(adata, "color", color, axes, most=None)
            values, colours = found.labels.cat.set_categories(found.names), list(found.colours.values())
        obs[color] = values.iloc[rows].to_numpy() if colours is None else values.iloc[rows].array
    cells = AnnData(obs=obs, obsm={"X_plane": plane.positions[rows]})
    if colours is not None:
        cells.uns[f"{color}_colors"] = colours
    look = dots(axes, len(rows))
    shown: dict[str, Any] = {
        "na_color": ink(axes) if color is None else to_hex(shade(axes, 0.2)),
        "alpha": 0.8 if color is not None else 0.55 if len(rows) < MANY else 0.3,
        "size": (2 if color is None else 4) * look["s"],  # points of scanpy have a quarter of the area of circles
        "title": "",
        "cmap": "magma",
        "legend_loc": None,
        "colorbar_loc": None,
    }
    before = set(axes.collections)
    sc.pl.embedding(cells, "X_plane", color=color, ax=axes, show=False, **shown | options)
    for made in set(axes.collections) - before:
        made.set_rasterized(look["rasterized"])


def numbers(values: pd.Series) -> bool:
    """Whether values are numbers, not groups."""
    return pd.api.types.is_numeric_dtype(values) and not pd.api.types.is_bool_dtype(values)
