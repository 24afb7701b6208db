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
from matplotlib.colors import Normalize
from numpy.typing import NDArray

from ..edge.snapshots import obs_column
from ._canvas import PALETTE, colour_bar, figure_of
from ._frame import Frame


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
    values = None if color is None else colour_values(adata, color)
    if values is None or not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return {}
    return {"vmin": float(values.min()), "vmax": float(values.max()), "cmap": "magma"}


def range_key(drawn: list[Axes], color: str, shared: dict[str, Any]) -> None:
    """A colour bar for the cells, beneath the panels."""
    mapped = ScalarMappable(Normalize(shared["vmin"], shared["vmax"]), shared["cmap"])
    colour_bar(mapped, drawn, color, location="bottom", shrink=0.5, aspect=35, pad=0.02)


def draw_cells(
    axes: Axes, plane: Frame, rows: NDArray[np.int64], color: str | None, options: dict[str, Any], legend: bool = False
) -> None:
    """Cells of these rows in the plane, by scanpy, coloured by a column of ``obs`` or a gene."""
    adata = plane.cells.adata
    # A small AnnData of its own: scanpy writes colours into what it draws.
    obs = pd.DataFrame({} if color is None else {color: colour_values(adata, color)}, adata.obs_names).iloc[rows]
    cells = AnnData(obs=obs, obsm={"X_plane": plane.positions[rows]})
    if color is not None and f"{color}_colors" in adata.uns and hasattr(obs[color], "cat"):
        cells.uns[f"{color}_colors"] = adata.uns[f"{color}_colors"]
    size = float(np.clip(12000 / max(len(rows), 1), 1.5, 14))
    shown: dict[str, Any] = {
        "na_color": "black",
        "alpha": 0.55,
        "size": size,
        "title": "",
        "legend_fontsize": 7.5,
        "cmap": "magma",
    }
    if color is not None and f"{color}_colors" not in adata.uns:
        shown["palette"] = list(PALETTE) if obs[color].nunique() <= len(PALETTE) else None
    if not legend:
        shown |= {"legend_loc": None, "colorbar_loc": None}
    sc.pl.embedding(cells, "X_plane", color=color, ax=axes, show=False, **shown | options)
    beside = figure_of(axes).axes[-1]
    if legend and color is not None and beside.get_label() == "<colorbar>":
        beside.set_ylabel(color, fontsize=8)
        beside.tick_params(labelsize=7)
