from __future__ import annotations

import numpy as np
import pandas as pd
from anndata import AnnData
from anndata.utils import make_index_unique
from numpy.typing import NDArray

from ..core.energy.energy import Energy
from ..core.motion.paths import Step
from ..core.schemes import SCHEMES
from ..core.timeline import time_text
from ..edge.checks import check_integer, check_option
from ..edge.diagnosis import warn_of_untrusted
from ..edge.fitted import fitted_cells
from ..edge.keys import Keys
from ..edge.predicted import described


def predict(
    adata: AnnData,
    time: float | str | None = None,
    *,
    source: float | str | None = None,
    scheme: str | None = None,
    n_samples: int = 1,
    genes: bool | None = None,
    key: str = "jko",
    random_state: int = 0,
) -> AnnData:
    """Cells as the fitted energy predicts them at another time.

    The cells may be those of the fit, or others with the same representation: copy ``uns["jko"]`` to them.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`.
    time
        The time to predict, as a number or as a label of the time column. By default every cell is moved to the next
        snapshot; those of the last one are forecast over the length of the last interval.
    source
        The time point whose cells are moved. By default the last one before ``time``, or all.
    scheme
        How to step: ``"explicit"``, or ``"implicit"``, the proximal step. Defaults to the one that the fit makes exact.
    n_samples
        Number of times each cell is moved; copies differ only where the energy has noise.
    genes
        Whether the cells come with genes, dense in ``X``, through the loadings of the PCA. By default they do where
        there are loadings and ``X`` would have at most 20 million numbers.
    key
        The ``key_added`` of the fit.
    random_state
        Seed of the noise, if the energy has any.

    Returns
    -------
    A new AnnData of predicted cells, with the columns of ``obs`` that their source cells have, and

    ``obsm["X_jko"]``
        Their coordinates.
    ``X``, ``uns["jko"]``
        With ``genes``: the expression of each gene, in units of the ``X`` that the PCA was computed from, and the fit,
        so that :func:`scjko.tl.project_genes` and :func:`scjko.get.energy` take these cells too.
    ``obs[time_key]``
        The time they are predicted at.
    ``obs["jko_source"]``, ``obs["jko_source_time"]``
        The observed cell that was moved, and its time.
    ``obs["jko_weight"]``
        The weight of each cell, summing to one over a time point: that of the fit, times the growth of its mass if the
        fit has growth.
    ``obs["jko_forecast"]``
        Whether that time lies beyond the last snapshot of the fit.
    ``obs["jko_converged"]``
        Whether the position can be trusted: the step was solved and stayed in the range of the data.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> sj.tl.predict(adata, time=3).obs["jko_source_time"].unique()
    array([2.])
    """
    cells = fitted_cells(adata, key)
    if scheme is not None:
        check_option("scheme", scheme, SCHEMES)
    check_integer("n_samples", n_samples)
    check_integer("random_state", random_state, minimum=0)
    energy, start = cells.energy, cells.times
    to, from_ = (
        None if asked is None else cells.time(name, asked) for name, asked in (("time", time), ("source", source))
    )
    chosen = np.repeat(_sources(start, to, from_, cells.time_key), n_samples)
    stop = _stops(energy, start[chosen], to)
    moved = _move(energy, cells.coordinates[chosen], start[chosen], stop, scheme, random_state)
    warn_of_untrusted(moved.converged, cells.keys.converged)
    obs = _predicted(adata.obs_names[chosen], start[chosen], stop, moved, energy, cells.keys, cells.time_key)
    made = described(obs, moved.positions, chosen, cells, genes)
    made.obs[cells.keys.weight] = _weights(cells.cell_weights[chosen] * moved.mass, start[chosen], stop)
    return made


def _sources(start: NDArray[np.float64], time: float | None, source: float | None, time_key: str) -> NDArray[np.int64]:
    """Rows of the cells to move."""
    there = np.unique(start)
    if source is not None:
        if source not in there:
            listed = ", ".join(map(time_text, there))
            raise ValueError(f"source={time_text(source)} is no time point of obs[{time_key!r}], which has {listed}.")
        return np.flatnonzero(start == source)
    if time is None:
        return np.arange(len(start))
    if time <= there[0]:
        raise ValueError(
            f"time={time_text(time)} is not after the first time point ({time_text(there[0])}), so there are no cells "
            "to predict it from; to go back in time name the source."
        )
    return np.flatnonzero(start == there[there < time][-1])


def _stops(energy: Energy, start: NDArray[np.float64], time: float | None) -> NDArray[np.float64]:
    """The time each cell is moved to: ``time``, or the next snapshot."""
    if time is not None:
        stop = np.full(len(start), time)
    else:
        stop = energy.timeline.following[energy.timeline.locate(start)[0]]
        stop = np.where(start >= energy.times[-1], start + energy.timeline.gaps[-1], stop)
    energy.announce_forecast(stop)
    return stop


def _move(
    energy: Energy,
    x: NDArray[np.floating],
    start: NDArray[np.float64],
    stop: NDArray[np.float64],
    scheme: str | None,
    random_state: int,
) -> Step:
    moved = Step(np.empty(x.shape), np.empty(len(x), dtype=bool), np.empty(len(x)))
    ways = np.unique(np.stack([start, stop], axis=1), axis=0)
    seeds = np.random.SeedSequence(random_state).generate_state(len(ways))
    # Sorted by coordinates, so that the noise a cell gets does not depend on its row.
    order = np.lexsort(x.T[::-1])
    for (t0, t1), seed in zip(ways, seeds, strict=True):
        rows = order[(start[order] == t0) & (stop[order] == t1)]
        step = energy.move(x[rows], t0, t1, scheme=scheme, random_state=int(seed))
        moved.positions[rows], moved.converged[rows], moved.mass[rows] = step
    return moved


def _weights(mass: NDArray[np.float64], start: NDArray[np.float64], stop: NDArray[np.float64]) -> NDArray[np.float64]:
    """Masses made to sum to one over the cells that have the same times."""
    group = np.unique(np.stack([start, stop], axis=1), axis=0, return_inverse=True)[1].ravel()
    return np.asarray(mass / np.maximum(np.bincount(group, mass), 1e-300)[group])


def _predicted(
    names: pd.Index,
    start: NDArray[np.float64],
    stop: NDArray[np.float64],
    moved: Step,
    energy: Energy,
    keys: Keys,
    time_key: str,
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            time_key: stop,
            keys.source: names.astype(str),
            keys.source_time: start,
            keys.forecast: stop > energy.times[-1],
            keys.converged: moved.converged,
        },
        index=make_index_unique(pd.Index([f"{name}-{time_text(t)}" for name, t in zip(names, stop, strict=True)])),
    )
