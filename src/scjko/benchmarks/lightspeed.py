"""Every functional as a potential, learned by every model: error, time per epoch, convergence (section 4.1)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.figure import Figure

from ..edge.checks import check_integer
from ._functionals import functionals as known_functionals
from ._generate import generate, snapshots_of
from ._grid import chosen, run_grid, write
from ._trial import MODELS, Fitted, fit_model, judge
from .baselines import RIVALS, fit_rival, rivals

#: One-step error of the paper's public implementation: its potential model, 1000 epochs, 40 to 150 s each on two cores.
#: Its rotational and double_exp differ from the paper's formulas.
REFERENCE = {
    **{"styblinski_tang": 0.0909, "holder_table": 0.0456, "flowers": 0.0031, "oakley_ohagan": 0.0328},
    **{"watershed": 0.0007, "ishigami": 0.0051, "friedman": 0.0470, "sphere": 0.152, "bohachevsky": 0.219},
    **{"wavy_plateau": 0.204, "zigzag_ridge": 0.0116, "double_exp": 0.0193, "relu": 0.0096},
}


def run(
    folder: str | Path | None = None,
    *,
    full: bool = False,
    functionals: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    n_seeds: int = 1,
    progress: bool = True,
) -> pd.DataFrame:
    """Fit models to particles that roll down each functional, and judge them on held-out particles.

    Parameters
    ----------
    folder
        Where ``lightspeed.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        The paper's size, 1000 particles and fits with their defaults, in place of a quick one.
    functionals
        Names of the functionals; all by default.
    models
        Names of the models, JKOnet* or rivals; the four of JKOnet* by default.
    n_seeds
        Number of data sets for each functional.
    progress
        Whether to show a progress bar.

    Returns
    -------
    One row for each functional, model and seed: ``emd`` (mean over the steps), ``emd_std``, ``emd_no_move``,
    ``seconds`` in all, ``seconds_couplings``, ``seconds_per_epoch``, ``epochs``, and ``losses``, the loss at up to 100
    epochs.
    """
    check_integer("n_seeds", n_seeds)
    size = 1000 if full else 200
    cells = [
        {"functional": functional, "model": model, "seed": seed, "n_particles": size, "epochs": _epochs(model, full)}
        for model in chosen("models", models, [*MODELS, *RIVALS], MODELS)
        for functional in chosen("functionals", functionals, known_functionals, known_functionals)
        for seed in range(n_seeds)
    ]
    frame = run_grid("lightspeed", cells, trial, folder, progress=progress)
    write("lightspeed", frame, draw(frame), folder)
    return frame


def _epochs(model: str, full: bool) -> int | None:
    """The defaults of the model, or few."""
    if full:
        return None
    # Rivals need seconds for an epoch, and a term more makes one ten times as long.
    return 5 if model in RIVALS else 20 if model == "jkonet_star" else 50


def trial(functional: str, model: str, seed: int, n_particles: int, epochs: int | None) -> dict[str, Any]:
    """One functional, one model."""
    adata = generate(functional, n_particles=n_particles, random_state=seed)
    if model in MODELS:
        fitted = fit_model(adata, model, epochs=epochs, random_state=seed)
    else:
        fitted = _fit_rival(adata, model, epochs, seed)
    shown = np.unique(np.linspace(0, len(fitted.losses) - 1, 100).astype(int))
    return {**judge(adata, fitted), "losses": fitted.losses[shown].tolist()}


def _fit_rival(adata: AnnData, model: str, epochs: int | None, seed: int) -> Fitted:
    rival = replace(rivals[model], random_state=seed, epochs=epochs or rivals[model].epochs)
    started = time.perf_counter()
    fitted = fit_rival(snapshots_of(adata, "train"), np.unique(adata.obs["time"]), rival)
    seconds = time.perf_counter() - started
    return Fitted(fitted.step, seconds, 0.0, float(np.median(fitted.seconds_per_epoch)), fitted.losses)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Mean error of each functional and model, with the reference's beside it and geometric means below.

    The means leave out flat, where the error may be zero, and rotational, for which there is no reference.
    """
    errors = frame.pivot_table(index="functional", columns="model", values="emd", sort=False)
    errors["reference"] = pd.Series(REFERENCE)
    errors["no_move"] = frame.groupby("functional")["emd_no_move"].mean()
    common = [name for name in errors.index if name in REFERENCE]
    if common:
        # An error of zero would decide the mean alone; 1e-7 is the rounding of the simulation.
        errors.loc["geometric mean"] = np.exp(np.log(errors.loc[common].clip(lower=1e-7)).mean())
    errors.loc["median seconds"] = frame.groupby("model")["seconds"].median()
    errors.loc["median seconds per epoch"] = frame.groupby("model")["seconds_per_epoch"].median()
    return errors


def draw(frame: pd.DataFrame) -> Figure:
    """Errors by functional, the time of an epoch, and the loss over training."""
    figure = Figure(figsize=(12, 4.8), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[2.2, 1, 1.2])
    order = list(dict.fromkeys(frame["functional"]))
    models = list(dict.fromkeys(frame["model"]))
    for number, model in enumerate(models):
        rows, colour = frame[frame["model"] == model], f"C{number}"
        means = rows.groupby("functional")["emd"].mean().reindex(order)
        left.plot(range(len(order)), means.clip(lower=1e-6), "o", color=colour, label=model)
        for losses in rows["losses"]:
            if len(losses) > 1:  # a closed form has one
                right.plot(np.linspace(0, 1, len(losses)), losses, color=colour, lw=0.7, alpha=0.7)
        middle.boxplot(rows["seconds_per_epoch"], positions=[number], widths=0.6, medianprops={"color": colour})
    left.plot(range(len(order)), [REFERENCE.get(name, np.nan) for name in order], "k_", ms=12, label="reference")
    left.plot(range(len(order)), frame.groupby("functional")["emd_no_move"].mean()[order], "kx", ms=5, label="no move")
    left.set_xticks(range(len(order)), order, rotation=60, ha="right")
    left.set(yscale="log", ylabel="one-step EMD (cut off at 1e-6)", title="error on held-out particles")
    middle.set_xticks(range(len(models)), ["" for _ in models])
    middle.set(yscale="log", ylabel="seconds", title="an epoch, or the closed form")
    right.set(yscale="log", ylim=(1e-6, 3), xlabel="part of the training done", title="loss (1: moves nothing)")
    figure.legend(loc="outside upper center", ncols=min(len(models) + 2, 6), fontsize=9)
    return figure
