"""Potential, interaction and noise together (section 4.3)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._functionals import functionals
from ._generate import generate
from ._grid import chosen, run_grid, write
from ._trial import MODELS, fit_model, judge

BETAS = (0.0, 0.1, 0.2)
GENERAL = ("jkonet_star", "jkonet_star_linear")
#: The paper's medians over all combinations.
PAPER = {"jkonet_star": 0.167, "jkonet_star_linear": 0.104}


def pairs() -> list[tuple[str, str]]:
    """Every functional as potential, with the next one as interaction.

    holder_table is left out as an interaction, as in the paper: it takes particles to infinity.
    """
    names = list(functionals)
    kernels = [name for name in names if name != "holder_table"]
    after = [next(k for k in [*names[i + 1 :], *names] if k in kernels) for i in range(len(names))]
    return list(zip(names, after, strict=True))


def run(
    folder: str | Path | None = None,
    *,
    full: bool = False,
    models: Sequence[str] | None = None,
    combinations: Sequence[tuple[str, str]] | None = None,
    betas: Sequence[float] | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Fit energies of all terms to particles that follow a potential, an interaction and noise.

    Parameters
    ----------
    folder
        Where ``general.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        All pairs with 1000 particles, in place of two pairs with 200.
    models
        ``"jkonet_star"``, ``"jkonet_star_linear"``, or both, the default.
    combinations
        Pairs of a potential and an interaction; by default those of :func:`pairs`.
    betas
        Strengths of the noise; by default 0, 0.1 and 0.2.
    progress
        Whether to show a progress bar.

    Returns
    -------
    One row for each combination and model: the columns of ``lightspeed``, the fitted ``beta_fitted``, and
    ``force_correlation``, that of the fitted and true force of the interaction at differences of training particles.
    """
    size = {"n_particles": 1000, "epochs": None} if full else {"n_particles": 200, "epochs": 50}
    cells = [
        {"model": model, "potential": v, "interaction": u, "beta": float(beta), **size}
        for model in chosen("models", models, GENERAL, GENERAL)
        for v, u in (combinations or (pairs() if full else pairs()[2:4]))
        for beta in (BETAS if betas is None else betas)
    ]
    frame = run_grid("general", cells, trial, folder, progress=progress)
    write("general", frame, draw(frame), folder)
    return frame


def trial(
    model: str, potential: str, interaction: str, beta: float, n_particles: int, epochs: int | None
) -> dict[str, Any]:
    """One combination, one model."""
    adata = generate(potential, interaction, beta, n_particles=n_particles)
    fitted = fit_model(adata, model, epochs=epochs)
    assert fitted.energy is not None and "internal" in MODELS[model][1]
    away = _differences(np.asarray(adata.obsm["X_latent"]), 2000)
    return {
        **judge(adata, fitted),
        "beta_fitted": fitted.energy.beta,
        "force_correlation": correlation(
            fitted.energy.interaction_gradient(away), functionals[interaction].gradient(away)
        ),
    }


def _differences(x: np.ndarray[Any, Any], n: int) -> np.ndarray[Any, Any]:
    one, two = np.random.default_rng(0).integers(0, len(x), (2, n))
    return x[one] - x[two]


def correlation(fitted: np.ndarray[Any, Any], true: np.ndarray[Any, Any]) -> float:
    """Of two forces, each without its mean, which acts on all particles alike and so counts as potential."""
    fitted, true = fitted - fitted.mean(axis=0), true - true.mean(axis=0)
    size = np.sqrt(np.sum(fitted**2) * np.sum(true**2))
    return float(np.sum(fitted * true) / size) if size > 0 else float("nan")


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Quartiles of the error of each model and noise, and over all of them, with the paper's median beside."""
    parts = {(model, f"{beta:g}"): rows["emd"] for (model, beta), rows in frame.groupby(["model", "beta"], sort=False)}
    parts |= {(model, "all"): rows["emd"] for model, rows in frame.groupby("model", sort=False)}
    summary = pd.DataFrame({key: rows.quantile([0.25, 0.5, 0.75]) for key, rows in parts.items()}).T
    summary.columns = pd.Index(["lower quartile", "median", "upper quartile"])
    summary.index.names = ["model", "beta"]
    summary["paper's median"] = [PAPER[model] if beta == "all" else np.nan for model, beta in summary.index]
    return summary.sort_index(sort_remaining=True)


def draw(frame: pd.DataFrame) -> Figure:
    """Errors by noise, a box for each model."""
    figure = Figure(figsize=(6.5, 3.6), layout="constrained")
    axes = figure.subplots()
    betas, models = sorted(set(frame["beta"])), list(dict.fromkeys(frame["model"]))
    for shift, model in enumerate(models):
        boxes = [frame[(frame["model"] == model) & (frame["beta"] == beta)]["emd"] for beta in betas]
        at = np.arange(len(betas)) + 0.3 * (shift - (len(models) - 1) / 2)
        colour = f"C{shift}"
        drawn = axes.boxplot(boxes, positions=at, widths=0.25, patch_artist=True, manage_ticks=False)
        for box in drawn["boxes"]:
            box.set(facecolor=colour, alpha=0.5)
        axes.axhline(PAPER[model], color=colour, ls="--", lw=1, label=f"{model} (dashed: the paper's median)")
    axes.set_xticks(range(len(betas)), [f"{beta:g}" for beta in betas])
    axes.set(xlabel="strength of the noise β", ylabel="one-step EMD, held-out particles", yscale="log")
    axes.legend(fontsize=8)
    return figure
