"""The error of a potential against the number of particles and of dimensions (section 4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ._functionals import functionals as known_functionals
from ._generate import generate
from ._grid import chosen, run_grid, write
from ._trial import fit_model, judge

DEFAULT = ("styblinski_tang", "flowers", "watershed")
POTENTIALS = ("jkonet_star_potential", "jkonet_star_linear_potential")


def run(
    folder: str | Path | None = None,
    *,
    full: bool = False,
    functionals: Sequence[str] | None = None,
    models: Sequence[str] | None = None,
    n_particles: Sequence[int] | None = None,
    n_dims: Sequence[int] | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Fit the potential models for every number of particles and of dimensions.

    Parameters
    ----------
    folder
        Where ``scaling.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        The paper's grid, 1000 to 10000 particles in 10 to 50 dimensions, in place of a small one.
    functionals
        Names of the functionals; by default styblinski_tang, flowers and watershed.
    models
        ``"jkonet_star_potential"``, ``"jkonet_star_linear_potential"``, or both, the default.
    n_particles, n_dims
        Another grid.
    progress
        Whether to show a progress bar.

    Returns
    -------
    One row for each model, functional, number of particles and of dimensions, with the columns of ``lightspeed``.
    """
    sizes = n_particles or ([1000, 2500, 5000, 7500, 10000] if full else [200, 500])
    dims = n_dims or ([10, 20, 30, 40, 50] if full else [2, 5, 10])
    cells = [
        {
            "model": model,
            "functional": functional,
            "n_particles": int(n),
            "n_dims": int(d),
            "epochs": None if full else 50,
        }
        for model in chosen("models", models, POTENTIALS, POTENTIALS)
        for functional in chosen("functionals", functionals, known_functionals, DEFAULT)
        for n in sizes
        for d in dims
    ]
    frame = run_grid("scaling", cells, trial, folder, progress=progress)
    write("scaling", frame, draw(frame), folder)
    return frame


def trial(model: str, functional: str, n_particles: int, n_dims: int, epochs: int | None) -> dict[str, Any]:
    """One model, one functional, one size."""
    adata = generate(functional, n_particles=n_particles, n_dims=n_dims)
    return judge(adata, fit_model(adata, model, epochs=epochs))


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The error of each model, functional and number of particles (rows) by number of dimensions (columns)."""
    return frame.pivot_table(index=["model", "functional", "n_particles"], columns="n_dims", values="emd", sort=False)


def draw(frame: pd.DataFrame) -> Figure:
    """Error against dimension for each model and number of particles, a panel for each functional."""
    names = list(dict.fromkeys(frame["functional"]))
    figure = Figure(figsize=(3.6 * len(names), 3.4), layout="constrained")
    for axes, name in zip(np.atleast_1d(figure.subplots(1, len(names))), names, strict=True):
        rows = frame[frame["functional"] == name]
        for (model, n), part in rows.groupby(["model", "n_particles"], sort=False):
            style = {"jkonet_star_potential": "o-"}.get(str(model), "s:")
            part = part.sort_values("n_dims")
            axes.plot(part["n_dims"], part["emd"], style, label=f"{str(model).removeprefix('jkonet_star_')}, {n}")
        still = rows.groupby("n_dims")["emd_no_move"].mean()
        axes.plot(still.index, still, "k--", lw=1, label="no move")
        axes.set(title=name, xlabel="dimensions", ylabel="one-step EMD", yscale="log")
        axes.legend(fontsize=7)
    return figure
