"""Groups of cells and their colours: the same in every panel and every plot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scanpy as sc
from anndata import AnnData
from matplotlib.axes import Axes
from numpy.typing import NDArray

from ..edge.snapshots import obs_column
from ._canvas import PALETTE, seen_on

#: Groups of fewer cells than this have no quartiles to draw: their cells are drawn themselves.
FEWEST = 20
#: More groups than this cannot be distinguished.
MOST_GROUPS = 30


@dataclass(frozen=True, eq=False)
class Groups:
    """Cells by group."""

    labels: pd.Series
    """The group of each cell, with all categories that there are."""
    colours: dict[str, Any]
    """The colour of each group that has cells, by the place of its name among all categories."""

    @property
    def names(self) -> list[str]:
        """The groups that have cells."""
        return list(self.colours)

    def rows(self, name: str) -> NDArray[np.bool_]:
        """The cells of one group."""
        return np.asarray((self.labels == name).to_numpy(), dtype=bool)


def groups(adata: AnnData, argument: str, column: str, axes: Axes, *, most: int | None = MOST_GROUPS) -> Groups:
    """The groups of a column of ``obs``, with colours from ``uns["<column>_colors"]`` if it has one for each."""
    values = obs_column(adata, argument, column)
    labels = values.astype("category")
    labels = labels.cat.rename_categories([str(name) for name in labels.cat.categories])
    present = set(labels.dropna())
    if most is not None and len(present) > most:
        raise ValueError(f"obs[{column!r}] has {len(present)} groups; more than {most} cannot be distinguished.")
    names = list(labels.cat.categories)
    chosen = seen_on(palette(adata, column, len(names)), axes)
    return Groups(labels, {name: colour for name, colour in zip(names, chosen, strict=True) if name in present})


def palette(adata: AnnData, column: str, n_groups: int) -> Sequence[Any]:
    """A colour for each group: those of ``uns``, else ours for seven groups at most, and scanpy's for more."""
    held = [str(colour) for colour in adata.uns.get(f"{column}_colors", ())]
    if len(held) >= n_groups:
        return held[:n_groups]
    for known in (PALETTE, sc.pl.palettes.default_20, sc.pl.palettes.default_28, sc.pl.palettes.default_102):
        if n_groups <= len(known):
            return list(known[:n_groups])
    return [known[k % len(known)] for k in range(n_groups)]
