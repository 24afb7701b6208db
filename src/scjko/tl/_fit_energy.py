from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, Literal

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from ..core.compute.parallel import check_client
from ..core.energy.energy import Energy
from ..core.energy.specification import Term
from ..core.fitting.parametrizations import Parametrization
from ..core.transport import Coupling, OperatorCoupling, Solver
from ..edge.checks import check_writable
from ..edge.diagnosis import diagnose, warn_of_untrusted
from ..edge.fitting import couple_snapshots, fit_snapshots, summary
from ..edge.growth import cell_rates, compared, coupled_rates, growth_in, growth_of
from ..edge.keys import Keys
from ..edge.logging import logger
from ..edge.options import READY_MADE, FitOptions, explains_moved_options
from ..edge.ready_made import ready_made
from ..edge.snapshots import (
    Snapshots,
    Whitening,
    cell_times,
    cell_weights,
    check_snapshots,
    collect,
    obs_column,
    representation,
)
from ..edge.storage.fields import check_free, versions, write_fields
from ..edge.storage.serialized import energy_to_uns


@explains_moved_options
def fit_energy(
    adata: AnnData,
    time_key: str,
    n_pcs: int | None = None,
    *,
    use_rep: str | None = None,
    time_values: Mapping[Any, float] | None = None,
    weight_key: str | None = None,
    terms: Sequence[Literal["potential", "interaction", "internal"] | Term] = ("potential",),
    parametrization: Literal["auto", "neural", "linear", "kantorovich"] | Parametrization = "auto",
    time_varying: bool | Literal["smooth"] | None = None,
    scheme: Literal["both", "explicit", "implicit"] = "both",
    coupling: Literal["auto", "exact", "multiscale", "partial", "batched", "sinkhorn"]
    | Solver
    | Mapping[tuple[Any, Any], Any] = "auto",
    growth: str | Literal["auto"] | None = None,
    whiten: bool = False,
    key_added: str = "jko",
    random_state: int = 0,
    progress: bool = True,
    client: Any = None,
    copy: bool = False,
) -> AnnData | None:
    r"""Fit the energy that moves the cells from one time point to the next.

    Couples consecutive snapshots by optimal transport and finds the energy whose gradient balances the displacement
    of every coupled pair, the first-order condition of JKOnet\* (Terpin et al., NeurIPS 2024).

    Parameters
    ----------
    adata
        Annotated data with a representation of the cells, for instance from :func:`scanpy.pp.pca`.
    time_key
        Column of ``adata.obs`` with the time of each cell: numbers, or labels that hold one (``"day 6"``, ``"6.5h"``,
        ``"Day 00-03"``, read as its midpoint).
    n_pcs
        Number of components of the representation to use. Defaults to all.
    use_rep
        Key in ``adata.obsm`` of the representation. Defaults to ``X_pca`` (or ``pca``).
    time_values
        The number that each label in the time column stands for, where it cannot be read from the label.
    weight_key
        Column of ``adata.obs`` with a weight for each cell. Defaults to equal weights.
    terms
        Terms of the energy, the potential and any of the others, as names or, with options, as objects:

        - ``"potential"``: V, where cells go on their own.
        - ``"interaction"`` or :class:`scjko.Interaction`: U, how cells attract or repel each other.
        - ``"internal"`` or :class:`scjko.Internal`: β, how strongly they spread at random.
    parametrization
        How the energy is written:

        - ``"auto"`` or :class:`scjko.Stacked`: V is a Kantorovich potential, a network, or the mean of both, whichever
          predicts held-out cells best; ``uns["jko"]["choice"]`` has their errors. Other terms are networks, and so is a
          potential that cannot be a Kantorovich potential.
        - ``"kantorovich"`` or :class:`scjko.Kantorovich`: V is the dual potential of couplings of resampled cells,
          without training.
        - ``"neural"`` or :class:`scjko.Neural`: V and U are multi-layer perceptrons, trained by gradient descent.
        - ``"linear"`` or :class:`scjko.Linear`: V and U are sums of monomials and radial basis functions, solved in
          closed form.
    time_varying
        Whether the potential may differ between intervals. Defaults to True, except for two snapshots fitted at one
        end. A linear potential may also be ``"smooth"``, quadratic in time.
    scheme
        Where the first-order condition holds:

        - ``"both"``: at both ends of every interval, or half-way for a potential that does not vary in time. Predicts
          forward and backward, and uses every snapshot.
        - ``"explicit"``: where cells come from. Does not use the last snapshot; the potential there is extrapolated.
        - ``"implicit"``: where cells go to, as in the paper. Predicts by a proximal step, and does not use the first.
    coupling
        How snapshots are coupled:

        - ``"auto"`` or :class:`scjko.Auto`: exactly up to about 4500 × 4500 cells, else ``"multiscale"``; a log line
          says which.
        - ``"exact"`` or :class:`scjko.Exact`: by linear programming.
        - ``"multiscale"`` or :class:`scjko.Multiscale`: within 1 % of the optimum where that can be reached, with a
          bound that proves how near it is, for snapshots of any size.
        - ``"partial"`` or :class:`scjko.Partial`: with mass left over where it would have to travel too far, as between
          fates whose proportions differ by chance.
        - ``"batched"`` or :class:`scjko.Batched`: exactly for random batches of cells.
        - ``"sinkhorn"`` or :class:`scjko.Sinkhorn`: with entropic regularisation.
        - a mapping ``{(t0, t1): matrix}`` of ready-made couplings of all consecutive time points. A matrix (dense,
          sparse, or a :class:`scipy.sparse.linalg.LinearOperator`) has the cells of t0 in its rows and those of t1 in
          its columns, in the order of ``adata``. A DataFrame, or an AnnData in the layout of Waddington-OT (cells of
          t0 as ``obs``, those of t1 as ``var``), names the cells.
    growth
        How the mass of cells changes, by division and death:

        - ``None``: it does not. Proportions change by motion only.
        - a column of ``adata.obs`` with the growth rate of each cell per unit of time, births minus deaths, for
          instance from :func:`scjko.tl.growth_rates`. A constant added to all rates changes nothing.
        - ``"auto"``: estimated by unbalanced transport, around ``obs["jko_growth_prior"]`` if that exists. With
          ready-made couplings, it is read from the sums of their rows.
    whiten
        Whether to standardise each component before fitting.
    key_added
        Name under which the fit is stored.
    random_state
        Seed of the initial weights and of the batches.
    progress
        Whether to show a progress bar.
    client
        A ``distributed.Client``: couplings are then solved on its Dask cluster.
    copy
        Whether to return a copy instead of writing into ``adata``.

    Returns
    -------
    ``None``, or with ``copy=True`` the AnnData, with these fields (for ``key_added="jko"``):

    ``obs["jko_potential"]``
        The potential at each cell and its own time. Its mean over the first snapshot is zero.
    ``obs["jko_forecast"]``
        Whether the predicted position lies beyond the last snapshot.
    ``obs["jko_converged"]``
        Whether the predicted position can be trusted: the step was solved and stayed in the range of the data.
    ``obs["jko_potential_std"]``, ``obsm["jko_velocity_std"]``
        Standard deviations of the potential and of each component of the velocity, where the energy is a mean of
        members (``energy.members``): ±1.645 of them are 90 % bands. They cover sampling noise, not errors that all
        members share.
    ``obs["jko_growth"]``, ``obs["jko_growth_coupled"]``
        With ``growth``: the growth rate at each cell and its own time by the fitted growth field, per unit of time, and
        the rate that its coupling has (as given or estimated; NaN in the last snapshot).
    ``obsm["X_jko"]``
        The coordinates that were fitted.
    ``obsm["jko_velocity"]``
        The velocity field, minus the gradient of the energy at the cell's own time, in units of ``X_jko`` per unit of
        time.
    ``obsm["jko_predicted"]``
        Each cell moved to the next snapshot; those of the last one forecast by the length of the last interval.
    ``uns["jko"]``
        ``params``, ``times``, ``weights``, ``scaling``, ``history`` (loss per epoch, relative to a zero energy),
        ``couplings`` (a summary; its ``gap`` is how far above the optimum the cost of each can be at most, as a
        fraction, NaN if unknown, and its ``dropped`` the fraction of the mass that has no partner), ``diagnostics``,
        ``forecast`` (its damping, its error on known snapshots relative to not moving, and the number of these),
        ``format``, ``version``, ``versions`` (of the packages it was computed with), and ``whitening``,
        ``growth`` (the growth field, and the mean and spread of rates at each time point), ``populations`` and
        ``mixtures`` where they are needed.
        :func:`scjko.get.params` gives the parameters to repeat the fit. The diagnostics are: for each interval the
        fraction of the squared velocity that the energy explains (``explained``); for each snapshot the number of cells
        whose prediction cannot be trusted (``unconverged``); for each term beside the potential the fraction of its
        force that a potential cannot reproduce, near zero if the data cannot distinguish the two
        (``identifiability``); for each interval how far heights are from the dual potentials of its coupling, relative
        to their spread (``dual_difference``, NaN where these are flat); ``beta`` and its standard error
        ``beta_error``; and of a linear fit its ``ridge``, ``condition_number`` and ``degrees_of_freedom``.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=20), progress=False)
    >>> adata.obsm["jko_velocity"].shape
    (300, 2)
    """
    check_writable(adata, copy)
    options = FitOptions.of(
        time_key=time_key,
        n_pcs=n_pcs,
        use_rep=use_rep,
        time_values=time_values,
        weight_key=weight_key,
        terms=terms,
        parametrization=parametrization,
        time_varying=time_varying,
        scheme=scheme,
        coupling=coupling,
        growth=growth,
        whiten=whiten,
        random_state=random_state,
    )
    options.check_client(client)
    check_client(client)
    rep, coordinates = representation(adata, use_rep, n_pcs)
    check_free(adata, key_added, rep)
    weights = cell_weights(adata, weight_key)
    whitening = Whitening.of(coordinates if weights is None else coordinates[weights > 0]) if whiten else None
    if whitening is not None:
        coordinates = whitening(coordinates)
    times = cell_times(adata, time_key, time_values)
    snapshots = collect(coordinates, times, weights, cell_rates(adata, growth))
    check_snapshots(snapshots, time_key, options.terms)
    solved: Sequence[Coupling | OperatorCoupling]
    grows = growth_of(snapshots, options)
    if options.couplings is None:
        solved, solvers = couple_snapshots(snapshots, options, progress, client, grows)
        names = [solver.name for solver in solvers]
    else:
        column = obs_column(adata, "time_key", time_key)
        solved = ready_made(options.couplings, snapshots, adata.obs_names, column, time_values)
        names = [READY_MADE] * len(solved)
        grows = None if growth is None else growth_in(solved, snapshots)
    fitted = fit_snapshots(snapshots, solved, options, progress, grows)
    energy, losses, choice, diagnostics = fitted.energy, fitted.losses, fitted.choice, diagnose(fitted)
    chosen = replace(options, parametrization=fitted.parametrization)
    del fitted  # its conditions take as much memory as the prediction of all cells
    keys = Keys(key_added)
    logger.info("Predicting %d cells.", len(coordinates))
    obs, obsm, unconverged = _cell_fields(energy, snapshots, keys, coordinates.dtype, random_state)
    if grows is not None:
        rates = energy.growth(snapshots.coordinates, snapshots.cell_times)
        obs |= {keys.growth: snapshots.to_rows(rates), keys.growth_coupled: coupled_rates(grows, snapshots)}
    varies, n_dims = options.varies(len(snapshots.times)), coordinates.shape[1]
    resolved = replace(chosen, use_rep=rep, n_pcs=n_dims, time_varying=varies)
    uns = {
        "params": {**resolved.recorded(), "key_added": key_added},
        **energy_to_uns(energy),
        "history": {"loss": losses},
        "couplings": {**summary(solved, snapshots), "solver": np.array(names)},
        "diagnostics": {**diagnostics, "unconverged": unconverged},
        "version": version("scjko"),
        "versions": versions(),
    }
    if grows is not None:
        uns["growth"] |= compared(snapshots, rates)
    if choice is not None:
        uns["choice"] = choice.table
    if whitening is not None:
        uns["whitening"] = {"mean": whitening.mean, "std": whitening.std}
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    write_fields(adata, obs=obs, obsm={keys.coordinates: coordinates, **obsm}, uns={keys.uns: uns})
    return adata if copy else None


