"""The demonstration: simulate, fit, compare with the truth, draw."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import scanpy as sc
from anndata import AnnData
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from . import datasets, get, tl
from .core.metrics import emd


def run_demo(folder: Path, n_cells: int = 3000) -> None:
    """Fit a simulated differentiation, write ``fit.h5ad`` and figures into ``folder``, and print what came out."""
    folder.mkdir(parents=True, exist_ok=True)
    print(f"Simulating {n_cells} cells that differentiate into three fates ...")
    adata = datasets.simulated(n_cells)
    sc.pp.normalize_total(adata)
    sc.pp.log1p(adata)
    sc.pp.pca(adata)

    started = time.perf_counter()
    tl.fit_energy(adata, "day", n_pcs=5)
    print(f"Fitted the energy in {time.perf_counter() - started:.1f} s.\n")
    cosine = np.mean(velocity_cosines(adata))
    print("How well the truth was recovered:")
    print(f"  correlation of fitted and true potential over cells  {potential_correlation(adata):.2f}")
    print(f"  mean cosine of fitted and true velocity              {cosine:.2f}")
    moved, still = one_step_errors(adata)
    print(f"  distance of predicted to observed next snapshot      {moved:.2f}  (without moving: {still:.2f})\n")

    adata.write_h5ad(folder / "fit.h5ad")
    draw_landscape(adata).savefig(folder / "landscape.png", dpi=150)
    draw_recovery(adata).savefig(folder / "recovery.png", dpi=150)
    print("Written:")
    for name in ("fit.h5ad", "landscape.png", "recovery.png"):
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
    """The cosine of fitted and true velocity at each cell."""
    fitted, true = adata.obsm["jko_velocity"], true_velocity(adata)
    length = np.linalg.norm(fitted, axis=1) * np.linalg.norm(true, axis=1)
    return np.asarray(np.sum(fitted * true, axis=1) / length, dtype=np.float64)


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


def draw_landscape(adata: AnnData) -> Figure:
    """The fitted potential at each day over the first two components, with the cells of that day and their velocity."""
    energy = get.energy(adata)
    x, velocity = adata.obsm["X_jko"], adata.obsm["jko_velocity"]
    figure = Figure(figsize=(3.0 * len(energy.times), 3.4), layout="constrained")
    panels = figure.subplots(1, len(energy.times), sharex=True, sharey=True)
    grid, heights = _heights(adata)
    levels = MaxNLocator(16).tick_values(np.nanmin(heights), np.nanmax(heights))
    for axes, day, height in zip(panels, energy.times, heights, strict=True):
        filled = axes.contourf(*grid, height, levels=levels, cmap="viridis")
        axes.contour(*grid, height, levels=levels, colors="white", linewidths=0.4)
        cells = np.flatnonzero(adata.obs["day"] == day)
        axes.scatter(*x[cells, :2].T, s=3, color="black", alpha=0.35, linewidths=0)
        shown = cells[:: max(1, len(cells) // 40)]
        axes.quiver(*x[shown, :2].T, *velocity[shown, :2].T, color="tab:orange", width=0.007, scale=22, zorder=3)
        axes.set(title=f"day {day:g}", xlabel="PC 1", xticks=[], yticks=[])
    panels[0].set_ylabel("PC 2")
    figure.colorbar(filled, ax=panels, label="fitted potential", shrink=0.9)
    return figure


def _heights(adata: AnnData, size: int = 120) -> tuple[tuple[NDArray[np.float64], ...], list[NDArray[np.float64]]]:
    """The potential at each day on a grid over two components, the others at their mean; NaN far from all cells."""
    energy = get.energy(adata)
    x = adata.obsm["X_jko"].astype(np.float64)
    low, high = x[:, :2].min(axis=0) - 1, x[:, :2].max(axis=0) + 1
    grid = tuple(np.meshgrid(*(np.linspace(a, b, size) for a, b in zip(low, high, strict=True)), indexing="ij"))
    points = np.tile(x.mean(axis=0), (size * size, 1))
    points[:, :2] = np.stack([axis.ravel() for axis in grid], axis=1)
    # A potential means nothing where there are no cells: keep what has ten of them within reach.
    tenth = np.ravel(cKDTree(x[:, :2]).query(points[:, :2], k=[10])[0])
    heights = [np.where(tenth < 1.8, energy.potential(points, day), np.nan) for day in energy.times]
    return grid, [height.reshape(size, size) for height in heights]


def draw_recovery(adata: AnnData) -> Figure:
    """Fitted against true potential, and the loss over training."""
    figure = Figure(figsize=(8.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    _scatter_potentials(left, adata)
    right.plot(adata.uns["jko"]["history"]["loss"], color="tab:blue")
    right.set(xlabel="epoch", ylabel="loss (1: an energy that moves nothing)", yscale="log", ylim=(None, 1.1))
    right.yaxis.set_major_formatter("{x:g}")
    right.yaxis.set_minor_formatter("{x:g}")
    right.yaxis.set_minor_locator(LogLocator(subs=(0.2, 0.5)))
    return figure


def _scatter_potentials(axes: Axes, adata: AnnData) -> None:
    day = adata.obs["day"].to_numpy()
    dots = axes.scatter(adata.obs["true_potential"], adata.obs["jko_potential"], c=day, s=4, cmap="viridis")
    axes.set(xlabel="true potential", ylabel="fitted potential")
    axes.text(0.05, 0.93, f"r = {potential_correlation(adata):.2f}", transform=axes.transAxes, va="top")
    axes.figure.colorbar(dots, ax=axes, label="day")
