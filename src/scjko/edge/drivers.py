"""The numbers of cells that genes are compared with: fates, and fields of the energy; and what chance makes of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.fates.absorption import absorbed_mass
from ..core.genes.shifts import ahead
from .fates import CellChain, cell_chain
from .fitted import FittedCells
from .logging import logger

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]
Index = NDArray[np.int64]
#: Of a snapshot, by its number, and points (n, d): the slopes of numbers there (n, q, d).
SlopeAt = Callable[[int, Array], Array]

#: Cells of a time point over which slopes are averaged, at most.
SLOPED = 500


@dataclass(frozen=True, eq=False)
class StoredFates:
    """Fates that :func:`scjko.tl.fates` wrote."""

    cells: FittedCells
    table: pd.DataFrame
    names: list[str]
    member: Mask
    """Which terminal set each cell is in (n_cells, n_fates)."""

    @property
    def params(self) -> dict[str, Any]:
        """The options that they were computed with."""
        return dict(self.cells.adata.uns[self.cells.keys.fates]["params"])

    @property
    def assigned(self) -> Mask:
        """Cells whose descendants reach a fate."""
        return np.asarray(self.table[self.names].to_numpy().sum(axis=1) > 0)

    @property
    def free(self) -> Mask:
        """Cells in no terminal set whose descendants reach a fate."""
        return self.assigned & ~self.member.any(axis=1)

    def probabilities(self, fate: str) -> Array:
        """The probability of a fate for every cell."""
        return self.table[fate].to_numpy(dtype=np.float64)

    def chain(self, couplings: Any = None, most: int | None = None) -> CellChain | None:
        """The chain that they were computed with; None if its couplings were handed in and are not at hand.

        With ``most``, one of at most so many representatives.
        """
        told = self.params
        if couplings is None and told.get("couplings") == "ready-made":
            return None
        options = {name: int(told[name]) for name in ("n_representatives", "random_state")}
        options["n_representatives"] = min(options["n_representatives"], most or options["n_representatives"])
        epsilon = told.get("epsilon")
        epsilon = epsilon if epsilon is None or isinstance(epsilon, str) else float(epsilon)
        adata, key = self.cells.adata, self.cells.keys.key
        return cell_chain(adata, key, couplings=couplings, epsilon=epsilon, **options)

    def masses(self, made: CellChain, terminal: Array) -> list[Array]:
        """The mass of the descendants of the cells of each snapshot in each column of ``terminal``, and all of it."""
        beyond = min(float(self.params["beyond"]), 1 - 1e-6)
        return absorbed_mass(made.chain, made.by_time(terminal.astype(np.float64)), beyond)

    def exchanged(self, made: CellChain, n: int, random_state: int) -> dict[str, Array]:
        """Probabilities of each fate (n_cells, n) where terminal cells of a time point exchange their labels.

        The chain stays, and so does which cells are terminal: smooth functions of the state, of labels without meaning.
        """
        rng = np.random.default_rng(random_state)
        drawn = np.zeros((len(self.member), n * len(self.names) + 1))
        times = self.cells.times
        for time in np.unique(times):
            # In an order that does not depend on the rows of cells.
            rows = made.snapshots.rows_by_time[int(np.searchsorted(made.snapshots.times, time))]
            labelled = rows[self.member[rows].any(axis=1)]
            for b in range(n):
                drawn[labelled, b : n * len(self.names) : n] = self.member[rng.permutation(labelled)]
        drawn[:, -1] = self.member.any(axis=1)
        mass = made.to_rows(self.masses(made, drawn))[:, :-1]
        share = np.divide(
            mass[:, :-1], mass[:, -1:], out=np.zeros((len(mass), drawn.shape[1] - 1)), where=mass[:, -1:] > 0
        )
        return {name: share[:, j * n : (j + 1) * n] for j, name in enumerate(self.names)}


def stored_fates(cells: FittedCells) -> StoredFates:
    """The fates in ``obsm`` with the sets that they end in; an error if there are none."""
    adata, keys = cells.adata, cells.keys
    if keys.fates not in adata.obsm or keys.fates not in adata.uns or keys.terminal not in adata.obs:
        raise KeyError(
            f"No fates in adata.obsm[{keys.fates!r}]; run sj.tl.fates(adata, ..., key={keys.key!r}) first, or compare "
            "genes with the potential by of='potential'."
        )
    names = [str(name) for name in adata.uns[keys.fates]["names"]]
    label = adata.obs[keys.terminal].astype(object).to_numpy()
    member = np.stack([label == name for name in names], axis=1)
    return StoredFates(cells, adata.obsm[keys.fates], names, member.astype(bool))


def contrasts(fates: StoredFates, fate: Any) -> dict[str, tuple[str, str | None]]:
    """The fates to compare with, by what they are called: one against all others, or against one other."""
    if fate is None:
        if len(fates.names) == 1:
            raise ValueError(
                f"There is one fate, {fates.names[0]!r}, which every cell has; compute fates with two or more terminal "
                "sets, or compare genes with the potential by of='potential'."
            )
        return {name: (name, None) for name in fates.names}
    chosen = [fate] if isinstance(fate, str) else list(fate)
    for name in chosen:
        if name not in fates.names:
            raise KeyError(f"fate={name!r} is none of the fates, {', '.join(map(repr, fates.names))}.")
    if len(chosen) > 2 or len(set(chosen)) < len(chosen):
        raise ValueError(f"fate={fate!r} must be one fate, or two different ones that are compared.")
    if len(chosen) == 2:
        return {f"{chosen[0]} against {chosen[1]}": (chosen[0], chosen[1])}
    return {chosen[0]: (chosen[0], None)}


def of_fates(
    fates: StoredFates, pairs: dict[str, tuple[str, str | None]], made: CellChain | None, n: int, random_state: int
) -> tuple[Array, list[Array]]:
    """The probability of each fate, less that of the one it is compared with, and the same with exchanged labels."""
    values = [
        fates.probabilities(one) - (0 if two is None else fates.probabilities(two)) for one, two in pairs.values()
    ]
    if made is None or n == 0:
        return np.stack(values, axis=1), [np.zeros((len(v), 0)) for v in values]
    chance = fates.exchanged(made, n, random_state)
    null = [chance[one] - (0 if two is None else chance[two]) for one, two in pairs.values()]
    return np.stack(values, axis=1), null


def of_potential(cells: FittedCells) -> tuple[Array, Array]:
    """The potential at each cell, and the deviations of the members from it, as large as its error."""
    energy, x, t = cells.energy, cells.coordinates, cells.times
    if not energy.has_std or energy.spread is None:
        return energy.potential(x, t), np.zeros((len(x), 0))
    each = np.stack([member.potential(x, t) for member in energy.members], axis=1)
    return energy.potential(x, t), energy.spread.potential * (each - each.mean(axis=1, keepdims=True))


def of_velocity(cells: FittedCells, towards: Sequence[Array], weight: Sequence[float]) -> tuple[Array, Array]:
    """The velocity of each cell towards centres (d,), times a weight each; and the deviations of members from it."""
    energy, x, t = cells.energy, cells.coordinates.astype(np.float64), cells.times
    arrow = np.zeros(x.shape)
    for centre, sign in zip(towards, weight, strict=True):
        line = centre - x
        arrow += sign * line / np.maximum(np.linalg.norm(line, axis=1, keepdims=True), 1e-12)
    value = (energy.velocity(x, t) * arrow).sum(axis=1)
    if not energy.has_std or energy.spread is None:
        return value, np.zeros((len(x), 0))
    each = np.stack([(member.velocity(x, t) * arrow).sum(axis=1) for member in energy.members], axis=1)
    return value, energy.spread.velocity * (each - each.mean(axis=1, keepdims=True))


def fate_slopes(fates: StoredFates, pairs: dict[str, tuple[str, str | None]], made: CellChain) -> SlopeAt:
    """How the probabilities of fates change along coordinates, by the same chain; 0 in the last snapshot."""
    ways = ahead(made.chain, fates.masses(made, fates.member.astype(np.float64)))
    which = [(fates.names.index(one), None if two is None else fates.names.index(two)) for one, two in pairs.values()]

    def at(k: int, x: Array) -> Array:
        if k == len(ways):
            return np.zeros((len(x), len(which), x.shape[1]))
        each = ways[k].slopes(x)
        return np.stack([each[:, one] - (0 if two is None else each[:, two]) for one, two in which], axis=1)

    return at


def potential_slopes(cells: FittedCells) -> SlopeAt:
    """How the potential changes along coordinates."""
    times = cells.snapshots.times
    return lambda k, x: cells.energy.gradient(x, float(times[k]))[:, None]


def mean_slopes(cells: FittedCells, stratum: Index, along: SlopeAt, random_state: int) -> Array:
    """The mean slopes over cells of each time point that counts (n_strata, q, d), of at most :data:`SLOPED` cells."""
    rng = np.random.default_rng(random_state)
    found = []
    for k, rows in enumerate(cells.snapshots.rows_by_time):
        here = rows[stratum[rows] >= 0]
        if len(here):
            drawn = here[np.sort(rng.permutation(len(here))[:SLOPED])]
            found.append(along(k, cells.coordinates[drawn].astype(np.float64)).mean(axis=0))
    return np.stack(found)


def strata(cells: FittedCells, kept: Mask, n_folds: int, random_state: int) -> tuple[Index, Index]:
    """The time point of each cell that counts, −1 of others, and a part of the cells for each.

    Time points with fewer than three such cells do not count.
    """
    stratum = np.full(len(kept), -1)
    fold = np.zeros(len(kept), dtype=np.int64)
    rng = np.random.default_rng(random_state)
    few = 0
    for rows in cells.snapshots.rows_by_time:
        here = rows[kept[rows]]
        if len(here) < 3:
            few += len(here)
            continue
        stratum[here] = stratum.max(initial=-1) + 1
        fold[here] = rng.permutation(np.arange(len(here)) % n_folds)
    if stratum.max(initial=-1) < 0:
        raise ValueError(
            "No time point has three cells that count: genes are compared among cells of the same time that are in no "
            "terminal set. Name smaller terminal sets in sj.tl.fates, or the cells with cells=..."
        )
    if few:
        logger.info("%d cells of time points with fewer than three cells that count are left out.", few)
    return stratum, fold


def factor_names(factors: Any, organisms: dict[str, list[str]]) -> set[str]:
    """Transcription factors by organism, or those that a user lists."""
    if isinstance(factors, str):
        if factors not in organisms:
            raise ValueError(
                f"factors={factors!r} is no organism with a list; choose {', '.join(map(repr, organisms))}, or list "
                "genes."
            )
        return set(organisms[factors])
    return {str(name) for name in factors}


def check_kept(adata: AnnData, values: Array, stratum: Index, names: Sequence[str]) -> None:
    """Raise for numbers that are the same for all cells of a time point, at all of them."""
    for name, column in zip(names, values.T, strict=True):
        spread = max(float(np.ptp(column[stratum == s])) for s in range(stratum.max() + 1))
        if spread <= 1e-9 * max(1.0, float(np.abs(column).max())):
            raise ValueError(
                f"{name!r} is the same for all {int((stratum >= 0).sum())} of {adata.n_obs} cells that count, so that "
                "no gene can be associated with it; name other cells with cells=..., or other terminal sets."
            )
