from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
import scanpy as sc
from anndata import AnnData
from numpy.typing import NDArray

from ..core.fates.absorption import BEYOND, Fates
from ..core.fates.absorption import fates as absorbed
from ..core.fates.chain import MOST
from ..edge.checks import check_bool, check_fraction, check_writable
from ..edge.fates import CellChain, cell_chain, of_members, terminal_sets
from ..edge.logging import logger
from ..edge.storage.fields import write_fields

Array = NDArray[np.float64]

#: Cells of whose descendants less than this reaches any fate are called unassigned: their proportions are rounding.
LEAST = 1e-6
#: The category of such cells, and its colour.
UNASSIGNED, GREY = "unassigned", "#bfbfbf"
#: The palette of Okabe and Ito (2008), without the yellow that is hard to see on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")


def fates(
    adata: AnnData,
    cluster_key: str | None = None,
    *,
    terminal: Mapping[str, Any] | Sequence[str] | Literal["wells"] | None = None,
    couplings: Mapping[tuple[Any, Any], Any] | None = None,
    epsilon: float | Literal["noise"] | None = None,
    beyond: float = BEYOND,
    n_representatives: int = MOST,
    key: str = "jko",
    random_state: int = 0,
    copy: bool = False,
) -> AnnData | None:
    """The probability of each fate for every cell, and how committed it is.

    Cells go from snapshot to snapshot by entropic couplings (Schrödinger bridges) of the fitted coordinates. Sources
    grow where the fit has growth. A fate is the first terminal set that the descendants of a cell reach.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    cluster_key
        Column of ``adata.obs``: its labels at the last time point are the fates. Cells without a label belong to none.
    terminal
        The terminal sets:

        - a mapping ``{name: cells}`` of cells by name, or of masks. They may come from any time point; cells are
          absorbed there.
        - with ``cluster_key``, a list of the labels that are fates. Leave out progenitors.
        - ``"wells"``, the wells of :func:`scjko.tl.landscape` at the last time point. A fate is all cells of the basin
          of a well in which cells rest. Where fewer than two are such, all wells are fates.
    couplings
        Couplings ``{(t0, t1): matrix}`` of all consecutive time points to use instead, such as those of moscot or
        Waddington-OT. The masses of their rows say how cells grow.
    epsilon
        Regularisation of the couplings as a fraction of the mean cost. ``"noise"`` takes 4βΔ with the fitted β.
        Defaults to 0.14 / √d in d dimensions.
    beyond
        Probability that a cell of the last time point outside all terminal sets moves on for another interval, by the
        transitions of the last one. With 0, only cells in a set by then count. Has no effect on ``couplings``.
    n_representatives
        Larger snapshots are coupled by as many cluster centres. Each cell still gets its own probabilities.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the choice of representatives.
    copy
        Whether to return a copy instead of writing into ``adata``.

    Returns
    -------
    ``None``, or with ``copy=True`` the AnnData, with these fields (for ``key="jko"``):

    ``obsm["jko_fates"]``
        A DataFrame of probabilities, a column for each fate; rows sum to one. They are shares of the mass of
        descendants, given that they reach a fate. Where none does, the column ``"unassigned"`` is one.
    ``obs["jko_fate"]``
        The most probable fate (categorical; its colours in ``uns["jko_fate_colors"]``).
    ``obs["jko_terminal"]``
        The terminal set that the cell is in, if it is in one (categorical).
    ``obs["jko_commitment"]``
        One minus the entropy of the probabilities, relative to that of equal ones: 0 if all fates are as probable, 1 if
        one is certain. 0 for unassigned cells.
    ``obs["jko_unassigned"]``
        The share of the descendants that reaches no fate.
    ``obsm["jko_fates_std"]``
        If the fitted energy has members: the standard deviation of the probabilities over them, each with its own
        motion. It shows how well the sampled cells determine a fate.
    ``uns["jko_fates"]``
        Names of the fates, and the options.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.tl.fates(adata, "fate")
    >>> list(adata.obsm["jko_fates"].columns)
    ['fate 1', 'fate 2', 'fate 3']
    """
    check_writable(adata, copy)
    check_bool("copy", copy)
    if beyond != 1:
        check_fraction("beyond", beyond)
    options: dict[str, Any] = {"n_representatives": n_representatives, "random_state": random_state}
    made = cell_chain(adata, key, couplings=couplings, epsilon=epsilon, **options)
    table, reached, member, sets = computed(made, cluster_key, terminal, beyond)
    keys = made.cells.keys
    fate = pd.Categorical(table.columns[table.to_numpy().argmax(axis=1)], categories=table.columns)
    colours = [*_colours(adata, cluster_key, sets), GREY][: len(table.columns)]
    which = np.where(member.any(axis=1), member.argmax(axis=1), -1).astype(np.int64)
    options |= {
        "beyond": float(beyond),
        "cluster_key": cluster_key,
        "epsilon": epsilon,
        "couplings": None if couplings is None else "ready-made",
    }
    obsm: dict[str, Any] = {keys.fates: table}
    members = of_members(made, member)
    if len(members) > 1:
        spread = np.std(members, axis=0, ddof=1)
        obsm[keys.fates_std] = pd.DataFrame(spread, index=adata.obs_names, columns=sets)
    if copy:
        adata = adata.copy()
    write_fields(
        adata,
        obs={
            keys.fate: fate,
            keys.terminal: pd.Categorical.from_codes(which, categories=pd.Index(sets)),
            keys.commitment: commitment(table.to_numpy()[:, : len(sets)]),
            keys.unassigned: 1 - reached,
        },
        obsm=obsm,
        uns={
            keys.fates: {
                "names": np.array(sets),
                "params": {name: value for name, value in options.items() if value is not None},
            },
            f"{keys.fate}_colors": np.array(colours),
            f"{keys.terminal}_colors": np.array(colours[: len(sets)]),
        },
    )
    return adata if copy else None


