"""Draw the pictures of the gallery and the home page into docs/_static: python docs/draw_pictures.py."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import scanpy as sc
from anndata import AnnData

import scjko as sj

FOLDER = Path(__file__).parent / "_static" / "pl"


def main() -> None:
    """Fit simulated data and draw one picture for each plotting function."""
    matplotlib.use("Agg")
    FOLDER.mkdir(parents=True, exist_ok=True)
    adata, meeting = differentiation(), interacting()
    fates, driven = comparable(), with_drivers()
    sj.tl.velocity_embedding(adata)
    sj.tl.validate(adata, n_splits=3, progress=False)
    sj.tl.fates(adata, "fate")
    sj.tl.ancestors(adata, adata.obs["fate"] == "fate 1", time=4)
    sj.tl.descendants(adata, adata.obs["fate"] == "fate 1", time=4)
    adata.obs["clone"] = clones(adata)
    fig = {"return_fig": True}
    figures = {
        "level_curves": sj.pl.level_curves(adata, **fig),
        "level_curves_superimposed": sj.pl.level_curves(adata, [0, 2, 7], superimpose=True, others="cells", **fig),
        "level_curves_umap": sj.pl.level_curves(adata, [1, 3, 7], basis="umap", color="fate", **fig),
        "level_curves_wells": sj.pl.level_curves(fates, [2, 4, 7], wells=True, **fig),
        "barriers": sj.pl.barriers(fates, **fig),
        "landscape": sj.pl.landscape(adata, basis="umap", **fig),
        "predictions": sj.pl.predictions(adata, [1, 1.5, 2, 3, 4], **fig),
        "velocity": sj.pl.velocity(adata, "umap", color="day", **fig),
        "trajectories": sj.pl.trajectories(adata, **fig),
        "energy_over_time": sj.pl.energy_over_time(adata, "fate", **fig),
        "fates": sj.pl.fates(adata, "umap", **fig),
        "fates_log_odds": sj.pl.fates(adata, "umap", kind="log_odds", names=["fate 1", "fate 3"], **fig),
        "fates_triangle": sj.pl.fates(adata, kind="triangle", **fig),
        "fates_time": sj.pl.fates(adata, kind="time", **fig),
        "fates_clones": sj.pl.fates(adata, kind="clones", clone_key="clone", **fig),
        "ancestry": sj.pl.ancestry(adata, "umap", **fig),
        "sankey": sj.pl.sankey(adata, "fate", **fig),
        "growth": sj.pl.growth(growing(), "fate", **fig),
        "drivers": sj.pl.drivers(driven, n_genes=6, **fig),
        "drivers_volcano": sj.pl.drivers(driven, kind="volcano", **fig),
        "trends": sj.pl.trends(driven, ["gene 0", "gene 8", "gene 16", "gene 100"], **fig),
        "trends_heatmap": sj.pl.trends(driven, kind="heatmap", **fig),
        "validation": sj.pl.validation(adata, **fig),
        "couplings": sj.pl.couplings(adata, **fig),
        "interaction": sj.pl.interaction(meeting, **fig),
        "history": sj.pl.history(adata, **fig),
    }
    for name, figure in figures.items():
        figure.savefig(FOLDER / f"{name}.png", dpi=130)
        plt.close(figure)
    sj.pl.animation(adata, FOLDER / "animation.gif", n_frames=24, fps=8)


def differentiation() -> AnnData:
    """Simulated cells from counts to a fit."""
    adata = sj.datasets.simulated(3000)
    sc.pp.normalize_total(adata)
    sc.pp.log1p(adata)
    sc.pp.pca(adata)
    sc.pp.neighbors(adata, n_pcs=5)
    sc.tl.umap(adata)
    sj.tl.fit_energy(adata, "day", n_pcs=5, progress=False)
    return adata


def clones(adata: AnnData) -> list[str]:
    """Barcodes of the simulated cells: a clone is of one fate."""
    rng = np.random.default_rng(0)
    return [f"{fate}, clone {rng.integers(100)}" for fate in adata.obs["fate"]]


def comparable() -> AnnData:
    """Simulated fates with wells whose heights can be compared."""
    adata = sj.datasets.simulated(3000)
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", growth="auto", progress=False)
    sj.tl.landscape(adata, cluster_key="fate")
    return adata


def with_drivers() -> AnnData:
    """Simulated fates that some genes drive, and the tables of these."""
    adata = sj.datasets.simulated(3000, n_drivers=8)
    sc.pp.normalize_total(adata)
    sc.pp.log1p(adata)
    sc.pp.pca(adata)
    sj.tl.fit_energy(adata, "day", n_pcs=5, progress=False)
    sj.tl.fates(adata, "fate")
    sj.tl.drivers(adata)
    sj.tl.trends(adata, [*adata.var_names[:24], "gene 100", "gene 101"])
    return adata


def growing() -> AnnData:
    """Simulated fates that grow and die, with an estimate of how fast."""
    adata = sj.datasets.simulated(3000, growth=(0.3, 0.0, -0.3))
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", growth="auto", progress=False)
    return adata


def interacting() -> AnnData:
    """Two groups of cells that drift to one side and feel each other, with their fit."""
    rng = np.random.default_rng(0)
    groups = [rng.normal(size=(400, 2)) * 0.4 - 1, rng.normal(size=(800, 2)) * 0.6 + [1.5, 0.5]]
    adata = sj.benchmarks.generate(
        potential=lambda x: 0.5 * jnp.sum((x - jnp.array([6.0, -4.0])) ** 2),
        interaction=lambda z: jnp.sum(z**2) ** 2 / 8 - jnp.sum(z**2),
        n_particles=600,
        n_steps=10,
        tau=0.05,
        start=rng.permutation(np.concatenate(groups)),
    )
    linear = sj.Linear(degree=4, n_centers=0)
    options = {"parametrization": linear, "time_varying": False, "progress": False}
    sj.tl.fit_energy(adata, "time", use_rep="X_latent", terms=("potential", "interaction"), **options)
    return adata


if __name__ == "__main__":
    main()
