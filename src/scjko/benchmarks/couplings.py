"""Exact couplings against entropic ones: error of the potential and time, by number of particles (appendix B.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ..core.transport import Exact, Sinkhorn
from ._functionals import functionals as known_functionals
from ._generate import generate
from ._grid import chosen, run_grid, write
from ._trial import fit_model, judge

DEFAULT = ("styblinski_tang", "flowers", "watershed", "oakley_ohagan")
#: Regularisation relative to the mean cost; None stands for the exact coupling.
EPSILONS = (None, 0.001, 0.01, 0.1, 1.0)


def run(
    folder: str | Path | None = None,
    *,
    full: bool = False,
    functionals: Sequence[str] | None = None,
    n_particles: Sequence[int] | None = None,
    epsilons: Sequence[float | None] = EPSILONS,
    progress: bool = True,
) -> pd.DataFrame:
    """Fit the linear potential model with couplings by linear programming and by Sinkhorn's algorithm.

    Parameters
    ----------
    folder
        Where ``couplings.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        500, 1000 and 2000 particles, in place of 100 and 200.
    functionals
        Names of the functionals; by default four, or two.
    n_particles
        Other numbers of particles.
    epsilons
        Regularisations relative to the mean cost; ``None`` for the exact coupling.
    progress
        Whether to show a progress bar.

    Returns
    -------
    One row for each functional, size and solver, with the columns of ``lightspeed`` and ``converged``. Where Sinkhorn's
    algorithm does not converge there is no error to report.
    """
    cells = [
        {"functional": functional, "n_particles": int(n), "epsilon": epsilon}
        for n in n_particles or ([500, 1000, 2000] if full else [100, 200])
        for epsilon in epsilons
        for functional in chosen("functionals", functionals, known_functionals, DEFAULT if full else DEFAULT[:2])
    ]
    frame = run_grid("couplings", cells, trial, folder, progress=progress)
    frame["solver"] = ["exact" if pd.isna(e) else f"sinkhorn, ε = {e:g}" for e in frame["epsilon"]]
    write("couplings", frame, draw(frame), folder)
    return frame


def trial(functional: str, n_particles: int, epsilon: float | None) -> dict[str, Any]:
    """One functional, one coupling."""
    adata = generate(functional, n_particles=n_particles)
    solver = Exact() if epsilon is None else Sinkhorn(epsilon=epsilon)
    try:
        fitted = fit_model(adata, "jkonet_star_linear_potential", solver=solver)
    except RuntimeError as error:
        if "did not converge" not in str(error):
            raise
        return {"converged": False, "emd": np.nan, "seconds_couplings": np.nan}
    return {**judge(adata, fitted), "converged": True}


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """Geometric mean of the error over functionals, and median seconds of the couplings, by solver and size."""
    grouped = frame.groupby(["solver", "n_particles"], sort=False)
    error = grouped["emd"].apply(lambda e: np.exp(np.log(e.clip(lower=1e-7)).mean(skipna=False)))
    figures = pd.DataFrame({"emd": error, "seconds": grouped["seconds_couplings"].median()}).reset_index()
    return figures.pivot(index="solver", columns="n_particles", values=["emd", "seconds"])


def draw(frame: pd.DataFrame) -> Figure:
    """Error and time against the number of particles, a line for each solver."""
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    shown = table(frame)
    for axes, column, label in zip(
        figure.subplots(1, 2),
        ["emd", "seconds"],
        ["one-step EMD (geometric mean)", "seconds for the couplings"],
        strict=True,
    ):
        for solver, row in shown[column].iterrows():
            axes.plot(row.index, row, "o-", label=solver)
        axes.set(xlabel="particles", ylabel=label, xscale="log", yscale="log")
    axes.legend(fontsize=7)
    return figure
