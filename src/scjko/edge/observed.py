"""Velocities that the user has observed, such as RNA velocity, against those of a fit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.fitting.fit import fit
from ..core.fitting.parametrizations import Linear
from ..core.landscape.observed import observed
from ..core.timeline import Timeline, time_text
from ..core.transport import Coupling, uniform
from .fitted import FittedCells
from .logging import logger
from .snapshots import representation
from .storage.fields import whitening_from_uns

Array = NDArray[np.float64]

#: Cells of a time point whose observed velocities are compared: at least, and at most.
FEWEST_OBSERVED, MOST_OBSERVED = 40, 1000
#: Radial basis functions of potentials that are fitted to observed velocities: one for so many cells, at most so many.
CELLS_EACH, MOST_CENTERS = 10, 50


def observed_velocity(cells: FittedCells, velocity_key: str) -> Array:
    """The velocities of the user in the coordinates of the fit, one row for each cell."""
    adata, n_dims = cells.adata, cells.energy.n_dims
    if not isinstance(velocity_key, str):
        raise TypeError(f"velocity_key must be the name of a field of adata.obsm, not {velocity_key!r}.")
    if velocity_key not in adata.obsm:
        there = ", ".join(map(repr, adata.obsm)) or "nothing"
        raise KeyError(
            f"No velocity_key={velocity_key!r} in adata.obsm, which has {there}. Velocities of genes are projected "
            "with their loadings: adata.layers['velocity'] @ adata.varm['PCs']."
        )
    velocity = representation(adata, velocity_key, None)[1].astype(np.float64)
    if velocity.shape[1] < n_dims:
        raise ValueError(
            f"obsm[{velocity_key!r}] has {velocity.shape[1]} components and the fit {n_dims}; velocities are compared "
            f"in the coordinates of the fit, obsm[{cells.params['use_rep']!r}]."
        )
    whitening = whitening_from_uns(cells.stored)
    return velocity[:, :n_dims] if whitening is None else velocity[:, :n_dims] / whitening.std


def compared(cells: FittedCells, times: Sequence[float], velocity: Array, random_state: int) -> dict[str, Any]:
    """Observed velocities at each time with cells against the fitted ones, as columns, and in words in a log line."""
    columns: dict[str, list[float]] = {name: [] for name in ("time", "cosine", "shuffled", "explained", "curl")}
    rng = np.random.default_rng(random_state)
    for time in times:
        rows = np.flatnonzero(cells.times == time)
        rows = np.sort(rng.permutation(rows)[:MOST_OBSERVED])
        if len(rows) < FEWEST_OBSERVED:
            continue
        x = cells.coordinates[rows].astype(np.float64)
        found = observed(x, cells.energy.velocity(x, time), velocity[rows], potential_flow, random_state)
        row = time, found.cosine, found.shuffled, found.neighbours, found.curl
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
        logger.info(
            "Observed velocities at %s: cosine with the fitted ones %.2f (%.2f when shuffled among cells). Neighbours "
            "explain %.0f %% of them, and %s.",
            time_text(time),
            found.cosine,
            found.shuffled,
            100 * max(found.neighbours, 0.0),
            "agree on nothing that could be compared with a potential"
            if np.isnan(found.curl)
            else f"no potential has {100 * found.curl:.0f} % of that",
        )
    if not columns["time"]:
        raise ValueError(
            f"velocity_key needs {FEWEST_OBSERVED} cells at one of the times of the landscape, to fit a potential to "
            "half of them."
        )
    return {name: np.array(column) for name, column in columns.items()}


def potential_flow(x: Array, velocity: Array) -> Any:
    """The flow of the potential that is nearest to these velocities, as a function of position."""
    one_by_one = np.arange(len(x))
    pairs = Coupling.of(one_by_one, one_by_one, uniform(x), x, x + velocity)
    timeline = Timeline(np.array([0.0, 1.0]))
    potential = Linear(n_centers=min(MOST_CENTERS, len(x) // CELLS_EACH), ridge=1e-2)
    found = fit([x, x + velocity], [pairs], timeline, parametrization=potential, scheme="explicit", time_varying=False)
    return lambda points: found.energy.velocity(points, 0.0)
