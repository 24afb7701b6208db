"""Perturbed genes as shifts of state, and what fates, potential and prediction have to say of shifted cells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from anndata import AnnData
from numpy.typing import ArrayLike, NDArray

from ..core.genes.shifts import Ahead, ahead, scaled
from .expression import Expression, expression, genes_at
from .fitted import FittedCells
from .loadings import linear_inward
from .storage.fields import whitening_from_uns

Array = NDArray[np.float64]
Index = NDArray[np.int64]
Encoder = Callable[[Array], ArrayLike]

#: Positions that are evaluated at a time.
AT_ONCE = 50_000
#: The names of the rows that are not fates.
POTENTIAL, POPULATION = "potential", "population"


@dataclass(frozen=True, eq=False)
class Perturbation:
    """Genes and the factors by which their expression is multiplied."""

    name: str
    genes: Index
    factors: Array


def perturbations(names: Any, wanted: Any) -> list[Perturbation]:
    """One perturbation of several genes, several perturbations, or the knock-out of each gene."""
    if wanted is None:
        return [Perturbation(str(name), np.array([g]), np.zeros(1)) for g, name in enumerate(names)]
    if isinstance(wanted, str | Mapping):
        wanted = [wanted]
    if not isinstance(wanted, Iterable):
        raise TypeError(f"genes must be a mapping {{gene: factor}}, or a list of genes or mappings, not {wanted!r}.")
    made = []
    for one in wanted:
        told = dict(one) if isinstance(one, Mapping) else dict.fromkeys([one] if isinstance(one, str) else one, 0.0)
        factors = np.array([_factor(gene, value) for gene, value in told.items()])
        at = genes_at(names, list(told))
        made.append(Perturbation(", ".join(_called(g, f) for g, f in zip(told, factors, strict=True)), at, factors))
    if not made:
        raise ValueError("genes is empty; name at least one, or leave it out for a screen of all.")
    called = [one.name for one in made]
    if len(set(called)) < len(called):
        twice = next(name for name in called if called.count(name) > 1)
        raise ValueError(f"genes lists {twice!r} more than once.")
    return made


def _factor(gene: Any, value: Any) -> float:
    try:
        factor = float(value)
    except (TypeError, ValueError):
        factor = np.nan
    if isinstance(value, bool) or not (np.isfinite(factor) and factor >= 0):
        raise ValueError(
            f"{gene!r}: {value!r} must be a factor of its expression, 0 for a knock-out, 2 for twice as much."
        )
    return factor


def _called(gene: str, factor: float) -> str:
    return str(gene) if factor == 0 else f"{gene} × {factor:g}"


@dataclass(frozen=True, eq=False)
class Shifter:
    """Expression of the cells that are perturbed, and what makes shifts of state of it."""

    x: Array
    """Expression of all genes (n, genes)."""
    logarithmic: bool
    inward: Array | None
    """Where a unit more of each gene moves a cell (genes, d); None with an encoder."""
    encoder: Encoder | None
    std: Array | float

    def shift(self, one: Perturbation) -> Array:
        """The shift of each cell (n, d)."""
        change = scaled_by(self.x[:, one.genes], one.factors, self.logarithmic)
        if self.inward is not None:
            return np.asarray(change @ self.inward[one.genes])
        other = self.x.copy()
        other[:, one.genes] += change
        return (self.encoded(other) - self.encoded(self.x)) / self.std

    def encoded(self, x: Array) -> Array:
        """What the encoder makes of expression."""
        assert self.encoder is not None
        found = np.asarray(self.encoder(x), dtype=np.float64)
        if found.ndim != 2 or len(found) != len(x) or not np.isfinite(found).all():
            raise ValueError(
                f"encoder gave an array of shape {found.shape} for {x.shape}; it must give finite coordinates of "
                "cells, in units of the representation that was fitted."
            )
        return found


def scaled_by(x: Array, factors: Array, logarithmic: bool) -> Array:
    """The change of expression (n, genes) by a factor for each gene."""
    return np.stack([scaled(column, float(f), logarithmic) for column, f in zip(x.T, factors, strict=True)], axis=1)


def shifter(cells: FittedCells, rows: Index, encoder: Encoder | None, loadings: str) -> tuple[Expression, Shifter]:
    """The map from genes to the fitted coordinates, by loadings or an encoder; an error if there is neither."""
    adata = cells.adata
    layer = adata.uns.get("pca", {}).get("params", {}).get("layer")
    found = expression(adata, None if layer is None else str(layer))
    whitening = whitening_from_uns(cells.stored)
    std = 1.0 if whitening is None else whitening.std
    inward = None if encoder is not None else _linear(cells, loadings)
    block = found.matrix[np.sort(rows)]
    x = np.asarray(block.toarray() if hasattr(block, "toarray") else block, dtype=np.float64)
    x = x[np.argsort(np.argsort(rows))]
    if x.min(initial=0.0) < 0:
        raise ValueError(
            f"adata.{found.label} has numbers below zero, as scaled or centred data have; a factor of expression needs "
            "data that are normalised and at most logarithmised. Compute the PCA from those, without sc.pp.scale."
        )
    return found, Shifter(x, "log1p" in adata.uns, inward, encoder, std)


def _linear(cells: FittedCells, loadings: str) -> Array:
    """The loadings, and why there are none for representations that are not linear."""
    try:
        return linear_inward(cells, loadings)
    except (KeyError, ValueError) as error:
        rep = cells.params["use_rep"]
        raise ValueError(
            f"A perturbed gene moves a cell through the loadings of obsm[{rep!r}], and there are none: {error.args[0]} "
            "For a representation that is not linear pass encoder=, a function from expression (cells, genes) to "
            "coordinates."
        ) from error


def check_loaded(names: Any, made: list[Perturbation], inward: Array | None, adata: AnnData) -> None:
    """Raise for genes that had no part in the PCA: no change of them moves a cell."""
    if inward is None:
        return
    for one in made:
        if not inward[one.genes].any():
            listed = ", ".join(map(repr, map(str, names[one.genes])))
            raise ValueError(
                f"{listed} had no part in the PCA (loadings of zero), so that no change of it moves a cell. Compute "
                "the PCA with these genes, for instance with sc.pp.pca(adata, mask_var=None)."
            )


@dataclass(frozen=True, eq=False)
class Judge:
    """What is read of cells at positions: fates by the same chain, the potential, and where they are predicted."""

    cells: FittedCells
    rows: Index
    ways: list[Ahead]
    """The fates of each snapshot as a function of position; empty without fates."""
    names: list[str]
    """Of the fates."""

    @property
    def snapshot(self) -> Index:
        """The snapshot of each cell."""
        return np.searchsorted(self.cells.snapshots.times, self.cells.times[self.rows])

    def values(self, x: Array) -> Array:
        """Probabilities of fates and the potential (m, n, n_fates + 1) at positions (m, n, d) of the same cells."""
        m, n, d = x.shape
        found = np.zeros((m, n, len(self.names) + 1))
        for k in np.unique(self.snapshot):
            here = self.snapshot == k
            points = x[:, here].reshape(-1, d)
            if self.names:
                found[:, here, :-1] = self.ways[k].fates(points).reshape(m, here.sum(), -1)
            time = float(self.cells.snapshots.times[k])
            found[:, here, -1] = self.cells.energy.potential(points, time).reshape(m, -1)
        return found

    def slopes(self, x: Array) -> Array:
        """How these change along each coordinate (n, n_fates + 1, d)."""
        found = np.zeros((len(x), len(self.names) + 1, x.shape[1]))
        for k in np.unique(self.snapshot):
            here = self.snapshot == k
            if self.names:
                found[here, :-1] = self.ways[k].slopes(x[here])
            found[here, -1] = self.cells.energy.gradient(x[here], float(self.cells.snapshots.times[k]))
        return found

    def predicted(self, x: Array) -> Array:
        """Where cells (m, n, d) are at the next time point."""
        found = np.empty_like(x)
        times = self.cells.snapshots.times
        for k in np.unique(self.snapshot):
            here = self.snapshot == k
            moved = self.cells.energy.move(x[:, here].reshape(-1, x.shape[2]), float(times[k]), float(times[k + 1]))
            found[:, here] = moved.positions.reshape(len(x), here.sum(), -1)
        return found


def ways(stored: Any) -> list[Ahead]:
    """The fates of each snapshot as a function of position, by the chain that they were computed with."""
    made = stored.chain()
    if made is None:
        raise ValueError(
            "Fates are of ready-made couplings, which are of measured cells only; run sj.tl.fates(adata, ...) without "
            "couplings= for fates of shifted cells."
        )
    return ahead(made.chain, stored.masses(made, stored.member))
