from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.fates.absorption import fates
from ..core.fates.chain import chain_of
from ..core.fates.pooled import unmoved, walked
from ..core.judging.clones import agreement, hits, judge_clones, parts_of_correlation, standard_error
from ..core.judging.names import JUDGED, UNMOVED
from ..edge.checks import check_adata
from ..edge.clones import Sisters, clone_matrix, sisters
from ..edge.fates import CellChain, cell_chain
from ..edge.fitted import fitted_cells
from ..edge.keys import Keys
from ..edge.logging import logger
from ..edge.storage.fields import write_fields
from ..edge.validation.kept import kept, side_by_side_with
from ._fates import computed

Array = NDArray[np.float64]

CLONES = "clones"


def validate_clones(
    adata: AnnData,
    clone_key: str | None,
    cluster_key: str | None,
    terminal: Any,
    keys: tuple[str | None, str],
    random_state: int,
) -> pd.DataFrame:
    """The agreement of fates with those of clonal sisters, beside baselines; see :func:`scjko.tl.validate`."""
    check_adata(adata)
    key, key_added = keys
    if clone_key is None or key is None:
        raise ValueError(
            "protocol='clones' needs clone_key, a column of obs with labels of clones or a matrix in obsm, and the key "
            "of a fit."
        )
    held = kept(adata, key_added)
    clones = clone_matrix(adata, clone_key)
    cells = fitted_cells(adata, key)
    if cluster_key is None and terminal is None:
        predicted, member = _stored(adata, cells.keys)
    else:
        made = cell_chain(adata, key, random_state=random_state)
        predicted, _, member, names = computed(made, cluster_key, terminal)
        predicted = predicted[names]
    truth = sisters(clones, cells.times, member.astype(np.float64), clone_key)
    predictions = _predictions(predicted, member.astype(np.float64), truth, cells, random_state)
    verdict = judge_clones(predictions, truth.shares, truth.clone)
    frame = _frame(predictions, truth, cells.times)
    (logger.info if verdict.better else logger.warning)("%s", verdict.text, extra={"verdict": True})
    write_fields(adata, uns=side_by_side_with(held, key_added, frame, CLONES, verdict.text))
    frame.attrs["verdict"] = verdict.text
    return frame


def _stored(adata: AnnData, keys: Keys) -> tuple[pd.DataFrame, NDArray[np.bool_]]:
    """Fates that were computed before, and the terminal sets that they are of."""
    if keys.fates not in adata.obsm or keys.terminal not in adata.obs:
        raise KeyError(
            f"No adata.obsm[{keys.fates!r}]; run sj.tl.fates(adata, ...) first, or give cluster_key or terminal."
        )
    names = [str(name) for name in adata.uns[keys.fates]["names"]]
    table = adata.obsm[keys.fates]
    member = np.stack([(adata.obs[keys.terminal] == name).to_numpy() for name in names], axis=1)
    return table[names], member


def _predictions(
    predicted: pd.DataFrame, member: Array, truth: Sisters, cells: Any, random_state: int
) -> dict[str, Array]:
    """The fates of the cells judged, by method."""
    x, rows = cells.coordinates.astype(np.float64), truth.rows
    there = member.sum(axis=1) > 0
    base = np.tile(member.sum(axis=0) / member.sum(), (len(rows), 1))
    found = {
        JUDGED: _filled(predicted.to_numpy()[rows], base),
        UNMOVED: unmoved(x[rows], x[there], member[there]),
        "neighbours": walked(x, member, random_state)[rows],
        "couplings": base,
        "frequency": base,
    }
    try:
        plans = cells.couplings
    except ValueError as error:  # ready-made ones are not kept
        logger.info("Without the baseline of couplings alone: %s", error)
        del found["couplings"]
        return found
    snapshots = cells.snapshots
    alone = CellChain(cells, chain_of(plans, snapshots.weights, snapshots.points))
    shares = alone.to_rows(fates(alone.chain, alone.by_time(member), beyond=0).probabilities)
    return found | {"couplings": _filled(shares[rows], base)}


def _filled(shares: Array, base: Array) -> Array:
    """The shares, or where none are predicted those of all terminal cells."""
    return np.where(shares.sum(axis=1, keepdims=True) > 0, shares, base)


def _frame(predictions: dict[str, Array], truth: Sisters, times: Array) -> pd.DataFrame:
    """The agreement of each method at the time of the cells judged."""
    rows = []
    for time in np.unique(times[truth.rows]):
        here = times[truth.rows] == time
        sizes = int(here.sum()), len(np.unique(truth.clone[here]))
        for method, predicted in predictions.items():
            found = agreement(predicted[here], truth.shares[here])
            errors = [
                standard_error(measure(predicted[here], truth.shares[here]), truth.clone[here])
                for measure in (hits, parts_of_correlation)
            ]
            rows.append((CLONES, 0, float(time), method, float("nan"), *sizes, *found, *errors))
    columns = ["protocol", "split", "time", "method", "emd", "n_source", "n_target"]
    measures = ["top1", "correlation", "auroc", "calibration", "top1_error", "correlation_error"]
    return pd.DataFrame(rows, columns=[*columns, *measures])