def _cell_fields(
    energy: Energy, snapshots: Snapshots, keys: Keys, dtype: np.dtype[Any], random_state: int
) -> tuple[dict[str, Any], dict[str, Any], NDArray[np.int64]]:
    """Columns of ``obs`` and ``obsm`` for every cell, and the number of untrusted predictions of each snapshot."""
    x, times = snapshots.coordinates, snapshots.cell_times
    after = energy.timeline.following
    seeds = np.random.SeedSequence(random_state).generate_state(len(after))
    moved = [
        energy.move(points, t0, t1, random_state=int(seed))
        for points, t0, t1, seed in zip(snapshots.points, snapshots.times, after, seeds, strict=True)
    ]
    unconverged = np.array([np.sum(~step.converged) for step in moved])
    converged = np.concatenate([step.converged for step in moved])
    warn_of_untrusted(converged, keys.converged)
    place = snapshots.to_rows
    obs = {
        keys.potential: place(energy.potential(x, times)),
        keys.forecast: place(times == snapshots.times[-1]),
        keys.converged: place(converged),
    }
    obsm = {
        keys.velocity: place(energy.velocity(x, times)).astype(dtype),
        keys.predicted: place(np.concatenate([step.positions for step in moved])).astype(dtype),
    }
    if energy.has_std:
        std = energy.std(x, times)
        obs[keys.potential_std] = place(std.potential)
        obsm[keys.velocity_std] = place(std.velocity).astype(dtype)
    return obs, obsm, unconverged
