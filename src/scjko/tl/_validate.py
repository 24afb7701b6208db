from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any, Literal

import numpy as np
import pandas as pd
from anndata import AnnData
from numpy.typing import NDArray

from ..core.compute.limits import n_cores
from ..core.compute.parallel import check_client, side_by_side
from ..core.judging.names import JUDGED
from ..core.transport import Auto, Coupling, Solver, couple
from ..core.transport.budget import allot, distances_at_once
from ..edge.checks import check_bool, check_option, check_writable
from ..edge.fitting import couple_snapshots, fit_snapshots
from ..edge.growth import cell_rates, growth_of
from ..edge.logging import logger, progress_bar
from ..edge.options import READY_MADE, FitOptions, explains_moved_options
from ..edge.snapshots import Snapshots, Whitening, cell_times, cell_weights, check_snapshots, collect, representation
from ..edge.storage.fields import write_fields
from ..edge.validation.earlier import DEFAULT_KEY, earlier_options, taken_over
from ..edge.validation.folds import Fold, Protocol, Row, Trained
from ..edge.validation.kept import COLUMNS, kept, side_by_side_with
from ..edge.validation.protocols import as_protocol
from ..edge.validation.shares import Labelled, types_of
from ._fit_energy import fit_energy
from ._validate_clones import CLONES, validate_clones

#: Arguments of a fit that many fits of some of the cells cannot have.
_NOT_HERE = ("adata", "key_added", "progress", "client", "copy")


