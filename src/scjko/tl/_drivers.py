from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.genes.association import (
    FOLDS,
    Association,
    Slopes,
    associated,
    by_chance,
    deflated,
    false_discovery,
)
from ..core.genes.sums import Cells, sums
from ..edge.checks import check_integer, check_option, check_writable
from ..edge.drivers import (
    SlopeAt,
    StoredFates,
    check_kept,
    contrasts,
    factor_names,
    fate_slopes,
    mean_slopes,
    of_fates,
    of_potential,
    of_velocity,
    potential_slopes,
    stored_fates,
    strata,
)
from ..edge.expression import Expression, expression
from ..edge.factors import FACTORS
from ..edge.fates import cell_set
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.loadings import has_loadings, linear_inward
from ..edge.logging import logger
from ..edge.storage.fields import write_fields

Array = NDArray[np.float64]
Index = NDArray[np.int64]

KINDS = ("fate", "velocity", "potential")
#: How often labels of terminal cells are exchanged.
EXCHANGES = 50
#: Representatives of large snapshots in the chain that carries them back: more changed no fates that were measured.
REPRESENTATIVES = 500


def drivers(
    adata: AnnData,
    fate: str | tuple[str, str] | None = None,
    *,
    of: Literal["fate", "velocity", "potential"] = "fate",
    factors: Literal["human", "mouse"] | Iterable[str] | None = None,
    cells: Any = None,
    layer: str | None = None,
    use_raw: bool = False,
    couplings: Mapping[tuple[Any, Any], Any] | None = None,
    n_exchanges: int = EXCHANGES,
    key: str = "jko",
    random_state: int = 0,
) -> pd.DataFrame:
    """Genes associated with a fate, with the velocity towards it, or with the potential.

    The effect is a correlation among cells of the same time. Cells of terminal sets are left out, whose fate is given.
    An association is no proof that a gene causes a fate.

    Two null hypotheses are tested, and the p-value is the larger of both:

    - Cells of a time point could exchange their expression: the gene has nothing to do with the fate. The permutation
      distribution is approximated by its exact first three moments.
    - The fate has nothing to do with the state. For fates, terminal cells exchange their labels, and the same chain
      carries these back to all cells. For fields, the members of the energy say how far the field is known; an energy
      without members is taken as exact.

    Fields are fitted to coordinates that are partly noise of the genes themselves. Their p-values are therefore
    relative to the median gene (genomic control): most genes of ``adata`` should have no part in the process.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`, fates by :func:`scjko.tl.fates`, and normalised
        expression.
    fate
        The fate, or two: the first against the second. By default every fate, one after the other.
    of
        What genes are compared with:

        - ``"fate"``: the probability of the fate.
        - ``"velocity"``: the velocity towards the mean of the terminal cells of the fate.
        - ``"potential"``: the potential; genes with a negative effect rise down the slope. Takes no ``fate``.
    factors
        Transcription factors, as a list of genes, or the organism of a list of 747 (JASPAR 2024). Adds a column.
    cells
        The cells to compare, by name or as a mask. Defaults to those in no terminal set.
    layer
        The layer with the expression. Defaults to ``X``.
    use_raw
        Whether to take ``adata.raw`` instead, which may have more genes.
    couplings
        The couplings that were handed to :func:`scjko.tl.fates`, if any were. Without them, labels are not exchanged.
    n_exchanges
        How often the labels of terminal cells are exchanged; 0 tests the first null hypothesis alone.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the exchanges, and of the parts of cells that standard errors leave out.

    Returns
    -------
    A frame with a row for each gene and fate, the smallest p-values first, also stored as ``uns["jko_drivers"]``:

    ``gene``, ``of``
        The gene, and what it is compared with.
    ``effect``, ``error``
        The correlation, and its standard error by leaving out tenths of the cells.
    ``p``, ``q``
        The two-sided p-value, and the rate of false discoveries by Benjamini and Hochberg. NaN for constant genes.
    ``expressed``
        The fraction of the cells with expression other than zero.
    ``factor``
        With ``factors``, whether the gene is one.

    Examples
    --------
    >>> import scanpy as sc
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(400, 200, n_drivers=5)
    >>> sc.pp.normalize_total(adata); sc.pp.log1p(adata); sc.pp.pca(adata)
    >>> sj.tl.fit_energy(adata, "day", n_pcs=5, parametrization="linear", progress=False)
    >>> sj.tl.fates(adata, "fate")
    >>> table = sj.tl.drivers(adata, "fate 1")
    >>> adata.var.loc[table["gene"].head(3), "program"].unique().tolist()
    ['fate 1']
    """
    check_writable(adata, False)
    check_option("of", of, KINDS)
    check_integer("n_exchanges", n_exchanges, minimum=0)
    check_integer("random_state", random_state, minimum=0)
    fitted = fitted_cells(adata, key)
    found = expression(adata, layer, use_raw)
    known = None if factors is None else factor_names(factors, FACTORS)
    values, null, names, free, along = _numbers(fitted, fate, of, couplings, n_exchanges, random_state)
    kept = free if cells is None else cell_set(adata, "cells", cells)
    stratum, fold = strata(fitted, kept, FOLDS, random_state)
    check_kept(adata, values, stratum, names)
    counted = Cells(stratum, fold, values, np.concatenate(null, axis=1))
    made = sums(found.blocks(), counted, found.n_genes)
    slopes = _slopes(fitted, found, stratum, along, random_state)
    chance = np.split(made.null, np.cumsum([part.shape[1] for part in null])[:-1])
    table = _table(found, names, associated(counted, made, slopes), chance, members=of != "fate")
    table["expressed"] = np.tile(made.expressed / max(1, int((stratum >= 0).sum())), len(names))
    if known is not None:
        table["factor"] = table["gene"].isin(known)
        logger.info("%d of %d genes are transcription factors.", found.names.isin(known).sum(), found.n_genes)
    order = np.lexsort((-table["effect"].abs(), table["p"], table["of"].map(names.index)))
    table = table.iloc[order].reset_index(drop=True)
    constant = int(table["p"].isna().sum())
    if constant:
        logger.info("%d rows of genes that are constant among the cells that count have no effect.", constant)
    write_fields(adata, uns={fitted.keys.drivers: table.set_axis(table.index.astype(str))})
    return table


