"""The demonstration: simulate, fit, compare with the truth, draw, report."""

from __future__ import annotations

import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import scanpy as sc
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .. import datasets, pl, tl
from ..core.judging.metrics import emd
from ..reporting._report import report


def run_demo(folder: Path, n_cells: int = 3000) -> None:
    """Fit a simulated differentiation, write the fit, figures and a report into ``folder``, and print what came out."""
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Simulating {n_cells} cells that differentiate into three fates ...")
    adata = datasets.simulated(n_cells)
    sc.pp.normalize_total(adata)
    sc.pp.log1p(adata)
    sc.pp.pca(adata)
    sc.pp.neighbors(adata, n_pcs=5)
    sc.tl.umap(adata)

    started = time.perf_counter()
    tl.fit_energy(adata, "day", n_pcs=5)
    print(f"Fitted the energy in {time.perf_counter() - started:.1f} s.\n")
    cosine = np.mean(velocity_cosines(adata))
    print("How well the truth was recovered:")
    print(f"  correlation of fitted and true potential over cells  {potential_correlation(adata):.2f}")
    print(f"  mean cosine of fitted and true velocity              {cosine:.2f}")
    moved, still = one_step_errors(adata)
    print(f"  distance of predicted to observed next snapshot      {moved:.2f}  (without moving: {still:.2f})\n")

    tl.fates(adata, "fate")
    tl.landscape(adata, cluster_key="fate", paths=False)
    tl.velocity_embedding(adata, "umap")
    adata.write_h5ad(folder / "fit.h5ad")
    report(adata, folder / "report.html", title="A simulated differentiation into three fates")
    for name, figure in (
        ("level_curves", pl.level_curves(adata, return_fig=True)),
        ("landscape", pl.landscape(adata, basis="umap", return_fig=True)),
        ("recovery", draw_recovery(adata)),
    ):
        assert isinstance(figure, Figure)
        figure.savefig(folder / f"{name}.png", dpi=150)
        plt.close(figure)
    print("Written:")
    for name in ("fit.h5ad", "report.html", "level_curves.png", "landscape.png", "recovery.png"):
        print(f"  {folder / name}")


def potential_correlation(adata: AnnData) -> float:
    """The correlation of fitted and true potential over cells."""
    return float(np.corrcoef(adata.obs["jko_potential"], adata.obs["true_potential"])[0, 1])


def true_velocity(adata: AnnData) -> NDArray[np.float64]:
    """The true velocity in the coordinates that were fitted, by the best linear map of one to the other."""
    latent, fitted = (adata.obsm[name] - adata.obsm[name].mean(axis=0) for name in ("X_latent", "X_jko"))
    linear, *_ = np.linalg.lstsq(latent, fitted, rcond=None)
    return np.asarray(adata.obsm["true_velocity"] @ linear, dtype=np.float64)


def velocity_cosines(adata: AnnData) -> NDArray[np.float64]:
    """The cosine of fitted and true velocity at each cell; zero where a cell does not move."""
    fitted, true = adata.obsm["jko_velocity"], true_velocity(adata)
    length = np.linalg.norm(fitted, axis=1) * np.linalg.norm(true, axis=1)
    return np.asarray(np.sum(fitted * true, axis=1) / np.where(length > 0, length, 1.0), dtype=np.float64)


def one_step_errors(adata: AnnData) -> tuple[float, float]:
    """The mean distance of each snapshot to the one before it, as predicted and as it was."""
    days = np.unique(adata.obs["day"])
    errors = []
    for day, after in zip(days[:-1], days[1:], strict=True):
        here, there = adata[adata.obs["day"] == day], adata[adata.obs["day"] == after]
        target = there.obsm["X_jko"]
        errors.append([emd(here.obsm[name], target) for name in ("jko_predicted", "X_jko")])
    moved, still = np.mean(errors, axis=0)
    return float(moved), float(still)


def draw_recovery(adata: AnnData) -> Figure:
    """Fitted against true potential, and the loss over training."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(7.4, 3.2), layout="constrained")
    _scatter_potentials(left, adata)
    pl.history(adata, ax=right, show=False)
    return figure


def _scatter_potentials(axes: Axes, adata: AnnData) -> None:
    day = adata.obs["day"].to_numpy()
    dots = axes.scatter(adata.obs["true_potential"], adata.obs["jko_potential"], c=day, s=4, cmap="viridis")
    axes.set(xlabel="true potential", ylabel="fitted potential")
    axes.text(0.05, 0.93, f"r = {potential_correlation(adata):.2f}", transform=axes.transAxes, va="top")
    axes.figure.colorbar(dots, ax=axes, label="day")
