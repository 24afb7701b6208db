"""Writes the file that every later version has to open: ``python tests/files/write_fit.py``, once for each release.

With the lowest anndata that the release allows (the environment of ``make test-lowest``): older ones cannot read all
that newer ones write.

Ten cells at each of five times in two dimensions, with fits that between them have everything a fit can have: ``jko``,
a network of whitened coordinates; ``neural``, one of all terms with named times; ``linear``, the closed form;
``static``, one energy for all times, held at the middle of every interval (from version 0.2 on).
"""

from __future__ import annotations

from pathlib import Path

import anndata
import h5py
import numpy as np
import pandas as pd
from anndata.io import write_elem

import scjko as sj

QUICK = {"use_rep": "X_latent", "progress": False}
NETWORK = sj.Neural(epochs=30, layers=(8,))
TERMS = ("potential", "interaction", "internal")


def fitted() -> anndata.AnnData:
    """The cells and their fits."""
    rng = np.random.default_rng(0)
    days = np.array([0.0, 1.0, 2.0, 4.0, 7.0])
    latent = np.concatenate([rng.normal(size=(10, 2)) * [2.0, 1.0] * np.exp(-day / 4) + day for day in days])
    obs = pd.DataFrame({"day": np.repeat(days, 10)}, index=[f"cell{i}" for i in range(50)])
    adata = anndata.AnnData(obs=obs, obsm={"X_latent": latent})
    sj.tl.fit_energy(adata, "day", parametrization=NETWORK, whiten=True, **QUICK)
    names = {day: f"day {day:g}" for day in days}
    adata.obs["stage"] = pd.Categorical(adata.obs["day"].map(names))
    values = {name: day for day, name in names.items()}
    named = {"time_values": values, "key_added": "neural"}
    sj.tl.fit_energy(adata, "stage", terms=TERMS, parametrization=NETWORK, **named, **QUICK)
    linear = {"parametrization": sj.Linear(n_centers=4, degree=2), "key_added": "linear"}
    sj.tl.fit_energy(adata, "day", terms=TERMS, scheme="implicit", **linear, **QUICK)
    static = {"parametrization": sj.Linear(n_centers=4, degree=2), "time_varying": False, "key_added": "static"}
    sj.tl.fit_energy(adata, "day", terms=("potential", sj.Interaction(even=True), "internal"), **static, **QUICK)
    return adata


if __name__ == "__main__":
    path = Path(__file__).parent / f"fit_{sj.__version__}.h5ad"
    with h5py.File(path, "w", libver="latest") as file:  # the newest layout: a quarter of the size
        write_elem(file, "/", fitted())
    print(f"{path}: {path.stat().st_size} bytes")
