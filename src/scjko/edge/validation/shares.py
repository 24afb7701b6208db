"""Shares of cell types in predicted populations, and how far they are from those observed."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from ...core.compute.neighbours import nearest
from ...core.judging.baselines import Cloud
from ..snapshots import obs_column

#: Known cells around a predicted one that say which type it is.
NEIGHBOURS = 15


@dataclass(frozen=True, eq=False)
class Labelled:
    """Known cells of known types: a predicted cell has the types of those around it, in equal parts."""

    points: NDArray[np.float64]
    types: NDArray[np.float64]
    """For each cell and type whether it is of that type (n, n_types)."""

    def shares(self, cloud: Cloud) -> NDArray[np.float64]:
        """The share of each type in a population."""
        near = nearest(self.points, cloud.points, min(NEIGHBOURS, len(self.points)))[1]
        return np.asarray(cloud.weight @ self.types[near].mean(axis=1) / cloud.weight.sum())


def types_of(adata: AnnData, cluster_key: str | None) -> NDArray[np.float64] | None:
    """For each cell and type in a column whether it is of that type; cells without a type are of none."""
    if cluster_key is None:
        return None
    codes = obs_column(adata, "cluster_key", cluster_key).astype("category").cat.codes.to_numpy()
    if codes.max(initial=-1) < 0:
        raise ValueError(f"obs[{cluster_key!r}] names no type of any cell.")
    return np.asarray(codes[:, None] == np.arange(codes.max() + 1), dtype=np.float64)
