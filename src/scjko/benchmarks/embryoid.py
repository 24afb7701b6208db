"""Embryoid bodies: one step ahead for unseen cells, and time points left out (section 4.4)."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from .. import datasets, tl
from ._grid import run_grid, write

#: Published or re-run elsewhere, with the same whitening: protocol, method, EMD.
PUBLISHED = {
    "cells": {"JKOnet* (paper)": 0.624},
    "times": {"OT-CFM": 0.790, "[SF]2M": 0.793, "OT-MFM": 0.713},
}


def run(
    folder: str | Path | None = None,
    *,
    full: bool = False,
    path: str | Path | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Validate default fits on the embryoid bodies by both protocols, whitened over all cells as published.

    Parameters
    ----------
    folder
        Where ``embryoid.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        Five splits of the cells in place of one, and time points left out too.
    path
        A local copy of the data, see :func:`scjko.datasets.embryoid_body`.
    progress
        Whether to show a progress bar.

    Returns
    -------
    The rows of :func:`scjko.tl.validate`, with ``seconds`` for the split, or for all left-out time points together.
    """
    adata = datasets.embryoid_body(path)
    # Results of another file are other results.
    data = {
        "data": hashlib.sha256(adata.obsm["X_pca"].tobytes() + adata.obs["day"].to_numpy().tobytes()).hexdigest()[:12]
    }
    cells = [{"protocol": "cells", "seed": seed, **data} for seed in range(5 if full else 1)]
    cells += [{"protocol": "times", "seed": 0, **data}] if full else []

    def trial(protocol: Literal["cells", "times"], seed: int, data: str) -> list[dict[str, Any]]:
        started = time.perf_counter()
        frame = tl.validate(
            adata, "day", 5, protocol=protocol, n_splits=1, random_state=seed, whiten="all", key=None, progress=False
        )
        frame["seconds"] = time.perf_counter() - started
        return frame.drop(columns="protocol").to_dict("records")  # type: ignore[return-value]

    frame = run_grid("embryoid", cells, trial, folder, progress=progress)
    write("embryoid", frame, draw(frame), folder)
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The mean error of each method over splits and times, by protocol, with published figures below."""
    means = frame.pivot_table(index="method", columns="protocol", values="emd", sort=False)
    for protocol, figures in PUBLISHED.items():
        for method, error in figures.items():
            if protocol in means:
                means.loc[method, protocol] = error
    return means


def draw(frame: pd.DataFrame) -> Figure:
    """The error of each method at each time point, a panel for each protocol."""
    protocols = list(dict.fromkeys(frame["protocol"]))
    figure = Figure(figsize=(5 * len(protocols), 3.6), layout="constrained")
    for axes, protocol in zip(np.atleast_1d(figure.subplots(1, len(protocols))), protocols, strict=True):
        part = frame[frame["protocol"] == protocol]
        for method, rows in part.groupby("method", sort=False):
            means = rows.groupby("time")["emd"].mean()
            axes.plot(means.index, means, "k--" if method == "floor" else "o-", label=method)
        axes.set(title=f'protocol "{protocol}"', xlabel="day predicted", ylabel="EMD")
        axes.legend(fontsize=8)
    return figure
