"""Real data: the default fit against every baseline, on all sets in a folder."""

from __future__ import annotations

import hashlib
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from .. import tl
from ..core.judging.baselines import Cloud
from ..core.judging.metrics import emd
from ..core.judging.names import FLOOR, JUDGED
from ..edge.logging import logger
from ..edge.snapshots import Whitening, collect
from ..edge.validation.folds import Protocol, clouds, thinned
from ..edge.validation.protocols import Cells, Times
from ..pl._validation import LOOKS
from . import _flow
from ._grid import Cell, Row, run_grid, write
from ._sets import SETS, DataSet

#: Cells that a distance compares in a set too large for all of them.
MAX_COMPARED = 4000
#: Couplings of batches that OT-CFM learns from: 5000 updates on four intervals, and with ``full=False`` 1000.
N_BATCHES = {True: 20_000, False: 4000}
#: What baselines of either protocol are hardest to beat as a rule; the table compares with them by name.
USUAL = {"cells": "ot_neighbours", "times": "ot_midpoint_prior"}
#: Ratios that the figure has room for, and its marks beside those of :func:`scjko.pl.validation`: colour, marker, area.
LIMITS = (0.7, 1.6)
OWN_LOOKS = {JUDGED: (*LOOKS[JUDGED], 60), FLOOR: ("0.35", "|", 60), _flow.NAME: ("0.5", "d", 20)}
OUTLINE = {True: 1.2, False: 0.0}
TITLES = {"cells": "held-out cells", "times": "left-out time points"}


