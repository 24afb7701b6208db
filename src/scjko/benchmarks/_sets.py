"""Real data sets in a folder, each recognised by its file."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import scanpy as sc
from anndata import AnnData
from numpy.typing import NDArray

from ..datasets import embryoid_body

Array = NDArray[np.float64]
#: What reads a file: coordinates (n, d) and time (n,) of its cells.
Reader = Callable[[Path], tuple[Array, Array]]

#: Cells of a large set that are taken without ``full``.
PART = 10_000


@dataclass(frozen=True)
class DataSet:
    """A data set: where it is, and which of its coordinates are used."""

    name: str
    file: str
    """Where its file is in a folder; the file may also be in the folder itself."""
    read: Reader
    n_dims: int
    whiten: bool = False
    """Whether coordinates are standardised over all cells, as published."""
    n_cells: int | None = None
    """How many cells are taken, at random and always the same; all by default."""
    large: bool = False
    """Whether it is too large for anything but a full run."""

    def find(self, folder: Path) -> Path | None:
        """Its file, if the folder has it."""
        places = folder / self.file, folder / Path(self.file).name
        return next((place for place in places if place.is_file()), None)

    def load(self, file: Path) -> AnnData:
        """Its cells with ``obsm["X_pca"]`` and ``obs["time"]``.

        Raises
        ------
        ValueError
            If the file is another one than expected; the message names it.
        """
        try:
            x, time = self.read(file)
            if x.ndim != 2 or time.shape != x.shape[:1] or x.shape[1] < self.n_dims:
                raise ValueError(f"cells of shape {x.shape} and times of shape {time.shape}")
        except (KeyError, ValueError, OSError, zipfile.BadZipFile) as error:
            raise ValueError(f"{str(file)!r} is not what {self.name!r} is read from: {error}") from None
        n = len(x)
        rows = np.arange(n)
        if self.n_cells is not None and n > self.n_cells:
            rows = np.sort(np.random.default_rng(0).choice(n, self.n_cells, replace=False))
        obs = pd.DataFrame({"time": time[rows].astype(np.float64)}, index=rows.astype(str))
        return AnnData(obs=obs, obsm={"X_pca": x[rows, : self.n_dims].astype(np.float64)})


def _arrays(points: str, time: str) -> Reader:
    """A reader of an ``npz`` with these two arrays. Times of whole snapshots, (times, cells, d), are repeated."""

    def read(file: Path) -> tuple[Array, Array]:
        with np.load(file) as content:
            x, when = content[points], content[time]
        if x.ndim == 3:
            when = np.repeat(when, x.shape[1])
            x = x.reshape(-1, x.shape[2])
        return x, when

    return read


def _embryoid(file: Path) -> tuple[Array, Array]:
    adata = embryoid_body(file)
    return adata.obsm["X_pca"], adata.obs["day"].to_numpy()


def _annotated(time_key: str, *, pca: bool = False) -> Reader:
    """A reader of an ``h5ad`` with the PCA that it has, or with one of its genes."""

    def read(file: Path) -> tuple[Array, Array]:
        adata = anndata.read_h5ad(file)
        if pca:
            sc.pp.pca(adata)
        return np.asarray(adata.obsm["X_pca"]), pd.to_numeric(adata.obs[time_key].astype(str)).to_numpy()

    return read


_SUBSET, _LARRY = "embryoid_body/eb_pca100_subset.npz", "clones/larry_2d.npz"
#: In the order of the table.
SETS = (
    DataSet("embryoid bodies, 5 PCs", "embryoid_body/eb_pca5.npz", _embryoid, 5, whiten=True),
    DataSet("embryoid subset, 5 PCs", _SUBSET, _embryoid, 5, whiten=True),
    DataSet("embryoid subset, 20 PCs", _SUBSET, _embryoid, 20),
    DataSet("embryoid subset, 50 PCs", _SUBSET, _embryoid, 50),
    DataSet("haematopoiesis, 2-D", "hematopoiesis/lineage_2d.npz", _arrays("X", "day"), 2),
    DataSet("LARRY, 10⁴ cells, 2-D", _LARRY, _arrays("X", "day"), 2, n_cells=PART),
    DataSet("LARRY, all cells, 2-D", _LARRY, _arrays("X", "day"), 2, large=True),
    DataSet("CoSpar, 10 PCs", "clones/cospar_781.h5ad", _annotated("time_info"), 10),
    DataSet("reprogramming, 5 PCs", "reprogramming/reprogramming_250.h5ad", _annotated("day", pca=True), 5),
    DataSet("B cells, 10 PCs", "bcell/bcell_pcs.npz", _arrays("pcs", "hour"), 10),
    DataSet("PBMC, 30-D", "pbmc/pbmc_21x500x30.npz", _arrays("X", "time"), 30),
)
