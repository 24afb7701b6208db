"""AnnData to snapshots: every check of the data that a user hands in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.energy.specification import Terms
from ..core.timeline import time_text
from . import keys as _keys
from .checks import check_integer, check_name
from .times import read_times


@dataclass(frozen=True)
class Snapshots:
    """Cells sorted by time: what the numeric core is given.

    Within a snapshot the cells stand in the order of their coordinates, so that nothing computed from them depends on
    the order of rows in the AnnData they came from.
    """

    coordinates: NDArray[np.float64]
    """Coordinates of all cells (n_cells, n_dims), snapshot after snapshot."""
    times: NDArray[np.float64]
    """The time of each snapshot, increasing."""
    sizes: NDArray[np.int64]
    """The number of cells in each snapshot."""
    rows: NDArray[np.int64]
    """The row in the AnnData of each cell here."""
    cell_weights: NDArray[np.float64]
    """The weight of each cell, one in all for each snapshot."""
    cell_rates: NDArray[np.float64] | None = None
    """The growth rate of each cell, where it is known."""

    @property
    def rates(self) -> list[NDArray[np.float64]] | None:
        """The growth rates of the cells of each snapshot."""
        return None if self.cell_rates is None else np.split(self.cell_rates, np.cumsum(self.sizes)[:-1])

    @property
    def points(self) -> list[NDArray[np.float64]]:
        """The coordinates of each snapshot."""
        return np.split(self.coordinates, np.cumsum(self.sizes)[:-1])

    @property
    def weights(self) -> list[NDArray[np.float64]]:
        """The weights of the cells of each snapshot."""
        return np.split(self.cell_weights, np.cumsum(self.sizes)[:-1])

    @property
    def rows_by_time(self) -> list[NDArray[np.int64]]:
        """The rows in the AnnData of the cells of each snapshot."""
        return np.split(self.rows, np.cumsum(self.sizes)[:-1])

    @property
    def cell_times(self) -> NDArray[np.float64]:
        """The time of each cell here."""
        return np.repeat(self.times, self.sizes)

    def to_rows(self, values: NDArray[Any]) -> NDArray[Any]:
        """``values`` of the cells here, put into the order of rows in the AnnData."""
        placed = np.empty_like(values)
        placed[self.rows] = values
        return placed


def collect(
    coordinates: NDArray[np.floating],
    cell_times: NDArray[np.float64],
    cell_weights: NDArray[np.float64] | None = None,
    cell_rates: NDArray[np.float64] | None = None,
) -> Snapshots:
    """Snapshots of cells with these coordinates, times, weights (equal ones by default) and growth rates."""
    cell_weights = np.ones(len(cell_times)) if cell_weights is None else cell_weights
    ties = (cell_weights,) if cell_rates is None else (cell_rates, cell_weights)
    rows = np.lexsort((*ties, *coordinates.T[::-1], cell_times))
    times, sizes = np.unique(cell_times, return_counts=True)
    weights = cell_weights[rows]
    total = np.add.reduceat(weights, np.cumsum(sizes) - sizes)
    return Snapshots(
        coordinates[rows].astype(np.float64),
        times,
        sizes,
        rows,
        weights / np.repeat(np.maximum(total, 1e-300), sizes),
        None if cell_rates is None else cell_rates[rows],
    )


def check_snapshots(snapshots: Snapshots, time_key: str, terms: Terms) -> None:
    """Raise unless there are two snapshots or more, of as many cells or more as these terms of an energy need."""
    if len(snapshots.times) < 2:
        raise ValueError(
            f"obs[{time_key!r}] holds one time point ({time_text(snapshots.times[0])}); an energy is learned from how "
            "cells move between time points, so at least two are needed."
        )
    if snapshots.sizes.min() < 2:
        lonely = snapshots.times[np.argmin(snapshots.sizes)]
        raise ValueError(
            f"Time point {time_text(lonely)} of obs[{time_key!r}] has one cell; a snapshot needs at least two. "
            "Drop that time point or pool it with a neighbour."
        )
    gaps = np.diff(snapshots.times)
    if gaps.min() < 1e-6 * (snapshots.times[-1] - snapshots.times[0]):
        k = int(np.argmin(gaps))
        raise ValueError(
            f"Time points {snapshots.times[k]} and {snapshots.times[k + 1]} of obs[{time_key!r}] are too close to be "
            "distinguished; round the column."
        )
    for time, weights in zip(snapshots.times, snapshots.weights, strict=True):
        n_cells = np.sum(weights > 0)
        if n_cells < 2:
            raise ValueError(
                f"Time point {time_text(time)} of obs[{time_key!r}] has fewer than two cells of any weight."
            )
        if n_cells < 4 and terms.internal is not None:
            raise ValueError(
                f"Time point {time_text(time)} of obs[{time_key!r}] has {n_cells} cells of any weight; the density "
                "that an internal energy needs takes at least four. Drop that time point, or the term 'internal'."
            )


def cell_weights(adata: AnnData, weight_key: str | None) -> NDArray[np.float64] | None:
    """The weight of every cell, read from ``obs[weight_key]``; None if none is named."""
    if weight_key is None:
        return None
    column = obs_column(adata, "weight_key", weight_key)
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise ValueError(f"obs[{weight_key!r}] is of type {column.dtype}; weights must be numbers.")
    weights = column.to_numpy(dtype=np.float64)
    bad = ~np.isfinite(weights) | (weights < 0)
    if bad.any():
        raise ValueError(
            f"obs[{weight_key!r}] has negative, NaN or infinite weights for {bad.sum()} of {len(weights)} cells, the "
            f"first is row {np.argmax(bad)}; weights are finite and not below 0."
        )
    return weights


def obs_column(adata: AnnData, argument: str, name: str) -> pd.Series:
    """The column of ``obs`` that an argument names."""
    check_name(argument, name)
    if name not in adata.obs.columns:
        columns = ", ".join(map(repr, adata.obs.columns)) or "no columns at all"
        raise KeyError(f"No {argument}={name!r} in adata.obs, which has {columns}.")
    column = adata.obs[name]
    if isinstance(column, pd.DataFrame):
        raise ValueError(f"adata.obs has more than one column named {name!r}; rename or drop the others.")
    return column


def cell_times(adata: AnnData, time_key: str, time_values: Mapping[Any, float] | None = None) -> NDArray[np.float64]:
    """The time of every cell, read from ``obs[time_key]``."""
    return read_times(obs_column(adata, "time_key", time_key), time_values)


def representation(adata: AnnData, use_rep: str | None, n_pcs: int | None) -> tuple[str, NDArray[np.floating]]:
    """The name of the representation to fit and its first ``n_pcs`` components, as float32 or float64."""
    if adata.n_obs == 0:
        raise ValueError("adata has no cells.")
    name = _choose(adata, use_rep)
    values = _dense(adata.obsm[name], name)
    if values.ndim != 2 or values.shape[1] == 0 or not np.issubdtype(values.dtype, np.number):
        raise ValueError(f"obsm[{name!r}] has shape {values.shape} and type {values.dtype}, not cells by numbers.")
    if np.iscomplexobj(values):
        raise ValueError(f"obsm[{name!r}] is complex; coordinates must be real.")
    if n_pcs is not None and check_integer("n_pcs", n_pcs) > values.shape[1]:
        raise ValueError(
            f"n_pcs={n_pcs}, but obsm[{name!r}] has {values.shape[1]} components; request fewer, or compute more "
            f"with sc.pp.pca(adata, n_comps={n_pcs})."
        )
    values = values[:, :n_pcs].astype(np.result_type(values.dtype, np.float32))
    finite = np.isfinite(values).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"obsm[{name!r}] holds NaN or infinite values for {(~finite).sum()} of {len(values)} cells, the first is "
            f"row {np.argmin(finite)}; drop those cells or recompute the representation."
        )
    return name, values


def embedding(adata: AnnData, basis: Any) -> tuple[str, NDArray[np.floating]]:
    """The name and the coordinates of an embedding, called as scanpy calls it: ``"umap"`` for ``obsm["X_umap"]``."""
    check_name("basis", basis)
    found = [name for name in (f"X_{basis}", basis) if name in adata.obsm]
    if not found:
        there = ", ".join(map(repr, adata.obsm)) or "nothing"
        hint = f"; run sc.tl.{basis}(adata) first." if basis in ("umap", "tsne") else "."
        raise KeyError(f"No basis={basis!r} in adata.obsm, which has {there}{hint}")
    return representation(adata, found[0], None)


def neighbours(adata: AnnData, neighbors_key: str | None, use_rep: str) -> str:
    """The name in ``obsp`` of the neighbours that scanpy stored under ``neighbors_key``."""
    held = adata.uns.get(neighbors_key or "neighbors", {})
    name = str(held.get("connectivities_key", "connectivities")) if hasattr(held, "get") else "connectivities"
    if name not in adata.obsp or (neighbors_key is not None and neighbors_key not in adata.uns):
        asked = "" if neighbors_key is None else f", key_added={neighbors_key!r}"
        raise KeyError(f"No neighbours in adata.obsp; run sc.pp.neighbors(adata, use_rep={use_rep!r}{asked}) first.")
    return name


def _choose(adata: AnnData, use_rep: str | None) -> str:
    there = ", ".join(map(repr, adata.obsm)) or "nothing"
    if use_rep is not None:
        check_name("use_rep", use_rep)
        if use_rep not in adata.obsm:
            hint = f"; did you mean 'X_{use_rep}'?" if f"X_{use_rep}" in adata.obsm else "."
            raise KeyError(f"No use_rep={use_rep!r} in adata.obsm, which has {there}{hint}")
        return use_rep
    found = [name for name in _keys.PCA if name in adata.obsm]
    if not found:
        raise KeyError(
            f"No PCA in adata.obsm, which has {there}; run sc.pp.pca(adata) first, or name another representation "
            "with use_rep=..."
        )
    return found[0]


def _dense(values: Any, name: str) -> NDArray[Any]:
    """What stands at ``obsm[name]`` as an array in memory."""
    if isinstance(values, pd.DataFrame):
        no_numbers = [column for column in values if not pd.api.types.is_numeric_dtype(values[column])]
        if no_numbers:
            raise ValueError(
                f"obsm[{name!r}] has columns that are no numbers: {', '.join(map(repr, no_numbers))}; drop them."
            )
        return values.to_numpy()
    if hasattr(values, "toarray"):  # scipy's sparse matrices and arrays
        values = values.toarray()
    elif hasattr(values, "compute"):  # scanpy on dask leaves the PCA lazy
        values = _block_by_block(values)
    return np.asarray(values)


def _block_by_block(values: Any) -> Any:
    """A dask array in memory, without a second copy of it."""
    if getattr(values, "ndim", 0) != 2 or not np.isfinite(values.shape).all():
        return values.compute()
    filled, start = np.empty(values.shape, dtype=values.dtype), 0
    for n_rows in values.chunks[0]:
        block = values[start : start + n_rows].compute()
        filled[start : start + n_rows] = block.toarray() if hasattr(block, "toarray") else block
        start += n_rows
    return filled


@dataclass(frozen=True)
class Whitening:
    """Per-component standardisation of the coordinates: (x − mean) / std."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]

    @classmethod
    def of(cls, coordinates: NDArray[np.floating]) -> Whitening:
        """The whitening that gives these coordinates mean zero and variance one; constant components are centred."""
        # Sorted sums do not depend on the order of cells.
        ordered = np.sort(coordinates.astype(np.float64), axis=0)
        mean, std = ordered.mean(axis=0), ordered.std(axis=0)
        constant = std <= 1e-12 * np.abs(mean)  # up to rounding
        return cls(np.where(constant, ordered[0], mean), np.where(constant, 1.0, std))

    def __call__(self, coordinates: NDArray[np.floating]) -> NDArray[np.floating]:
        """The coordinates standardised."""
        return ((coordinates - self.mean) / self.std).astype(coordinates.dtype)