def _numbers(
    fitted: FittedCells, fate: Any, of: str, couplings: Any, n_exchanges: int, random_state: int
) -> tuple[Array, list[Array], list[str], NDArray[np.bool_], SlopeAt | None]:
    """What genes are compared with, the same by chance, their names, the cells that count, and slopes where known."""
    if of == "potential":
        if fate is not None:
            raise ValueError(f"of='potential' takes no fate={fate!r}; leave it out.")
        value, null = of_potential(fitted)
        _say_if_exact(null)
        return value[:, None], [null], ["potential"], np.ones(len(value), dtype=bool), potential_slopes(fitted)
    fates = stored_fates(fitted)
    pairs = contrasts(fates, fate)
    if of == "velocity":
        parts = [of_velocity(fitted, *_arrows(fates, *pair)) for pair in pairs.values()]
        _say_if_exact(parts[0][1])
        return np.stack([v for v, _ in parts], axis=1), [n for _, n in parts], list(pairs), fates.free, None
    made = fates.chain(couplings, REPRESENTATIVES)
    if made is None:
        logger.warning(
            "Fates are of ready-made couplings, which are not stored; labels of terminal cells are not exchanged. Pass "
            "the couplings as couplings=..."
        )
    values, nulls = of_fates(fates, pairs, made, n_exchanges, random_state)
    slopes = None if made is None or couplings is not None else fate_slopes(fates, pairs, made)
    return values, nulls, list(pairs), fates.free, slopes


def _arrows(fates: StoredFates, one: str, two: str | None) -> tuple[list[Array], list[float]]:
    """The mean of the terminal cells of a fate, and that of another to move away from."""
    x = fates.cells.coordinates.astype(np.float64)
    names = [one] if two is None else [one, two]
    return [x[fates.member[:, fates.names.index(name)]].mean(axis=0) for name in names], [1.0, -1.0][: len(names)]


def _say_if_exact(null: Array) -> None:
    if not null.shape[1]:
        logger.warning(
            "The field of this energy has no members, and is taken as exact: p-values do not know its error. Fit with "
            "parametrization=sj.Neural(n_members=8), or 'linear' with sj.Linear(n_members=8)."
        )


def _slopes(
    fitted: FittedCells, found: Expression, stratum: Index, along: SlopeAt | None, random_state: int
) -> Slopes | None:
    """How what genes are compared with changes along coordinates, where these are a PCA of this expression."""
    pca = fitted.adata.uns.get("pca", {}).get("params", {})
    layer = pca.get("layer")
    same = found.label == ("X" if layer is None else f"layers[{str(layer)!r}]")
    if along is None or not same or not has_loadings(fitted):
        return None
    return Slopes(mean_slopes(fitted, stratum, along, random_state), linear_inward(fitted))


def _table(
    found: Expression, names: list[str], made: Association, chance: list[Array], *, members: bool
) -> pd.DataFrame:
    frames = []
    for j, name in enumerate(names):
        p = deflated(made.p[j]) if members else made.p[j]
        if len(chance[j]):
            p = np.where(np.isnan(p), np.nan, np.fmax(p, by_chance(made.total[j], chance[j], members=members)))
        effect, error = made.effect[j], made.error[j]
        columns = {"gene": found.names.astype(str), "of": name, "effect": effect, "error": error, "p": p}
        frames.append(pd.DataFrame({**columns, "q": false_discovery(p)}))
    return pd.concat(frames, ignore_index=True)
