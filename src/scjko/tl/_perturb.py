from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.genes.association import false_discovery
from ..core.genes.shifts import against, matched
from ..edge.checks import check_bool, check_integer, check_writable
from ..edge.drivers import stored_fates
from ..edge.fates import cell_set
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.logging import logger
from ..edge.perturbation import (
    AT_ONCE,
    POPULATION,
    POTENTIAL,
    Encoder,
    Judge,
    Perturbation,
    Shifter,
    check_loaded,
    perturbations,
    scaled_by,
    shifter,
    ways,
)
from ..edge.storage.fields import write_fields

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Cells that are perturbed, at most, and random genes that each gene is compared with.
CELLS, RANDOM = 1000, 200
#: Perturbations up to which the predicted population is computed by default.
FEW = 50


def perturb(
    adata: AnnData,
    genes: Mapping[str, float] | Sequence[str | Mapping[str, float]] | None = None,
    *,
    cells: Any = None,
    encoder: Encoder | None = None,
    population: bool | None = None,
    n_cells: int = CELLS,
    n_random: int = RANDOM,
    loadings: str = "PCs",
    key: str = "jko",
    random_state: int = 0,
) -> pd.DataFrame:
    """What a knock-out or a fold change of genes does to the state of cells, and so to their fates and potential.

    **It moves the state and not the regulation.** The expression of the genes alone is changed, and the loadings say
    where that puts a cell. Other genes do not respond, and landscape and chain of cells stay as they were fitted.
    A gene whose correlates are left in place looks weaker than it is, and a marker looks like a cause.

    The p-value compares a gene with random genes of much the same mean expression, whose loadings are scaled to the
    length of its own: does it point to a fate more than a gene of this weight does by chance? Effects enter it to first
    order, for all genes by one matrix product.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy` to a PCA, and ``X`` as it was for the PCA: normalised,
        at most logarithmised, not scaled. Fates by :func:`scjko.tl.fates` are taken if there are some.
    genes
        What is changed:

        - ``{gene: factor}``: one perturbation of these genes together. The factor multiplies the expression, on the
          scale of counts where ``X`` is logarithmised by scanpy: 0 is a knock-out, 2 twice as much.
        - a list of genes, or of such mappings: one perturbation each. ``["A", {"A": 0, "B": 0}]`` turns A off, then
          both.
        - ``None``: the knock-out of each gene, one by one.
    cells
        The cells that are perturbed, by name or as a mask. Defaults to those in no terminal set. Those of the last time
        point are left out.
    encoder
        For a representation that is not linear: a function from dense expression (cells, genes) to its coordinates.
    population
        Whether to move the perturbed cells to the next time point. By default for up to 50 perturbations.
    n_cells
        Cells that are perturbed, at most; of more, as many are drawn.
    n_random
        Random genes that each gene is compared with.
    loadings
        Key in ``adata.varm`` of the loadings.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the random genes and of the choice of cells.

    Returns
    -------
    A frame with a row for each perturbation and each ``of``, also stored as ``uns["jko_perturb"]``:

    ``perturbation``, ``of``
        The genes; and what changes: a fate, ``"potential"``, or ``"population"``.
    ``effect``, ``error``
        The mean change over the cells, and its standard error over them: of the probability of a fate, which is the
        change of its share among the descendants; of the potential; and for the population the distance between cells
        predicted with and without the perturbation, at the next time point.
    ``p``, ``q``
        Of fates and the potential: against random genes, and the rate of false discoveries over perturbations.

    Examples
    --------
    >>> import scanpy as sc
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(400, 200, n_drivers=5)
    >>> sc.pp.normalize_total(adata); sc.pp.log1p(adata); sc.pp.pca(adata)
    >>> sj.tl.fit_energy(adata, "day", n_pcs=5, parametrization="linear", progress=False)
    >>> sj.tl.fates(adata, "fate")
    >>> table = sj.tl.perturb(adata, {"gene 0": 0.0, "gene 1": 0.0})
    >>> table["of"].tolist()
    ['fate 1', 'fate 2', 'fate 3', 'potential', 'population']
    >>> bool(table["effect"].iloc[0] < 0)
    True
    """
    check_writable(adata, False)
    for name, value in (("n_cells", n_cells), ("n_random", n_random)):
        check_integer(name, value, minimum=10)
    check_integer("random_state", random_state, minimum=0)
    if population is not None:
        check_bool("population", population)
    fitted = fitted_cells(adata, key)
    if encoder is not None and not callable(encoder):
        raise TypeError(f"encoder={encoder!r} must be a function from expression (cells, genes) to coordinates.")
    rng = np.random.default_rng(random_state)
    judge = _judge(fitted, cells, n_cells, rng)
    found, shifting = shifter(fitted, judge.rows, encoder, loadings)
    made = perturbations(found.names, genes)
    if genes is None and shifting.inward is not None:
        made = [one for one in made if shifting.inward[one.genes].any()]
    check_loaded(found.names, made, shifting.inward, adata)
    logger.info(
        "%d perturbations of %d cells: they move the state through %s, and not the regulation.",
        len(made),
        len(judge.rows),
        "the encoder" if encoder is not None else "the loadings",
    )
    x = fitted.coordinates[judge.rows].astype(np.float64)
    shifts = _effects(judge, x, made, shifting, len(made) <= FEW if population is None else population)
    chance = _p_values(judge, x, made, shifting, n_random, rng)
    table = _table(judge, made, shifts, chance)
    write_fields(adata, uns={fitted.keys.perturb: table.set_axis(table.index.astype(str))})
    return table


