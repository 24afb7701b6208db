"""Couplings that a user hands in: checked, and put into the order of the snapshots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from ..core.timeline import time_text
from ..core.transport import Coupling, OperatorCoupling
from .snapshots import Snapshots
from .times import read_time

Order = NDArray[np.integer]


class _Side(NamedTuple):
    """The cells of one snapshot."""

    names: pd.Index
    """In the order of the AnnData."""
    order: Order
    """Where each of these stands in the snapshot."""
    points: NDArray[np.float64]
    """In the order of the snapshot."""


def ready_made(
    couplings: Mapping[tuple[Any, Any], Any],
    snapshots: Snapshots,
    names: pd.Index,
    column: pd.Series,
    time_values: Mapping[Any, float] | None = None,
) -> list[Coupling | OperatorCoupling]:
    """The coupling of each interval, from ``{(t0, t1): matrix}``.

    A matrix, dense, sparse or a linear operator, has the cells of t0 in its rows and those of t1 in its columns, in the
    order of the AnnData. A DataFrame names them instead, and so does what has ``obs_names`` and ``var_names``, such as
    an AnnData. Masses may have any scale: the whole is made to sum to one.
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
    points, rows = snapshots.points, snapshots.rows_by_time
    found: list[Coupling | OperatorCoupling] = []
    for k, key in enumerate(wanted):
        sides = [_Side(names[np.sort(rows[i])], np.argsort(rows[i]), points[i]) for i in (k, k + 1)]
        found.append(_coupling(told[key], _pairs([key]), *sides))
    return found


def as_matrices(couplings: Sequence[Coupling], snapshots: Snapshots) -> dict[tuple[float, float], sparse.csr_matrix]:
    """Couplings ``{(t0, t1): matrix}`` with the cells in the order of the AnnData, as :func:`ready_made` takes them."""
    rows = snapshots.rows_by_time
    ranks = [np.argsort(np.argsort(row)) for row in rows]
    matrices = {}
    for k, coupling in enumerate(couplings):
        place = ranks[k][coupling.source], ranks[k + 1][coupling.target]
        pair = float(snapshots.times[k]), float(snapshots.times[k + 1])
        matrices[pair] = sparse.csr_matrix((coupling.weight, place), shape=coupling.shape)
    return matrices


def _coupling(told: Any, name: str, source: _Side, target: _Side) -> Coupling | OperatorCoupling:
    matrix, rows, columns = _unnamed(told, name, source, target)
    if np.shape(matrix) != (len(source.names), len(target.names)):
        raise ValueError(
            f"The coupling {name} has shape {np.shape(matrix)}, but there are {len(source.names)} and "
            f"{len(target.names)} cells at these times."
        )
    # From the order of the matrix to that of the AnnData and on to that of the snapshots.
    here, there = source.order[rows], target.order[columns]
    if isinstance(matrix, LinearOperator):
        return _operator(matrix, name, here, there, source.points, target.points)
    triples = sparse.coo_matrix(matrix)
    triples.sum_duplicates()
    weight = np.asarray(triples.data, dtype=np.float64)
    _check_masses(weight, name)
    kept = weight > 0
    entries = here[triples.row[kept]], there[triples.col[kept]], weight[kept]
    return Coupling.of(*entries, source.points, target.points)


def _operator(matrix: LinearOperator, name: str, here: Order, there: Order, x: Any, y: Any) -> OperatorCoupling:
    source, target = np.argsort(here), np.argsort(there)
    coupling = OperatorCoupling.of(
        lambda z: np.asarray(matrix.matmat(z[there]), dtype=np.float64)[source],
        lambda z: np.asarray(matrix.rmatmat(z[here]), dtype=np.float64)[target],
        x,
        y,
    )
    # Its entries cannot be looked at; the masses of the cells can, up to rounding.
    for masses in (coupling.source_weight, coupling.transposed.source_weight):
        _check_masses(np.where(np.abs(masses) < 1e-6 * np.abs(masses).max(), 0.0, masses), name)
    return coupling


def _check_masses(weight: NDArray[np.float64], name: str) -> None:
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ValueError(
            f"The coupling {name} has negative, NaN or infinite entries; masses are finite and not below 0."
        )
    if weight.sum() == 0:
        raise ValueError(f"The coupling {name} has no mass at all.")


def _unnamed(told: Any, name: str, source: _Side, target: _Side) -> tuple[Any, Order, Order]:
    """A coupling without names, and where its rows and columns stand among the cells of its times."""
    if isinstance(told, pd.DataFrame):
        matrix, found = told.to_numpy(), (told.index, told.columns)
    elif hasattr(told, "obs_names") and hasattr(told, "var_names"):  # AnnData, and operators that know their cells
        matrix, found = getattr(told, "X", told), (told.obs_names, told.var_names)
    else:
        return told, np.arange(len(source.names)), np.arange(len(target.names))
    rows, columns = (
        _places(names, expected, f"The {side} of the coupling {name}")
        for names, expected, side in zip(found, (source.names, target.names), ("rows", "columns"), strict=True)
    )
    return matrix, rows, columns


def _places(found: pd.Index, expected: pd.Index, what: str) -> Order:
    if not expected.is_unique:
        raise ValueError("Couplings by cell names need unique obs_names; run adata.obs_names_make_unique().")
    strange = found.difference(expected).union(expected.difference(found))
    if len(strange) or not found.is_unique:
        raise ValueError(
            f"{what} are not the cells of that time; they differ in "
            f"{', '.join(map(repr, strange[:5])) or 'repeated names'}."
        )
    return np.asarray(expected.get_indexer(found))


def _pairs(keys: list[tuple[float, float]]) -> str:
    return ", ".join(f"({time_text(t0)}, {time_text(t1)})" for t0, t1 in keys) or "none"
