from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData

from ..core.compute.parallel import check_client, side_by_side
from ..core.transport.budget import LARGEST_EXACT, distances_at_once
from ..core.transport.couplings import Coupling, couple
from ..edge.checks import check_bool, check_integer, check_new_key, check_option, check_positive
from ..edge.fitting import couple_snapshots, fit_snapshots, memory_limit
from ..edge.folds import Fold, Row, cells_rows, compared, leave_out_cells, leave_out_times, times_rows
from ..edge.logging import logger, progress_bar
from ..edge.settings import check_options
from ..edge.snapshots import Snapshots, Whitening, cell_times, cell_weights, check_snapshots, collect, representation
from ..edge.storage import write_fields
from ..edge.verdict import verdict
from ._fit_energy import fit_energy

#: Options of a fit that make no sense for many fits of some of the cells.
_NOT_HERE = ("couplings", "key_added", "copy", "whiten", "client")


def validate(
    adata: AnnData,
    time_key: str,
    n_pcs: int | None = None,
    *,
    protocol: str = "cells",
    test_size: float = 0.4,
    n_splits: int = 5,
    whiten: bool | str = False,
    key_added: str = "jko_validation",
    random_state: int = 0,
    progress: bool = True,
    client: Any = None,
    **fit_options: Any,
) -> pd.DataFrame:
    """Whether an energy predicts cells it has not seen, and better than can be done without training.

    Fits with some cells held out, predicts those, and compares by exact earth mover's distance, beside predictors that
    need no training. A log line says in plain words what came out. Exact distances take memory by the product of the
    numbers of cells: what does not fit into ``memory_limit`` is refused before anything is fitted.

    Parameters
    ----------
    adata
        Annotated data with a representation of the cells.
    time_key
        Column of ``adata.obs`` with the time of each cell, as for :func:`scjko.tl.fit_energy`.
    n_pcs
        Number of components of the representation to use; all by default.
    protocol
        What is held out:

        - ``"cells"``: some cells of every time point. Those of one are moved to the next and compared with those there.
        - ``"times"``: every time point but the first and last, in turn. It is interpolated from its neighbours, by the
          rule of :func:`scjko.tl.interpolate`.
    test_size
        Fraction of the cells of each time point that is held out.
    n_splits
        Number of random splits into training and held-out cells.
    whiten
        Whether to standardise each component, by the training cells. ``"all"`` takes held-out cells into account, as
        published protocols do: use it to compare with their figures only.
    key_added
        Where in ``adata.uns`` the result is stored.
    random_state
        Seed of the first split and fit; the others follow it.
    progress
        Whether to show a progress bar.
    client
        A ``distributed.Client``: the fits are then made on its Dask cluster.
    fit_options
        Further options of :func:`scjko.tl.fit_energy`.

    Returns
    -------
    A tidy frame, stored in ``uns["jko_validation"]`` too, with the columns ``protocol``, ``split``, ``time`` (of the
    cells predicted), ``method``, ``emd``, ``n_source``, ``n_target``. Its ``attrs["verdict"]``, which files do not
    keep, says it in words. The methods are

    ``scjko``
        The fitted energy.
    ``persistence``
        No move.
    ``ot_nearest``, ``ot_neighbours``
        Protocol "cells": moved as the nearest training cell is by exact optimal transport, or as the nearest five.
    ``ot_midpoint``, ``mixture``
        Protocol "times": the displacement interpolation of the neighbours, or their cells as they are.
    ``floor``
        How far two samples of one population are apart: training cells of the time point against the held-out ones
        or, with protocol "times", half of its cells against the other half. It depends on the size of the samples,
        ``n_source`` and ``n_target``; a prediction that is smoother than a sample, or larger, can lie below it.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(600)
    >>> frame = sj.tl.validate(adata, "day", use_rep="X_latent", n_splits=1, epochs=20, progress=False)
    >>> sorted(frame["method"].unique())
    ['floor', 'ot_nearest', 'ot_neighbours', 'persistence', 'scjko']
    """
    check_option("protocol", protocol, ["cells", "times"])
    whiten = whiten if isinstance(whiten, str) else check_bool("whiten", whiten)
    check_option("whiten", whiten, [False, True, "all"])
    n_splits = check_integer("n_splits", n_splits)
    asked = _asked(fit_options, {"time_key": time_key, "n_pcs": n_pcs, "random_state": random_state})
    check_options(adata, asked, copy=False)
    check_client(client)
    if protocol == "times" and asked["scheme"] == "explicit":
        raise ValueError(
            "protocol='times' interpolates from both sides, and scheme='explicit' knows no way back; use 'both' or "
            "'implicit'."
        )
    _check_key(adata, key_added)
    _, coordinates = representation(adata, asked["use_rep"], n_pcs)
    times = cell_times(adata, time_key, asked["time_values"])
    weights = cell_weights(adata, asked["weight_key"])
    if weights is not None:  # cells that weigh nothing are not there
        coordinates, times, weights = coordinates[weights > 0], times[weights > 0], weights[weights > 0]
    everything = collect(coordinates, times, weights)
    check_snapshots(everything, time_key, asked["terms"])
    if protocol == "cells":
        folds = leave_out_cells(everything, check_positive("test_size", test_size), n_splits, random_state)
    else:
        folds = leave_out_times(times, time_key, random_state)
    pairs = [pair for fold in folds for pair in compared(everything, fold, protocol)]
    at_once = distances_at_once(pairs, memory_limit(asked), os.cpu_count() or 1)
    if whiten == "all":
        coordinates = Whitening.of(coordinates)(coordinates)

    def run(fold: Fold) -> list[Row]:
        x = Whitening.of(coordinates[fold.train])(coordinates) if whiten is True else coordinates
        train, test = (
            collect(x[rows], times[rows], None if weights is None else weights[rows])
            for rows in (fold.train, ~fold.train)
        )
        check_snapshots(train, time_key, asked["terms"])
        seeded = {**asked, "random_state": fold.seed}
        couplings, solvers = couple_snapshots(train, seeded, progress=False)
        energy = fit_snapshots(train, couplings, seeded, progress=False).energy
        rows_of = cells_rows if protocol == "cells" else times_rows
        rows = rows_of(energy, train, test, _exact(train, couplings, solvers))
        return [{"protocol": protocol, "split": fold.split, **row} for row in rows]

    with progress_bar(len(folds), "validation", enabled=progress) as bar:
        done = side_by_side(run, folds, bar.update, at_once=at_once, client=client)
    frame = pd.DataFrame([row for rows in done for row in rows])
    frame.attrs["verdict"], beaten = verdict(frame)
    (logger.info if beaten else logger.warning)("%s", frame.attrs["verdict"], extra={"verdict": True})
    write_fields(adata, uns={key_added: frame.copy()})
    return frame


def _exact(train: Snapshots, couplings: list[Coupling], solvers: list[str]) -> list[Coupling]:
    """Exact couplings, if they can be had, for the predictors without training, which a blurred one would weaken."""
    too_large = np.max(train.sizes[:-1] * train.sizes[1:]) > LARGEST_EXACT
    return couplings if set(solvers) == {"exact"} or too_large else couple(train.points, train.weights)


def _asked(fit_options: Mapping[str, Any], ours: Mapping[str, Any]) -> dict[str, Any]:
    """All options of a fit: those given, ours, and the defaults of the rest."""
    parameters = inspect.signature(fit_energy).parameters
    taken = [name for name in parameters if name not in (*_NOT_HERE, *ours, "adata", "progress")]
    for name in fit_options:
        if name not in taken:
            raise TypeError(f"validate takes no {name!r}; options of a fit that it passes on are {', '.join(taken)}.")
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}
    return {**defaults, **fit_options, **ours}


def _check_key(adata: AnnData, key: str) -> None:
    check_new_key(key)
    held = adata.uns.get(key)
    if held is not None and not (isinstance(held, pd.DataFrame) and "emd" in held):
        raise ValueError(f"key_added={key!r} would overwrite adata.uns[{key!r}]; choose another name.")
