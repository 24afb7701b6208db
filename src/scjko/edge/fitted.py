"""A fit read back together with its cells: what prediction, interpolation and plots start from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.energy.energy import Energy
from ..core.transport import REPLACED, Coupling, couple
from .growth import gains_of
from .keys import Keys
from .options import READY_MADE, FitOptions
from .snapshots import Snapshots, cell_times, cell_weights, collect, obs_column, representation
from .storage.fields import fitted, time_values_from_uns, whitening_from_uns
from .storage.serialized import energy_from_uns
from .times import read_time


@dataclass(frozen=True, eq=False)
class FittedCells:
    """The energy of a fit, and the cells of an AnnData as that energy takes them."""

    adata: AnnData
    stored: Mapping[str, Any]
    """``uns[key]``."""
    energy: Energy
    coordinates: NDArray[np.floating]
    times: NDArray[np.float64]
    """The time of each cell."""
    keys: Keys

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of the fit."""
        return self.stored["params"]

    @cached_property
    def options(self) -> FitOptions:
        """The options of the fit."""
        return FitOptions.read(self.params)

    @property
    def time_key(self) -> str:
        """The name of the time column."""
        return str(self.params["time_key"])

    @property
    def column(self) -> pd.Series:
        """The time column as the user wrote it."""
        return obs_column(self.adata, "time_key", self.time_key)

    @cached_property
    def cell_weights(self) -> NDArray[np.float64]:
        """The weight of each cell in the fit."""
        weight_key = self.params.get("weight_key")
        found = cell_weights(self.adata, None if weight_key is None else str(weight_key))
        return np.ones(len(self.times)) if found is None else found

    @cached_property
    def snapshots(self) -> Snapshots:
        """The cells by time, weighted as they were in the fit."""
        weight_key = self.params.get("weight_key")
        weights = cell_weights(self.adata, None if weight_key is None else str(weight_key))
        return collect(self.coordinates, self.times, weights)

    @cached_property
    def couplings(self) -> list[Coupling]:
        """The couplings of consecutive snapshots, solved anew by the solvers and seed of the fit, which keeps none."""
        names = [REPLACED.get(str(name), str(name)) for name in self.stored["couplings"]["solver"]]
        if READY_MADE in names:
            raise ValueError(
                "This fit was given ready-made couplings, which it does not keep; use those, and pass them as "
                "couplings=... where they are needed."
            )
        told = self.stored["couplings"]
        sizes = np.append(told["n_source"], told["n_target"][-1])
        if not np.array_equal(sizes, self.snapshots.sizes):
            raise ValueError(
                f"The fit was one of {', '.join(map(str, sizes))} cells at its time points, and here are "
                f"{', '.join(map(str, self.snapshots.sizes))}; its couplings are those of the cells that were fitted."
            )
        solvers = [self.options.solver.called(name) for name in names]
        seed = self.options.random_state
        grows = self.options.growth is not None
        gains = gains_of(self.adata, self.keys.growth_coupled, self.snapshots) if grows else None
        return couple(self.snapshots.points, self.snapshots.weights, solvers, random_state=seed, gains=gains)

    def asked_times(self, asked: Any) -> list[float]:
        """The times given by argument ``times``: one, or several in any container."""
        if isinstance(asked, np.ndarray):  # of any shape, also of none
            asked = asked.tolist()
        several = isinstance(asked, Iterable) and not isinstance(asked, str)
        wanted = [self.time("times", time) for time in (asked if several else [asked])]
        if not wanted:
            raise ValueError("times is empty; name at least one.")
        return wanted

    def time(self, name: str, asked: Any) -> float:
        """The time given by argument ``name``, a number or a label; the time point that equals it up to rounding."""
        time = read_time(name, asked, self.column, time_values_from_uns(self.stored))
        there = np.union1d(self.times, self.energy.times)
        nearest = there[np.argmin(np.abs(there - time))]
        return float(nearest) if abs(nearest - time) <= 1e-9 * (there[-1] - there[0]) else time


def fitted_cells(adata: AnnData, key: str) -> FittedCells:
    """The fit stored under ``key`` and the cells of ``adata``."""
    stored = fitted(adata, key)
    times = cell_times(adata, str(stored["params"]["time_key"]), time_values_from_uns(stored))
    return FittedCells(
        adata, stored, energy_from_uns(stored), _fitted_coordinates(adata, stored, key), times, Keys(key)
    )


def _fitted_coordinates(adata: AnnData, stored: Mapping[str, Any], key: str) -> NDArray[np.floating]:
    """The coordinates of cells as they were fitted: the representation, whitened as it was.

    Predicted cells have no representation any more, only ``X_jko``; where both are there they must agree.
    """
    params, whitening, name = stored["params"], whitening_from_uns(stored), Keys(key).coordinates
    if str(params["use_rep"]) not in adata.obsm and name in adata.obsm:
        return representation(adata, name, None)[1]
    x = representation(adata, str(params["use_rep"]), int(params["n_pcs"]))[1]
    x = x if whitening is None else whitening(x)
    if name in adata.obsm and not np.array_equal(representation(adata, name, None)[1], x):
        raise ValueError(
            f"obsm[{name!r}] is not obsm[{params['use_rep']!r}] as it was fitted: it is of another fit, or the "
            f"representation was computed anew. Fit again, or delete obsm[{name!r}]."
        )
    return x