def run(
    folder: str | Path | None = None,
    *,
    full: bool = False,
    path: str | Path | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Validate default fits on real data by both protocols, next to all baselines and to OT-CFM.

    Parameters
    ----------
    folder
        Where ``data.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        Five splits of the cells in place of one, all cells of the largest set too, and a longer training of OT-CFM.
    path
        A folder with data sets. Those that it does not have are skipped, and a warning lists them.
    progress
        Whether to show a progress bar.

    Returns
    -------
    The rows of :func:`scjko.tl.validate` for each data set (``set``), with its size (``n_cells``, ``n_dims``) and the
    ``seconds`` of the fit, all baselines and distances. Time points are left out of sets that have three or more. Of a
    set with more than 10⁵ cells 4000 of each population are compared, as ``n_source`` and ``n_target`` say. Rows of
    OT-CFM are there if ``torchcfm`` is installed; a warning says if it is not.

    Raises
    ------
    ValueError
        If the folder has none of the data sets, or one that is not as expected.
    """
    sets = _found(path, full)
    rival = _flow.installed()
    if not rival:
        logger.warning("torchcfm is not installed, so %s is left out: pip install torchcfm", _flow.NAME)
    cells: list[Cell] = []
    for each, adata in sets.values():
        data = hashlib.sha256(adata.obsm["X_pca"].tobytes() + adata.obs["time"].to_numpy().tobytes()).hexdigest()[:12]
        trials = [("cells", seed) for seed in range(5 if full else 1)]
        trials += [("times", 0)] if adata.obs["time"].nunique() > 2 else []
        for protocol, seed in trials:
            cell: Cell = {"set": each.name, "protocol": protocol, "seed": seed, "data": data}
            cells += [cell, {**cell, "n_batches": N_BATCHES[full]}] if rival else [cell]

    def trial(set: str, protocol: str, seed: int, data: str, n_batches: int | None = None) -> list[Row]:
        each, adata = sets[set]
        begun = time.perf_counter()
        held_out = _protocol(protocol, each)
        if n_batches is None:
            rows = _validated(adata, each, held_out, seed)
        else:
            rows = _rival(adata, each, held_out, seed, n_batches)
        about = {"n_cells": adata.n_obs, "n_dims": each.n_dims, "seconds": time.perf_counter() - begun}
        return [{**row, **about} for row in rows]

    frame = run_grid("data", cells, trial, folder, progress=progress)
    write("data", frame, draw(frame), folder)
    return frame


def _found(path: str | Path | None, full: bool) -> dict[str, tuple[DataSet, AnnData]]:
    """The data sets in a folder by name; those that are not there are named in a warning."""
    if path is None or not Path(path).is_dir():
        raise ValueError(f"path={path!r} must be a folder with data sets.")
    wanted = [each for each in SETS if full or not each.large]
    files = {each.name: each.find(Path(path)) for each in wanted}
    missing = dict.fromkeys(each.file for each in wanted if files[each.name] is None)
    if len(missing) == len({each.file for each in wanted}):
        raise ValueError(f"There are no data in {str(path)!r}; expected is at least one of {', '.join(missing)}.")
    if missing:
        logger.warning("Skipped, because the folder has no such file: %s", ", ".join(missing))
    return {each.name: (each, each.load(file)) for each in wanted if (file := files[each.name]) is not None}


def _protocol(name: str, each: DataSet) -> Protocol:
    most = MAX_COMPARED if each.large else None
    return Cells(test_size=0.4, n_splits=1, max_compared=most) if name == Cells.name else Times(max_compared=most)


def _validated(adata: AnnData, each: DataSet, protocol: Protocol, seed: int) -> list[Row]:
    """The errors of the default fit and of all baselines."""

    def no_verdict(record: logging.LogRecord) -> bool:
        return not hasattr(record, "verdict")

    logger.addFilter(no_verdict)  # one split says little, and the table says it of all
    try:
        frame = tl.validate(
            adata,
            "time",
            protocol=protocol,  # type: ignore[arg-type]  # not for users: an object that compares fewer cells
            random_state=seed,
            whiten="all" if each.whiten else False,
            key=None,
            progress=False,
        )
    finally:
        logger.removeFilter(no_verdict)
    return frame.drop(columns="protocol").to_dict("records")  # type: ignore[return-value]


def _rival(adata: AnnData, each: DataSet, protocol: Protocol, seed: int, n_batches: int) -> list[Row]:
    """The errors of OT-CFM on the same folds: cells are moved from one time point to the next, or to one left out."""
    x, times = adata.obsm["X_pca"], adata.obs["time"].to_numpy()
    x = Whitening.of(x)(x) if each.whiten else x
    found = []
    for fold in protocol.folds(collect(x, times), "time", "both", seed):
        train, test = (collect(x[cells], times[cells]) for cells in (fold.train, ~fold.train))
        move = _flow.fit_flow(train.points, train.times, n_batches=n_batches, random_state=fold.seed)
        targets = dict(zip(test.times.tolist(), clouds(test), strict=True))
        # Held-out cells start where there are any, else all cells of the time point before.
        starts = dict(zip(train.times.tolist(), clouds(train), strict=True)) | targets
        for before, after in zip(sorted(starts)[:-1], sorted(starts)[1:], strict=True):
            if after in targets:
                moved = starts[before]._replace(points=move(starts[before].points, before, after))
                found.append(_row(fold.split, after, moved, targets[after], protocol.max_compared))
    return found


def _row(split: int, at: float, moved: Cloud, target: Cloud, most: int | None) -> Row:
    if most is not None:
        moved, target = thinned(moved, most), thinned(target, most)
    error = emd(moved.points, target.points, moved.weight, target.weight)
    sizes = {"n_source": len(moved.weight), "n_target": len(target.weight)}
    return {"split": split, "time": at, "method": _flow.NAME, "emd": error, **sizes}


def _means(frame: pd.DataFrame) -> pd.DataFrame:
    """The mean error of each method over splits and times, by protocol and data set."""
    return frame.pivot_table(index=["protocol", "set"], columns="method", values="emd", sort=False)


def _baselines(means: pd.DataFrame) -> pd.DataFrame:
    """The columns of baselines, which have no training."""
    return means.drop(columns=[JUDGED, FLOOR, _flow.NAME], errors="ignore")


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Errors by protocol and data set, and ratios of the default fit's to those of baselines.

    Means are over splits and times. The best baseline is the one with the smallest mean. Below each protocol are the
    mean ratios.
    """
    means = _means(frame)
    # As objects they stay whole numbers above a mean that has none.
    sizes = frame.groupby(["protocol", "set"], sort=False)[["n_cells", "n_dims"]].first().astype(object)
    baselines = _baselines(means)
    best = baselines.min(axis=1)
    ratios = {"/ best": means[JUDGED] / best}
    ratios |= {f"/ {name}": means[JUDGED] / means[name] for name in USUAL.values() if name in means}
    if _flow.NAME in means:
        ratios[f"/ {_flow.NAME}"] = means[JUDGED] / means[_flow.NAME]
    shown = sizes.assign(**{"scjko": means[JUDGED], "best": best, "best baseline": baselines.idxmin(axis=1)}, **ratios)
    shown["floor"] = means[FLOOR]
    parts = []
    for protocol, part in shown.groupby(level="protocol", sort=False):
        mean = pd.DataFrame(part[list(ratios)].mean()).T
        mean.index = pd.MultiIndex.from_tuples([(protocol, "mean")], names=part.index.names)
        parts += [part, mean]
    return pd.concat(parts)[list(shown)]


def draw(frame: pd.DataFrame) -> Figure:
    """Errors relative to the best baseline, one row for each data set and a panel for each protocol."""
    means = _means(frame)
    ratios = means.div(_baselines(means).min(axis=1), axis=0)
    sets = list(dict.fromkeys(frame["set"]))
    protocols = [name for name in TITLES if name in set(frame["protocol"])]
    size = 2.6 + 3.3 * len(protocols), max(2.6, 1.0 + 0.4 * len(sets))
    figure = Figure(figsize=size, layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(protocols), sharey=True, sharex=True))
    key: dict[str, Any] = {}
    for axes, protocol in zip(panels, protocols, strict=True):
        part = ratios[ratios.index.get_level_values("protocol") == protocol].droplevel("protocol")
        _draw(axes, part.dropna(axis=1, how="all"), sets, key)
        axes.set_title(TITLES[protocol], fontsize=9)
        axes.set_xlabel("error relative to the best baseline", fontsize=8)
    panels[0].set_yticks(range(len(sets)), sets)
    panels[0].set_ylim(len(sets) - 0.5, -0.5)
    figure.legend(key.values(), key.keys(), loc="outside right upper", fontsize=7.5, frameon=False)
    return figure


