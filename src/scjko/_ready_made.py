"""Couplings that a user hands in: checked, and put into the order of the snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

from ._snapshots import Snapshots
from ._times import read_time
from .core.couplings import Coupling


def ready_made(
    couplings: Mapping[tuple[Any, Any], Any],
    snapshots: Snapshots,
    names: pd.Index,
    column: pd.Series,
    time_values: Mapping[Any, float] | None = None,
) -> list[Coupling]:
    """The coupling of each interval, from ``{(t0, t1): matrix}``.

    A matrix, dense or sparse, has the cells of t0 in its rows and those of t1 in its columns, in the order of the
    AnnData; a DataFrame names them instead. Masses may have any scale: the whole is made to sum to one.
    """
    if not isinstance(couplings, Mapping) or not all(isinstance(key, tuple) and len(key) == 2 for key in couplings):
        raise TypeError("couplings must be a mapping {(t0, t1): matrix} from pairs of times.")
    read = partial(read_time, "couplings", column=column, time_values=time_values)
    told = {(read(t0), read(t1)): matrix for (t0, t1), matrix in couplings.items()}
    wanted = list(zip(map(float, snapshots.times[:-1]), map(float, snapshots.times[1:]), strict=True))
    missing, unknown = [key for key in wanted if key not in told], [key for key in told if key not in wanted]
    if missing or unknown:
        raise ValueError(
            f"couplings must have one matrix for each of {_pairs(wanted)}; missing: {_pairs(missing)}; "
            f"not consecutive time points: {_pairs(unknown)}."
        )
    points, rows = snapshots.points, np.split(snapshots.rows, np.cumsum(snapshots.sizes)[:-1])
    found = []
    for k, key in enumerate(wanted):
        source, target, weight = _entries(
            told[key], _pairs([key]), names[np.sort(rows[k])], names[np.sort(rows[k + 1])]
        )
        # From the order of the AnnData to that of the snapshots.
        here, there = np.argsort(rows[k]), np.argsort(rows[k + 1])
        found.append(Coupling.of(here[source], there[target], weight, points[k], points[k + 1]))
    return found


def _entries(
    matrix: Any, name: str, source_names: pd.Index, target_names: pd.Index
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    if isinstance(matrix, pd.DataFrame):
        matrix = _by_names(matrix, name, source_names, target_names)
    triples = sparse.coo_matrix(matrix)
    if triples.shape != (len(source_names), len(target_names)):
        raise ValueError(
            f"The coupling {name} has shape {triples.shape}, but there are {len(source_names)} and "
            f"{len(target_names)} cells at these times."
        )
    triples.sum_duplicates()
    weight = np.asarray(triples.data, dtype=np.float64)
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(
            f"The coupling {name} has negative, NaN or infinite entries; masses are finite and not below 0."
        )
    if weight.sum() == 0:
        raise ValueError(f"The coupling {name} has no mass at all.")
    kept = weight > 0
    return triples.row[kept].astype(np.int64), triples.col[kept].astype(np.int64), weight[kept]


def _by_names(matrix: pd.DataFrame, name: str, source_names: pd.Index, target_names: pd.Index) -> NDArray[np.float64]:
    for found, expected, side in ((matrix.index, source_names, "rows"), (matrix.columns, target_names, "columns")):
        if not expected.is_unique:
            raise ValueError("Couplings by cell names need unique obs_names; run adata.obs_names_make_unique().")
        strange = found.difference(expected).union(expected.difference(found))
        if len(strange) or not found.is_unique:
            raise ValueError(
                f"The {side} of the coupling {name} are not the cells of that time; they differ in "
                f"{', '.join(map(repr, strange[:5])) or 'repeated names'}."
            )
    return matrix.loc[source_names, target_names].to_numpy(dtype=np.float64)


def _pairs(keys: list[tuple[float, float]]) -> str:
    return ", ".join(f"({t0:g}, {t1:g})" for t0, t1 in keys) or "none"