def _judge(fitted: FittedCells, cells: Any, n_cells: int, rng: np.random.Generator) -> Judge:
    """The cells that are perturbed, and what is read of them."""
    adata, keys = fitted.adata, fitted.keys
    stored = stored_fates(fitted) if keys.fates in adata.obsm else None
    if stored is None:
        logger.info("No fates in adata.obsm[%r]: the potential and the population alone are judged.", keys.fates)
    kept = np.ones(adata.n_obs, dtype=bool) if stored is None else stored.free
    if cells is not None:
        kept = cell_set(adata, "cells", cells)
    early = fitted.times < fitted.snapshots.times[-1]
    rows = np.concatenate([part[(kept & early)[part]] for part in fitted.snapshots.rows_by_time])
    if not len(rows):
        raise ValueError(
            "There are no cells to perturb: those of the last time point and of terminal sets are left out. Name cells "
            "of an earlier time with cells=..."
        )
    if len(rows) > n_cells:
        rows = rows[np.sort(rng.permutation(len(rows))[:n_cells])]
    return Judge(fitted, rows, [] if stored is None else ways(stored), [] if stored is None else stored.names)


def _effects(
    judge: Judge, x: Array, made: list[Perturbation], shifting: Shifter, population: bool
) -> list[list[tuple[float, float]]]:
    """The mean change of each fate, of the potential and of the population, with its standard error."""
    before = judge.values(x[None])[0]
    at = judge.predicted(x[None])[0] if population else None
    size = max(1, AT_ONCE // len(x))
    rows = []
    for start in range(0, len(made), size):
        shifted = x + np.stack([shifting.shift(one) for one in made[start : start + size]])
        change = list(np.moveaxis(judge.values(shifted) - before, 2, 0))
        if at is not None:
            change.append(np.linalg.norm(judge.predicted(shifted) - at, axis=2))
        for b in range(len(shifted)):
            rows.append([(float(c[b].mean()), float(c[b].std(ddof=1) / np.sqrt(len(x)))) for c in change])
    return rows


def _p_values(
    judge: Judge, x: Array, made: list[Perturbation], shifting: Shifter, n_random: int, rng: np.random.Generator
) -> Array:
    """Of each perturbation, for each fate and the potential (n, n_fates + 1), against random genes."""
    slopes = judge.slopes(x) / len(x)
    level = shifting.x.mean(axis=0)
    pool = np.flatnonzero(shifting.x.any(axis=0))
    if shifting.inward is None:
        return np.stack(
            [_encoded(slopes, one, shifting, matched(level, one.genes, pool, n_random, rng)) for one in made]
        )
    length = np.linalg.norm(shifting.inward, axis=1)
    pool = pool[length[pool] > 0]
    factors = {float(f) for one in made for f in one.factors}
    each = {f: _first_order(slopes, shifting, f) for f in factors}
    p = np.full((len(made), slopes.shape[1]), np.nan)
    for i, one in enumerate(made):
        effect, null = np.zeros(slopes.shape[1]), np.zeros((n_random, slopes.shape[1]))
        random = matched(level, one.genes, pool, n_random, rng)
        for gene, factor, others in zip(one.genes, one.factors, random, strict=True):
            effect += each[float(factor)][gene]
            null += each[float(factor)][others] * (length[gene] / length[others])[:, None]
        if effect.any():
            p[i] = against(effect, null)
    return p


def _first_order(slopes: Array, shifting: Shifter, factor: float) -> Array:
    """The change of each fate and of the potential by each gene (n_genes, n_fates + 1)."""
    assert shifting.inward is not None
    n, q, d = slopes.shape
    change = scaled_by(shifting.x, np.full(shifting.x.shape[1], factor), shifting.logarithmic)
    moved = (slopes.reshape(n, q * d).T @ change).reshape(q, d, -1)
    return np.einsum("qdg,gd->gq", moved, shifting.inward)


def _encoded(slopes: Array, one: Perturbation, shifting: Shifter, random: Index) -> Array:
    """p-values of one perturbation through an encoder, which is called for each random set of genes."""
    effect = np.einsum("nqd,nd->q", slopes, shifting.shift(one))
    draws = [Perturbation("", genes, one.factors) for genes in random.T]
    null = np.stack([np.einsum("nqd,nd->q", slopes, shifting.shift(draw)) for draw in draws])
    return against(effect, null)


def _table(judge: Judge, made: list[Perturbation], shifts: list[list[tuple[float, float]]], p: Array) -> pd.DataFrame:
    names = [*judge.names, POTENTIAL, POPULATION][: len(shifts[0])]
    p = np.column_stack([p, np.full((len(made), len(names) - p.shape[1]), np.nan)])
    q = np.stack([false_discovery(column) for column in p.T], axis=1)
    rows = [
        {"perturbation": one.name, "of": name, "effect": effect, "error": error, "p": p[i, j], "q": q[i, j]}
        for i, (one, own) in enumerate(zip(made, shifts, strict=True))
        for j, (name, (effect, error)) in enumerate(zip(names, own, strict=True))
    ]
    return pd.DataFrame(rows)