def _draw(axes: Axes, ratios: pd.DataFrame, sets: list[str], key: dict[str, Any]) -> None:
    """The marks of one protocol: baselines small, the default fit large, and arrows for what is beyond the edge."""
    axes.axvline(1, color="0.35", linewidth=0.8, zorder=1)
    others = [name for name in (FLOOR, *LOOKS, _flow.NAME) if name in ratios and name != JUDGED]
    # One above the other, so that equal errors can be seen; the fit and the floor are in the middle of the row.
    n, half = len(others) - 1, len(others) // 2
    heights = np.concatenate([np.linspace(-0.38, -0.16, half), np.linspace(0.16, 0.38, n - half)])
    shifts = dict(zip(others[1:], heights, strict=True))
    for name in (JUDGED, *others):
        values = ratios[name].dropna()
        row = np.array([sets.index(each) for each in values.index]) + shifts.get(name, 0.0)
        colour, marker, area = OWN_LOOKS.get(name) or (*LOOKS[name], 16)
        kind: dict[str, Any] = {"color": colour, "zorder": 3 if name == JUDGED else 2}
        within = values.between(*LIMITS).to_numpy()
        width = OUTLINE[name == FLOOR]
        drawn = axes.scatter(values[within], row[within], s=area, marker=marker, linewidths=width, **kind)
        key.setdefault(name, drawn)
        for beyond, edge, arrow in zip((values < LIMITS[0], values > LIMITS[1]), LIMITS, "<>", strict=True):
            axes.scatter(
                np.full(beyond.sum(), edge), row[beyond], s=14, marker=arrow, clip_on=False, linewidths=0, **kind
            )
    axes.set_xlim(*LIMITS)
    axes.tick_params(labelsize=8)
    axes.grid(axis="y", color="0.92", linewidth=0.8)
    axes.set_axisbelow(True)
