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
from ..core.transport import REPLACED, Coupling, Solver, couple
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
        solvers, gains, seed = self._solvers, self._gains, self.options.random_state
        return couple(self.snapshots.points, self.snapshots.weights, solvers, random_state=seed, gains=gains)

    def thinned_coupling(
        self, interval: int, most: int, random_state: int = 0
    ) -> tuple[Coupling, list[NDArray[np.int64]]]:
        """The coupling of one interval, solved anew, and the cells of its two snapshots that it is of.

        Larger snapshots than ``most`` are thinned to that many cells drawn by their weight.
        """
        rng, here = np.random.default_rng(random_state), slice(interval, interval + 2)
        thinned = [_thinned(weights, most, rng) for weights in self.snapshots.weights[here]]
        rows, weights = [own for own, _ in thinned], [own for _, own in thinned]
        points = [x[own] for x, own in zip(self.snapshots.points[here], rows, strict=True)]
        gains = None if self._gains is None else [self._gains[interval][rows[0]]]
        solver, seed = self._solvers[interval : interval + 1], self.options.random_state
        return couple(points, weights, solver, random_state=seed, gains=gains)[0], rows

    @property
    def compares_groups(self) -> bool:
        """Whether the heights of groups that no cell crosses between are determined: masses need not match exactly."""
        dropped = np.max(self.stored["couplings"].get("dropped", 0.0), initial=0.0)
        return self.options.growth is not None or bool(dropped > 0)

    @property
    def _solvers(self) -> list[Solver]:
        """The solver of each interval."""
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
        return [self.options.solver.called(name) for name in names]

    @property
    def _gains(self) -> list[NDArray[np.float64]] | None:
        """The log of the factor by which each cell grows over its interval, if cells grow."""
        grows = self.options.growth is not None
        return gains_of(self.adata, self.keys.growth_coupled, self.snapshots) if grows else None

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


def _thinned(
    weights: NDArray[np.float64], most: int | None, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Rows of a snapshot and their weights: all of them, or ``most`` drawn by weight, each of equal weight then."""
    if most is None or len(weights) <= most:
        return np.arange(len(weights)), weights
    drawn = min(most, int(np.sum(weights > 0)))
    rows = np.sort(rng.choice(len(weights), drawn, replace=False, p=weights))
    return rows, np.full(drawn, 1 / drawn)


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