@explains_moved_options
def validate(
    adata: AnnData,
    time_key: str | None = None,
    n_pcs: int | None = None,
    *,
    protocol: Literal["cells", "times", "last", "clones"] = "cells",
    test_size: float = 0.4,
    n_splits: int = 5,
    whiten: bool | Literal["all"] | None = None,
    cluster_key: str | None = None,
    clone_key: str | None = None,
    terminal: Any = None,
    key: str | None = DEFAULT_KEY,
    key_added: str = "jko_validation",
    random_state: int = 0,
    progress: bool = True,
    client: Any = None,
    **fit_options: Any,
) -> pd.DataFrame:
    """Errors on held-out cells of a fitted energy and of baselines, and a verdict in words.

    Fits with some cells held out, predicts them, and compares by exact earth mover's distance, next to baselines that
    have no energy. The log says whether the energy is better than all of them, and with what uncertainty. After
    :func:`scjko.tl.fit_energy` the options of that fit are the defaults. Exact distances need memory proportional to
    the product of cell numbers; more than the ``memory_limit`` of the solver is refused before the first fit.

    Parameters
    ----------
    adata
        Annotated data with a representation of the cells.
    time_key
        Column of ``adata.obs`` with the time of each cell, as for :func:`scjko.tl.fit_energy`. Defaults to that of the
        fit.
    n_pcs
        Number of components of the representation to use. Defaults to that of the fit, or to all without a fit.
    protocol
        What is held out:

        - ``"cells"``: some cells of every time point. They are moved to the next one and compared with those held out
          there.
        - ``"times"``: every time point but the first and last, in turn. It is interpolated from its neighbours, as
          :func:`scjko.tl.interpolate` does.
        - ``"last"``: the last time point. It is forecast from the one before.
        - ``"clones"``: nothing. Fates by :func:`scjko.tl.fates` are compared with those of clonal sisters.
    test_size
        Fraction of the cells of each time point that protocol "cells" holds out.
    n_splits
        Number of random splits that protocol "cells" makes.
    whiten
        Whether to standardise each component by the training cells. ``"all"`` uses the held-out cells too, as published
        protocols do; choose it only to compare with their figures. Defaults to that of the fit, or to False without a
        fit.
    cluster_key
        Column of ``adata.obs`` with the type of each cell. The frame then has a column ``share_error``: the largest
        difference between the predicted and the observed share of a type. Predicted cells have the types of the 15
        nearest training cells. Protocol "clones": as for :func:`scjko.tl.fates`.
    clone_key
        Protocol "clones": column of ``adata.obs`` with labels of clones, or matrix in ``adata.obsm``.
    terminal
        Protocol "clones": as for :func:`scjko.tl.fates`. Without it and ``cluster_key``, the stored fates are used.
    key
        The ``key_added`` of the fit whose options are the defaults, or ``None``. One of another time column is ignored.
    key_added
        Where in ``adata.uns`` the result is stored.
    random_state
        Seed of the first split and fit; the others follow it.
    progress
        Whether to show a progress bar.
    client
        A ``distributed.Client``: the fits are then made on its Dask cluster.
    fit_options
        Other options of :func:`scjko.tl.fit_energy`. Others are those of the fit, or the defaults without a fit.

    Returns
    -------
    A tidy frame of this call with the columns ``protocol``, ``split``, ``time`` (of the predicted cells), ``method``,
    ``emd``, ``n_source``, ``n_target``, and the verdict in ``attrs["verdict"]``. With protocol "cells", if the energy
    has members, ``coverage`` is the fraction of held-out cells, coupled by themselves, that its 90 % prediction regions
    hold, and ``sharpness`` the mean radius of these. Stored are

    ``uns["jko_validation"]``
        The rows of all protocols; a call replaces those of its own protocol.
    ``uns["jko_validation_verdict"]``
        The verdict of each protocol, as text.

    The methods are

    ``scjko``
        The fitted energy.
    ``persistence``
        No move.
    ``ot_nearest``, ``ot_neighbours``, ``ot_neighbours_best``
        Protocol "cells": moved by exact optimal transport of training cells: as the nearest one, as the mean of the
        nearest five, or as the mean of 1 to 30, chosen by how well halves of the training cells predict each other.
    ``kernel_ridge``, ``linear_map``
        Protocol "cells": moved by a kernel ridge or a linear regression of those displacements.
    ``kantorovich``
        Protocol "cells": moved by the gradient of the Kantorovich potential of the coupling, extended from the training
        cells to all points as the lower envelope of their parabolas.
    ``mixture``, ``ot_midpoint``, ``ot_midpoint_prior``, ``ot_asynchronous``
        Protocol "times": the cells of both neighbours, their displacement interpolation (McCann), that with the density
        prior of the energy's interpolation, and that with its asynchrony too.
    ``mean_shift``
        Protocol "last": the cells of the time point before, moved on at the mean velocity of the interval before it.
    ``neighbours``, ``couplings``, ``frequency``
        Protocol "clones": random walks on the graph of all cells, the couplings of the fit, the most frequent fate.
    ``floor``
        The distance of two samples of one population: training and held-out cells of the time point, or two halves of
        its cells. It depends on ``n_source`` and ``n_target``; a smoother or larger prediction can lie below it.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(600)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> frame = sj.tl.validate(adata, protocol="last", progress=False)
    >>> sorted(frame["method"].unique())
    ['floor', 'mean_shift', 'persistence', 'scjko']
    """
    check_writable(adata, copy=False)
    if protocol == CLONES:
        return validate_clones(adata, clone_key, cluster_key, terminal, (key, key_added), random_state)
    held_out = as_protocol(protocol, test_size, n_splits)
    _check_names(fit_options)
    check_client(client)
    held = kept(adata, key_added)
    earlier = earlier_options(adata, key, time_key)
    given = fit_options if n_pcs is None else {**fit_options, "n_pcs": n_pcs}
    options = taken_over(earlier, time_key, given, random_state)
    validation = _Validation.of(adata, options, held_out, _whitened(whiten, earlier), types_of(adata, cluster_key))
    everything = collect(validation.coordinates, validation.times, validation.weights)
    check_snapshots(everything, options.time_key, options.terms)
    folds = held_out.folds(everything, options.time_key, options.scheme, random_state)
    pairs = [pair for fold in folds for pair in held_out.pairs(everything, fold)]
    at_once = distances_at_once(pairs, options.solver.limit, n_cores())
    if earlier is not None:
        _announce(adata, str(key), validation, "coupling" in given)
    with progress_bar(len(folds), "validation", enabled=progress) as bar:
        done = side_by_side(validation.run, folds, bar.update, at_once=at_once, client=client)
    rows = [row for rows in done for row in rows]
    verdict = held_out.judged(rows)
    _warn_of(rows)
    (logger.info if verdict.better else logger.warning)("%s", verdict.text, extra={"verdict": True})
    regions = any(np.isfinite(row.coverage) for row in rows)
    further = [*(["share_error"] if cluster_key is not None else []), *(["coverage", "sharpness"] if regions else [])]
    frame = pd.DataFrame(rows)[[*COLUMNS, *further]]
    write_fields(adata, uns=side_by_side_with(held, key_added, frame, held_out.name, verdict.text))
    frame.attrs["verdict"] = verdict.text
    return frame


