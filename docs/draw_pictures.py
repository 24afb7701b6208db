"""Draw the pictures of the gallery and the home page into docs/_static: python docs/draw_pictures.py.

With real cells where their licence allows it: the folder SCJKO_DATA has the test data of CoSpar (MIT) and the clonal
haematopoiesis of Weinreb et al. 2020 as of scDiffEq's data set (MIT).
"""

from __future__ import annotations

import os
from pathlib import Path

import jax.numpy as jnp
import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scanpy as sc
from anndata import AnnData
from PIL import Image

import scjko as sj

FOLDER = Path(__file__).parent / "_static" / "pl"
DATA = Path(os.environ.get("SCJKO_DATA", Path(__file__).parents[2] / "shared" / "data"))
#: Colours of a picture file, which make it a third of its size and cannot be seen to be missing.
COLOURS = 256


def main() -> None:
    """Fit the data and draw one picture for each plotting function."""
    matplotlib.use("Agg")
    FOLDER.mkdir(parents=True, exist_ok=True)
    save(pictures_of_blood())
    save(pictures_of_all_cells())
    save(pictures_of_simulated_cells())
    sj.pl.animation(differentiation(), FOLDER / "animation.gif", n_frames=24, fps=8)


def save(figures: dict[str, plt.Figure]) -> None:
    """Write figures as small PNG files."""
    for name, figure in figures.items():
        path = FOLDER / f"{name}.png"
        figure.savefig(path, dpi=130)
        plt.close(figure)
        with Image.open(path) as picture:
            picture.convert("RGB").quantize(COLOURS).save(path, optimize=True)


def pictures_of_blood() -> dict[str, plt.Figure]:
    """CoSpar's 781 cells: ten components, cell types and clones."""
    adata = blood()
    fig = {"return_fig": True}
    return {
        "level_curves_umap": sj.pl.level_curves(adata, basis="emb", color="state_info", **fig),
        "level_curves_wells": sj.pl.level_curves(adata, basis="emb", wells=True, scale="panel", **fig),
        "waddington": sj.pl.waddington(adata, "state_info", color="state_info", wells=False, **fig),
        "barriers": sj.pl.barriers(adata, **fig),
        "landscape": sj.pl.landscape(adata, basis="emb", **fig),
        "velocity": sj.pl.velocity(adata, "emb", color="state_info", **fig),
        "trajectories": sj.pl.trajectories(adata, basis="emb", **fig),
        "energy_over_time": sj.pl.energy_over_time(adata, "state_info", **fig),
        "fates": sj.pl.fates(adata, "emb", names=["Baso", "Mast", "Meg", "Monocyte", "Neutrophil"], **fig),
        "fates_log_odds": sj.pl.fates(adata, "emb", kind="log_odds", names=["Monocyte", "Neutrophil"], **fig),
        "fates_time": sj.pl.fates(adata, kind="time", **fig),
        "fates_clones": sj.pl.fates(adata, kind="clones", clone_key="X_clone", **fig),
        "ancestry": sj.pl.ancestry(adata, "emb", **fig),
        "sankey": sj.pl.sankey(adata, "state_info", **fig),
        "growth": sj.pl.growth(adata, "state_info", **fig),
    }


def pictures_of_all_cells() -> dict[str, plt.Figure]:
    """All 130 887 cells of the clonal haematopoiesis, in the published layout."""
    adata, fig = haematopoiesis(), {"return_fig": True}
    return {
        "level_curves_all_cells": sj.pl.level_curves(adata, [2, 3, 4, 5, 6], **fig),
        "couplings": sj.pl.couplings(adata, **fig),
    }


def pictures_of_simulated_cells() -> dict[str, plt.Figure]:
    """Three simulated fates, where the truth is known."""
    adata, fig = differentiation(), {"return_fig": True}
    sj.tl.validate(adata, n_splits=3, progress=False)
    sj.tl.fates(adata, "fate")
    return {
        "level_curves": sj.pl.level_curves(adata, **fig),
        "level_curves_superimposed": sj.pl.level_curves(adata, [0, 2, 7], superimpose=True, others="cells", **fig),
        "predictions": sj.pl.predictions(adata, [1, 1.5, 2, 3, 4], **fig),
        "fates_triangle": sj.pl.fates(adata, kind="triangle", **fig),
        "validation": sj.pl.validation(adata, **fig),
        "interaction": sj.pl.interaction(interacting(), **fig),
        "history": sj.pl.history(adata, **fig),
        **pictures_of_genes(),
    }


def pictures_of_genes() -> dict[str, plt.Figure]:
    """Simulated cells with genes that drive a fate."""
    driven, fig = with_drivers(), {"return_fig": True}
    return {
        "drivers": sj.pl.drivers(driven, n_genes=6, **fig),
        "drivers_volcano": sj.pl.drivers(driven, kind="volcano", **fig),
        "trends": sj.pl.trends(driven, ["gene 0", "gene 8", "gene 16", "gene 100"], **fig),
        "trends_heatmap": sj.pl.trends(driven, kind="heatmap", **fig),
    }


def blood() -> AnnData:
    """CoSpar's test data with a fit and all that is computed from it."""
    adata = sc.read_h5ad(DATA / "clones" / "cospar_781.h5ad")
    adata.obs["day"] = adata.obs["time_info"].astype(str).astype(float)
    model = sj.Neural(epochs=30)
    sj.tl.fit_energy(adata, "day", 10, use_rep="X_pca", growth="auto", parametrization=model, progress=False)
    sj.tl.landscape(adata, cluster_key="state_info")
    sj.tl.velocity_embedding(adata, "emb")
    sj.tl.fates(adata, "state_info")
    sj.tl.ancestors(adata, (adata.obs["state_info"] == "Monocyte") & (adata.obs["day"] == 6), time=6)
    return adata


def haematopoiesis() -> AnnData:
    """The clonal haematopoiesis with a fit in its published plane."""
    with np.load(DATA / "clones" / "larry_2d.npz") as arrays:
        x, day = arrays["X"], arrays["day"]
    obs = pd.DataFrame({"day": day.astype(float)}, index=[str(k) for k in range(len(x))])
    adata = AnnData(obs=obs, obsm={"X_spring": x.astype(np.float32)})
    model = sj.Neural(epochs=3)
    sj.tl.fit_energy(adata, "day", use_rep="X_spring", parametrization=model, coupling="batched", progress=False)
    return adata


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