class Computed(NamedTuple):
    """Fates of the cells of an AnnData, in its order."""

    table: pd.DataFrame
    reached: Array
    """The share of the descendants of each cell that reaches a fate."""
    member: NDArray[np.bool_]
    """Which terminal set each cell is in (n_cells, n_fates)."""
    names: list[str]


def computed(made: CellChain, cluster_key: str | None, terminal: Any, beyond: float = BEYOND) -> Computed:
    """The fates of all cells of a chain, with a warning of what cannot be said."""
    adata = made.cells.adata
    sets = terminal_sets(made.cells, cluster_key, terminal)
    member = np.stack(list(sets.values()), axis=1)
    # Walks that never end would make the system of equations singular.
    found = absorbed(made.chain, made.by_time(member.astype(np.float64)), beyond=min(beyond, 1 - 1e-6))
    table, reached = _table(found, list(sets), made.to_rows, adata.obs_names)
    _report(table, reached, member, made.cells.times)
    return Computed(table, reached, member, list(sets))


def commitment(probabilities: Array) -> Array:
    """1 + Σ p log p / log n: how far from equal the probabilities of n fates are; zero where there are none."""
    n_fates = probabilities.shape[1]
    if n_fates == 1:
        return np.asarray(probabilities[:, 0])
    p = np.where(probabilities > 0, probabilities, 1.0)
    certain = 1 + np.sum(p * np.log(p), axis=1) / np.log(n_fates)
    return np.where(probabilities.sum(axis=1) > 0, np.clip(certain, 0.0, 1.0), 0.0)


def _table(found: Fates, names: list[str], to_rows: Any, index: pd.Index) -> tuple[pd.DataFrame, Array]:
    """The probabilities by name, with a column for cells that reach no fate if there are such; and what reaches one."""
    probabilities, reached = to_rows(found.probabilities), to_rows(found.reached)
    lost = reached < LEAST
    probabilities = np.where(lost[:, None], 0.0, probabilities)
    if lost.any():
        taken = UNASSIGNED in names
        names = [*names, f"{UNASSIGNED} " if taken else UNASSIGNED]
        probabilities = np.column_stack([probabilities, lost])
    return pd.DataFrame(probabilities, index=index, columns=names), np.where(lost, 0.0, reached)


def _report(table: pd.DataFrame, reached: Array, member: NDArray[np.bool_], times: Array) -> None:
    """Say how much reaches a fate, and warn of cells that reach none and of fates that none reach."""
    first = times == times.min()
    logger.info(
        "%d fates; %.3g %% of the descendants of the cells of the first time point reach one.",
        member.shape[1],
        100 * reached[first].mean(),
    )
    lost = int(np.sum(reached == 0))
    if lost:
        logger.warning(
            "%d of %d cells reach no fate: obs and obsm have them as 'unassigned'. They may be later than the terminal "
            "sets, or of a lineage that has none.",
            lost,
            len(reached),
        )
    free = member.sum(axis=1) == 0
    for j in range(member.shape[1]):
        if not free.any() or table.to_numpy()[free, j].max() < LEAST:
            logger.warning(
                "No cell outside of the terminal set %r becomes one of it; is it of a time that has cells before it?",
                table.columns[j],
            )


def _colours(adata: AnnData, cluster_key: str | None, names: list[str]) -> list[str]:
    """The colours of the fates: those of their labels, or of a palette."""
    held = adata.uns.get(f"{cluster_key}_colors")
    if cluster_key is not None and held is not None:
        labels = list(map(str, adata.obs[cluster_key].astype("category").cat.categories))
        if len(held) >= len(labels):
            return [str(held[labels.index(name)]) for name in names]
    wide = sc.pl.palettes.default_20 if len(names) <= 20 else sc.pl.palettes.default_102
    palette = PALETTE if len(names) <= len(PALETTE) else wide
    return [str(palette[j % len(palette)]) for j in range(len(names))]
