from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray
from scipy.stats import rankdata

from ..core.genes.trends import effective
from ..core.genes.trends import trends as smoothed
from ..edge.checks import check_integer, check_name, check_writable
from ..edge.drivers import StoredFates, stored_fates
from ..edge.expression import expression, genes_at
from ..edge.fitted import FittedCells, fitted_cells
from ..edge.logging import logger
from ..edge.snapshots import obs_column
from ..edge.storage.fields import write_fields

Array = NDArray[np.float64]

#: What the pseudo-time is, beside columns of ``obs``.
POTENTIAL = "potential"
#: Fewer cells than this, counted by weight, are no trend.
FEWEST = 20


def trends(
    adata: AnnData,
    genes: Iterable[str],
    *,
    fates: str | Iterable[str] | None = None,
    along: str = POTENTIAL,
    n_points: int = 50,
    n_knots: int = 6,
    layer: str | None = None,
    use_raw: bool = False,
    key: str = "jko",
) -> pd.DataFrame:
    """Expression of genes along the trajectory to each fate, with bands.

    Cells are weighted by their probability of the fate, and a spline with as much smoothing as generalised
    cross-validation chooses is fitted to each gene. Bands are those of the mean, for a pseudo-time taken as given.

    Parameters
    ----------
    adata
        Annotated data with a fit by :func:`scjko.tl.fit_energy`, and fates by :func:`scjko.tl.fates` unless ``fates``
        is an empty list.
    genes
        Names of the genes.
    fates
        The fates, all by default. An empty list weighs all cells alike.
    along
        The pseudo-time: ``"potential"`` is the share of cells that are higher, so that 0 is the top and 1 the bottom of
        the landscape; or a column of ``adata.obs`` with numbers, such as a time or another pseudo-time.
    n_points
        Points of the pseudo-time at which trends are evaluated, from its 1 % to its 99 % quantile for each fate.
    n_knots
        Knots of the spline.
    layer
        The layer with the expression. Defaults to ``X``.
    use_raw
        Whether to take ``adata.raw`` instead, which may have more genes.
    key
        The ``key_added`` of the fit.

    Returns
    -------
    A frame with a row for each gene, fate and point, also stored as ``uns["jko_trends"]``:

    ``gene``, ``fate``, ``at``
        The gene, the fate (``"all"`` without fates), and the pseudo-time.
    ``mean``, ``error``, ``low``, ``high``
        The mean, its standard error, and the ends of its 95 % band.
    ``n_effective``
        How many cells of equal weight those within a tenth of the range of the pseudo-time are worth.

    Examples
    --------
    >>> import scanpy as sc
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(400, 200, n_drivers=5)
    >>> sc.pp.normalize_total(adata); sc.pp.log1p(adata); sc.pp.pca(adata)
    >>> sj.tl.fit_energy(adata, "day", n_pcs=5, parametrization="linear", progress=False)
    >>> sj.tl.fates(adata, "fate")
    >>> table = sj.tl.trends(adata, ["gene 0"], fates=["fate 1"], along="day")
    >>> ends = table["mean"].iloc[[0, -1]]
    >>> bool(ends.iloc[0] < ends.iloc[1])
    True
    """
    check_writable(adata, False)
    check_integer("n_points", n_points, minimum=2)
    check_integer("n_knots", n_knots, minimum=3)
    fitted = fitted_cells(adata, key)
    found = expression(adata, layer, use_raw)
    columns = genes_at(found.names, genes)
    position = _positions(fitted, along)
    weights = _weights(fitted, fates)
    values = found.columns(columns)
    frames = []
    for name, weight in weights.items():
        counted = weight > 1e-3
        if effective(weight[counted]) < FEWEST or np.ptp(position[counted]) <= 0:
            raise ValueError(
                f"Fewer than {FEWEST} cells have the fate {name!r}, or all are at one point of {along!r}; a trend "
                "needs more. Leave this fate out with fates=[...]."
            )
        first, final = np.quantile(position[counted], [0.01, 0.99])
        at = np.linspace(float(first), float(final), n_points)
        made = smoothed(position[counted], weight[counted], values[counted], at, n_knots)
        near = np.abs(position[counted] - at[:, None]) <= 0.05 * np.ptp(position[counted])
        worth = [effective(weight[counted][row]) if row.any() else 0.0 for row in near]
        frames += [
            pd.DataFrame(
                {
                    "gene": str(found.names[column]),
                    "fate": name,
                    "at": at,
                    "mean": made.mean[:, g],
                    "error": made.error[:, g],
                    "low": made.mean[:, g] - 1.96 * made.error[:, g],
                    "high": made.mean[:, g] + 1.96 * made.error[:, g],
                    "n_effective": worth,
                }
            )
            for g, column in enumerate(columns)
        ]
    table = pd.concat(frames, ignore_index=True)
    logger.info("Trends of %d genes to %s along %r.", len(columns), ", ".join(weights), along)
    stored = table.set_axis(table.index.astype(str)).assign(along=along)
    write_fields(adata, uns={fitted.keys.trends: stored})
    return table


def _positions(fitted: FittedCells, along: str) -> Array:
    """The pseudo-time of each cell."""
    check_name("along", along)
    if along == POTENTIAL:
        height = fitted.energy.potential(fitted.coordinates, fitted.times)
        return np.asarray((rankdata(-height) - 0.5) / len(height))
    if along == fitted.time_key:
        return fitted.times
    column = obs_column(fitted.adata, "along", along)
    if not pd.api.types.is_numeric_dtype(column.dtype):
        raise ValueError(f"obs[{along!r}] is of type {column.dtype}; a pseudo-time is a number.")
    values = column.to_numpy(dtype=np.float64)
    if not np.isfinite(values).all():
        raise ValueError(f"obs[{along!r}] has NaN or infinite values for {int((~np.isfinite(values)).sum())} cells.")
    return values


def _weights(fitted: FittedCells, fates: str | Iterable[str] | None) -> dict[str, Array]:
    """How much each cell counts for each fate."""
    wanted = None if fates is None else [fates] if isinstance(fates, str) else list(fates)
    if wanted == []:
        return {"all": fitted.cell_weights}
    stored: StoredFates = stored_fates(fitted)
    for name in wanted or []:
        if name not in stored.names:
            raise KeyError(f"fates names {name!r}, which is none of {', '.join(map(repr, stored.names))}.")
    return {name: stored.probabilities(name) * fitted.cell_weights for name in wanted or stored.names}
