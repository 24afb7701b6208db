"""What a report is about: a fit, its cells, and how they are to be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.timeline import time_text
from ..edge.checks import check_name
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.keys import Keys
from ..edge.snapshots import embedding, obs_column
from .markup import Html

#: Types of cells that a table names; the others are counted together.
MOST_TYPES = 12
OTHERS = "others"


@dataclass(frozen=True, eq=False)
class Subject:
    """A fit and its cells, with the embedding to draw on and the column of cell types, if there are any."""

    cells: FittedCells
    basis: str | None
    cluster_key: str | None

    @classmethod
    def of(cls, adata: AnnData, key: str, basis: str | None, cluster_key: str | None) -> Subject:
        """The fit under ``key``; raises for names that are not in ``adata``."""
        cells = fitted_cells(adata, key)
        if basis is not None:
            embedding(adata, basis)
        if cluster_key is None:
            cluster_key = _earlier_clusters(cells)
        else:
            obs_column(adata, "cluster_key", cluster_key)
        return cls(cells, basis, cluster_key)

    @property
    def adata(self) -> AnnData:
        """The annotated data."""
        return self.cells.adata

    @property
    def keys(self) -> Keys:
        """Names of the fields of the fit."""
        return self.cells.keys

    @property
    def stored(self) -> Mapping[str, Any]:
        """``uns`` of the fit."""
        return self.cells.stored

    @property
    def plane(self) -> bool:
        """Whether there are two dimensions to draw on."""
        return self.basis is not None or self.cells.coordinates.shape[1] > 1

    @property
    def drawn(self) -> dict[str, Any]:
        """Arguments of every plot in the plane."""
        return {"basis": self.basis, "key": self.keys.key}

    def call(self, tool: str, *arguments: str) -> str:
        """The call of a tool for this fit."""
        named = [] if self.keys.key == Keys().key else [f"key={self.keys.key!r}"]
        return f"sj.tl.{tool}({', '.join(['adata', *arguments, *named])})"

    def time(self, time: float) -> str:
        """A time with the name of its column."""
        return f"{self.cells.time_key} {time_text(time)}"

    def types(self) -> pd.Series | None:
        """The type of each cell as text, in the order of the categories; of many the rare ones are "others"."""
        if self.cluster_key is None:
            return None
        column = obs_column(self.adata, "cluster_key", self.cluster_key)
        named = column.astype(object).where(column.notna(), None).map(str, na_action="ignore")
        counts = named.value_counts().sort_index()
        many = len(counts) > MOST_TYPES
        common = set(
            counts.sort_values(ascending=False, kind="stable").index[: MOST_TYPES - 1] if many else counts.index
        )
        listed = map(str, column.astype("category").cat.categories)
        kept = [name for name in dict.fromkeys(listed) if name in common]
        values = named.where(named.isin(kept) | named.isna(), OTHERS)
        order = [*kept, *([OTHERS] if OTHERS in set(values) - set(kept) else [])]
        return pd.Series(pd.Categorical(values, categories=order), self.adata.obs_names)


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a report; without a body it is left out."""

    name: str
    """Its anchor."""
    title: str
    body: list[Html] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """What was not computed, and the call that would."""


def check_title(title: Any) -> None:
    """Raise unless a title is text, or left to us."""
    if title is not None:
        check_name("title", title)


def _earlier_clusters(cells: FittedCells) -> str | None:
    """The column of cell types that fates or a landscape of this fit were given."""
    for name in (cells.keys.fates, cells.keys.landscape):
        held = cells.adata.uns.get(name)
        params = held.get("params", {}) if isinstance(held, Mapping) else {}
        found = params.get("cluster_key") if isinstance(params, Mapping) else None
        if found is not None and str(found) in cells.adata.obs.columns:
            return str(found)
    return None


def by_group(values: NDArray[Any], groups: Any) -> pd.DataFrame:
    """Means of columns by group, in the order of the groups, with the number of cells of each."""
    columns = pd.DataFrame(np.asarray(values, dtype=np.float64))
    by = columns.groupby(pd.Series(getattr(groups, "array", groups)), observed=True)
    made = by.mean()
    made.insert(0, "cells", by.size())
    return made
