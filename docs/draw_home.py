"""Draw the picture of the home page into docs/_static: python docs/draw_home.py cospar_781.h5ad.

The file is a test file of CoSpar (MIT): 781 cells of mouse haematopoiesis with clonal barcodes (Weinreb et al. 2020).
"""

from __future__ import annotations

import sys
from pathlib import Path

import anndata
import matplotlib
import matplotlib.pyplot as plt
import numpy as np

import scjko as sj

FATES, OTHERS = ["Monocyte", "Neutrophil"], ["Baso", "Mast", "Meg"]


def main(path: str) -> None:
    """Cells with their types, the fitted potential, and the fate of every cell."""
    matplotlib.use("Agg")
    adata = anndata.read_h5ad(path)
    sj.tl.fit_energy(adata, "time_info", n_pcs=10, progress=False)
    sj.tl.fates(adata, "state_info", terminal=[*FATES, *OTHERS])
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(11, 3.4), layout="constrained")
    x, day = adata.obsm["X_emb"], adata.obs["time_info"].astype(float)
    for time, colour in zip(sorted(day.unique()), ("#440154", "#21908C", "#FDE725"), strict=True):
        left.scatter(*x[day == time].T, s=8, color=colour, label=f"day {time:g}")
    left.legend(frameon=False, markerscale=2, loc="upper right")
    left.set_title("measured: 781 cells on three days")
    height = adata.obs["jko_potential"].to_numpy()
    low, high = np.percentile(height, [3, 97])  # a handful of rare cells lies far below
    shown = middle.scatter(*x.T, c=height, s=8, cmap="viridis_r", vmin=low, vmax=high)
    figure.colorbar(shown, ax=middle, label="potential", extend="both")
    middle.set_title("fitted: cells go downhill")
    fates = adata.obsm["jko_fates"][FATES]
    share, either = fates[FATES[0]] / fates.sum(axis=1), fates.sum(axis=1) > 0.5
    right.scatter(*x[~either].T, s=8, color="0.8", label="another fate")
    shown = right.scatter(*x[either].T, c=share[either], s=8, cmap="coolwarm", vmin=0, vmax=1)
    right.legend(frameon=False, markerscale=2, loc="upper left")
    figure.colorbar(shown, ax=right, label=f"{FATES[1].lower()}   ←   fate   →   {FATES[0].lower()}")
    right.set_title("predicted: the fate of each cell")
    for axes in (left, middle, right):
        axes.set_xticks([])
        axes.set_yticks([])
    figure.savefig(Path(__file__).parent / "_static" / "home.png", dpi=120)


if __name__ == "__main__":
    main(sys.argv[1])
