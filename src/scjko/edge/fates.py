"""Chains of the cells of a fit, and sets of cells that a user names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.fates.absorption import fates as absorbed
from ..core.fates.chain import MOST, Chain, chain_of, entropic_chain
from ..core.fates.transitions import Planned
from ..core.motion.transitions import transitions as moved_to
from ..core.timeline import time_text
from .checks import check_integer, check_positive
from .fitted import FittedCells, fitted_cells
from .growth import gains_of
from .landscape import stored_landscape
from .logging import logger
from .ready_made import ready_made
from .snapshots import Snapshots, obs_column
from .storage.fields import time_values_from_uns

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

#: ε = 4βΔ: the fitted noise decides.
NOISE = "noise"
#: Terminal sets are the wells of the landscape.
WELLS = "wells"
#: Cells near where a member of an energy moves a cell, which it may become.
NEIGHBOURS = 30


@dataclass(frozen=True, eq=False)
class CellChain:
    """The chain of the cells of a fit."""

    cells: FittedCells
    chain: Chain

    @property
    def snapshots(self) -> Snapshots:
        """The cells by time."""
        return self.cells.snapshots

    def by_time(self, values: NDArray[Any]) -> list[Any]:
        """Values of all cells, in the order of the AnnData, as those of each snapshot."""
        return [values[rows] for rows in self.snapshots.rows_by_time]

    def to_rows(self, parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
        """Values of the cells of each snapshot, in the order of the AnnData."""
        return self.snapshots.to_rows(np.concatenate(parts))


def cell_chain(
    adata: AnnData,
    key: str,
    *,
    couplings: Mapping[tuple[Any, Any], Any] | None = None,
    epsilon: float | str | None = None,
    n_representatives: int = MOST,
    random_state: int = 0,
) -> CellChain:
    """The chain of entropic couplings of the cells of a fit, or that of couplings that a user hands in."""
    check_integer("n_representatives", n_representatives, minimum=2)
    check_integer("random_state", random_state, minimum=0)
    cells = fitted_cells(adata, key)
    snapshots = cells.snapshots
    missing = np.setdiff1d(cells.energy.times, snapshots.times)
    if len(missing):
        raise ValueError(
            f"adata has no cells of time {', '.join(map(time_text, missing))}, which was fitted; pass all cells."
        )
    if couplings is not None:
        if epsilon is not None:
            raise ValueError(f"epsilon={epsilon!r} has no effect on ready-made couplings; leave it out.")
        values = time_values_from_uns(cells.stored)
        told = ready_made(couplings, snapshots, adata.obs_names, cells.column, values)
        return CellChain(cells, chain_of(told, snapshots.weights, snapshots.points))
    grows = cells.energy.growth_field is not None and cells.keys.growth_coupled in adata.obs
    made = entropic_chain(
        snapshots.points,
        snapshots.weights,
        gains=gains_of(adata, cells.keys.growth_coupled, snapshots) if grows else None,
        epsilon=_softness(cells, epsilon),
        most=n_representatives,
        random_state=random_state,
    )
    return CellChain(cells, made)


def _softness(cells: FittedCells, epsilon: float | str | None) -> float | list[float] | None:
    """How soft couplings are: a fraction of the mean cost, or as the fitted noise has it in each interval."""
    if epsilon is None:
        return None
    if epsilon != NOISE:
        if isinstance(epsilon, str):
            raise ValueError(f"epsilon={epsilon!r} must be a number above zero, 'noise' or None.")
        return check_positive("epsilon", epsilon)
    beta = float(cells.energy.beta)
    if beta <= 0:
        raise ValueError(
            "epsilon='noise' needs a fit with noise, and this one has none (beta = 0); fit with "
            "terms=('potential', 'internal'), or give epsilon as a fraction of the mean cost."
        )
    return [4 * beta * float(gap) for gap in np.diff(cells.snapshots.times)]


def cell_set(adata: AnnData, name: str, cells: Any) -> Mask:
    """The cells that an argument names: a mask, or their names."""
    if isinstance(cells, str):
        cells = [cells]
    values = cells.to_numpy() if isinstance(cells, pd.Series | pd.Index) else np.asarray(cells)
    if isinstance(cells, pd.Series) and cells.index.isin(adata.obs_names).all() and cells.index.is_unique:
        values = cells.reindex(adata.obs_names).fillna(False).to_numpy() if len(cells) == adata.n_obs else values
    if values.ndim == 1 and values.dtype in (np.dtype(bool), np.dtype(object)) and len(values) == adata.n_obs:
        if all(isinstance(value, bool | np.bool_) for value in values):
            return _not_empty(name, values.astype(bool))
    if values.ndim != 1 or (values.dtype != np.dtype(object) and values.dtype.kind not in "UT"):
        raise TypeError(
            f"{name} must be cells by name, or a mask of True and False for each of the {adata.n_obs} cells, not an "
            f"array of shape {values.shape} and type {values.dtype}."
        )
    strange = pd.Index(values).difference(adata.obs_names)
    if len(strange):
        raise KeyError(f"{name} names cells that adata.obs_names does not have: {_some(strange)}.")
    return _not_empty(name, np.asarray(adata.obs_names.isin(values)))


def terminal_sets(cells: FittedCells, cluster_key: str | None, terminal: Any) -> dict[str, Mask]:
    """The terminal sets by name: labels of the last time point, all or those named, basins of wells, or any cells."""
    adata = cells.adata
    if cluster_key is None and terminal is None:
        raise ValueError(
            "Fates need terminal sets: cluster_key, whose labels at the last time point are the fates, "
            "terminal={name: cells}, or terminal='wells'."
        )
    if cluster_key is None:
        if isinstance(terminal, str) and terminal == WELLS:
            return _basins(cells)
        if not isinstance(terminal, Mapping) or not terminal:
            raise TypeError(
                "terminal must be a mapping {name: cells} of cells by name or as a mask, or 'wells'; or, with "
                "cluster_key, a list of its labels."
            )
        found = {str(name): cell_set(adata, f"terminal[{name!r}]", cells) for name, cells in terminal.items()}
        _check_apart(found, adata)
        return found
    if isinstance(terminal, Mapping):
        raise ValueError("With cluster_key, terminal lists labels of it; for cells of your own leave cluster_key out.")
    return _labelled(adata, cells.snapshots, cluster_key, terminal)


def _basins(cells: FittedCells) -> dict[str, Mask]:
    """The basins of the wells of the last time point in which cells rest; of all wells, if fewer than two are such."""
    last = cells.snapshots.times[-1]
    found, when = stored_landscape(cells), f"the last time point, {time_text(last)}"
    if last not in found["times"] or cells.keys.basin not in cells.adata.obs:
        raise ValueError(
            f"The landscape at adata.uns[{cells.keys.landscape!r}] has no basins at {when}; run "
            f"sj.tl.landscape(adata, key={cells.keys.key!r}) for all time points first."
        )
    wells = {name: np.asarray(column)[found["wells"]["time"] == last] for name, column in found["wells"].items()}
    names, rests = [str(name) for name in wells["name"]], np.asarray(wells["resting"], dtype=bool)
    if len(names) < 2:
        raise ValueError(
            f"The landscape has {'one well' if names else 'no well'} at {when}, and fates need two; lower min_barrier "
            "of sj.tl.landscape, or name terminal cells."
        )
    if rests.sum() < 2:
        logger.info("Cells rest in %d of the %d wells at %s; all wells are fates.", rests.sum(), len(names), when)
        rests[:] = True
    own = (cells.times == last) & obs_column(cells.adata, "landscape", cells.keys.basin).notna().to_numpy()
    basin = cells.adata.obs[cells.keys.basin].astype(str).to_numpy()
    fates = [name for name, rest in zip(names, rests, strict=True) if rest]
    return {name: _not_empty(f"The basin of {name!r}", own & (basin == name)) for name in fates}


def _labelled(adata: AnnData, snapshots: Snapshots, cluster_key: str, terminal: Any) -> dict[str, Mask]:
    labels = obs_column(adata, "cluster_key", cluster_key).astype("category")
    last = np.zeros(adata.n_obs, dtype=bool)
    last[snapshots.rows_by_time[-1]] = True
    when = f"the last time point, {time_text(snapshots.times[-1])}"
    there = [name for name in labels.cat.categories if (last & (labels == name).to_numpy()).any()]
    if not there:
        raise ValueError(f"obs[{cluster_key!r}] has no labels at {when}; name terminal cells with terminal={{...}}.")
    if terminal is not None:
        wanted = [terminal] if isinstance(terminal, str) else list(terminal)
        absent = [name for name in wanted if name not in there]
        if absent or not wanted:
            raise ValueError(
                f"terminal lists {_some(absent) or 'nothing'}, of which obs[{cluster_key!r}] has no cells at {when}; "
                f"there are {_some(there, 30)}."
            )
        there = [name for name in there if name in wanted]
    return {str(name): last & (labels == name).to_numpy() for name in there}


def _not_empty(name: str, mask: Mask) -> Mask:
    if not mask.any():
        raise ValueError(f"{name} is empty; it must have at least one cell.")
    return mask


def _check_apart(sets: Mapping[str, Mask], adata: AnnData) -> None:
    both = np.sum(list(sets.values()), axis=0) > 1
    if both.any():
        names = [name for name, mask in sets.items() if (mask & both).any()]
        raise ValueError(
            f"{both.sum()} cells are in more than one terminal set ({_some(names)}), the first is "
            f"{adata.obs_names[np.argmax(both)]!r}; make the sets disjoint."
        )


def _some(names: Any, most: int = 5) -> str:
    listed = ", ".join(repr(str(name)) for name in list(names)[:most])
    return listed + (", ..." if len(names) > most else "")


def one_time(snapshots: Snapshots, mask: Mask, name: str, time: float | None) -> int:
    """The snapshot of a set of cells, which must be one unless ``time`` chooses it."""
    there = [k for k, rows in enumerate(snapshots.rows_by_time) if mask[rows].any()]
    if time is not None:
        chosen = [k for k in there if snapshots.times[k] == time]
        if not chosen:
            raise ValueError(
                f"{name} has no cells at time={time_text(time)}; it has some at "
                f"{', '.join(time_text(snapshots.times[k]) for k in there)}."
            )
        return chosen[0]
    if len(there) > 1:
        raise ValueError(
            f"{name} has cells of several times, {', '.join(time_text(snapshots.times[k]) for k in there)}; choose one "
            "with time=..."
        )
    return there[0]


def mass_of(
    adata: AnnData, key: str, cells: Any, time: float | str | None, **options: Any
) -> tuple[CellChain, int, Array]:
    """The chain of a fit, the snapshot of a set of cells, and the mass of each cell of it that is in the set (n, 1)."""
    mask = cell_set(adata, "cells", cells)
    made = cell_chain(adata, key, **options)
    k = one_time(made.snapshots, mask, "cells", None if time is None else made.cells.time("time", time))
    return made, k, np.where(made.by_time(mask)[k], made.snapshots.weights[k], 0.0)[:, None]


def of_members(made: CellChain, member: Mask, n_neighbors: int = NEIGHBOURS) -> list[Array]:
    """The fates (n_cells, n_fates) by the motion of each member of the energy; none if it has no members.

    A member moves the cells of a snapshot, and each becomes a cell of the next near where it arrives.
    """
    points, times = made.snapshots.points, made.snapshots.times
    found = []
    for energy in made.cells.energy.members:
        transitions = []
        for k, x in enumerate(points[:-1]):
            moved = energy.move(x, float(times[k]), float(times[k + 1])).positions
            transitions.append(Planned(moved_to(moved, points[k + 1], n_neighbors)))
        chain = replace(made.chain, transitions=tuple(transitions))
        fates = absorbed(chain, made.by_time(member.astype(np.float64)), beyond=0).probabilities
        found.append(made.to_rows(fates))
    return found