@dataclass(frozen=True, eq=False)
class _Validation:
    """Everything that the fits of a validation share."""

    protocol: Protocol
    options: FitOptions
    whiten: bool
    """Whether to standardise by the training cells of each fold."""
    use_rep: str
    coordinates: NDArray[np.floating]
    times: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    rates: NDArray[np.float64] | None
    types: NDArray[np.float64] | None

    @classmethod
    def of(
        cls,
        adata: AnnData,
        options: FitOptions,
        protocol: Protocol,
        whiten: bool | str,
        types: NDArray[np.float64] | None,
    ) -> _Validation:
        """The cells of ``adata`` with weight."""
        rep, coordinates = representation(adata, options.use_rep, options.n_pcs)
        times = cell_times(adata, options.time_key, options.time_values)
        weights, rates = cell_weights(adata, options.weight_key), cell_rates(adata, options.growth)
        if weights is not None:  # a cell without weight takes no part
            held = weights > 0
            rates, types = (None if part is None else part[held] for part in (rates, types))
            coordinates, times, weights = coordinates[held], times[held], weights[held]
        if whiten == "all":
            coordinates = Whitening.of(coordinates)(coordinates)
        return cls(protocol, options, whiten is True, rep, coordinates, times, weights, rates, types)

    def run(self, fold: Fold) -> list[Row]:
        """The errors of one fold."""
        x = Whitening.of(self.coordinates[fold.train])(self.coordinates) if self.whiten else self.coordinates
        train, test = (
            collect(x[cells], self.times[cells], *(None if p is None else p[cells] for p in (self.weights, self.rates)))
            for cells in (fold.train, ~fold.train)
        )
        options = self.protocol.fitted_with(self.options, fold)
        check_snapshots(train, options.time_key, options.terms)
        growth = growth_of(train, options)
        couplings, solvers = couple_snapshots(train, options, progress=False, growth=growth)
        energy = fit_snapshots(train, couplings, options, progress=False, growth=growth).energy
        exact = _exact(train, couplings, solvers, options)
        trained = Trained(energy, train, test, exact)
        if self.types is not None:
            known, held_out = self.types[fold.train][train.rows], self.types[~fold.train][test.rows]
            shares = np.add.reduceat(test.cell_weights[:, None] * held_out, np.cumsum(test.sizes) - test.sizes)
            trained = trained._replace(labelled=Labelled(train.coordinates, known), observed=shares)
        return self.protocol.rows(trained, fold.split)


def _exact(train: Snapshots, couplings: list[Coupling], solvers: list[Solver], options: FitOptions) -> list[Coupling]:
    """Couplings for the baselines, which a blurred one would weaken: exact ones, for large snapshots multiscale."""
    sizes, n_dims = train.sizes.tolist(), train.coordinates.shape[1]
    best = allot(Auto(memory_limit=options.solver.memory_limit), sizes, n_dims, n_cores())
    same = [solver.name for solver in solvers] == [solver.name for solver in best.solvers]
    if same and options.growth is None:  # baselines know of no growth
        return couplings
    seed = options.random_state
    return couple(train.points, train.weights, best.solvers, at_once=best.at_once, random_state=seed)


def _check_names(given: Iterable[str]) -> None:
    """Raise for an option that neither a validation nor a fit has."""
    fits, ours = signature(fit_energy).parameters, signature(validate).parameters
    own = [name for name, part in ours.items() if name != "adata" and part.kind is not Parameter.VAR_KEYWORD]
    passed_on = [name for name in fits if name not in (*_NOT_HERE, *own)]
    for name in given:
        if name not in passed_on:
            raise TypeError(
                f"validate takes no {name!r}. Its own options are {', '.join(own)}; those that it passes on to fits "
                f"are {', '.join(passed_on)}."
            )


def _whitened(whiten: bool | str | None, earlier: FitOptions | None) -> bool | str:
    """How to standardise: as given, or as the earlier fit did."""
    if whiten is None:
        return earlier is not None and earlier.whiten
    whiten = whiten if isinstance(whiten, str) else check_bool("whiten", whiten)
    check_option("whiten", whiten, [None, False, True, "all"])
    return whiten


def _announce(adata: AnnData, key: str, validation: _Validation, coupling_given: bool) -> None:
    """Say which options are those of an earlier fit."""
    logger.info(
        "Options that are not given are those of the fit at adata.uns[%r]: %d components of obsm[%r] are validated.",
        key,
        validation.coordinates.shape[1],
        validation.use_rep,
    )
    if str(adata.uns[key]["params"]["coupling"]) == READY_MADE and not coupling_given:
        logger.info("Its ready-made couplings are those of all cells; parts of them are coupled by coupling='auto'.")


def _warn_of(rows: Iterable[Row]) -> None:
    """Warn of predictions that cannot be trusted."""
    ours = [row for row in rows if row.method == JUDGED]
    failed = sum(row.untrusted for row in ours)
    if failed:
        logger.warning(
            "%d of %d predicted cells left the range of the data or were not solved; they count as they are.",
            failed,
            sum(row.n_source for row in ours),
        )
