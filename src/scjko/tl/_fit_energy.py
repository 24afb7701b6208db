from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from ..core.compute.parallel import check_client
from ..core.energy.energies import Energy
from ..core.fitting.descent import Training
from ..core.transport.couplings import Coupling, OperatorCoupling
from ..edge.diagnosis import diagnose
from ..edge.fitting import couple_snapshots, fit_snapshots, varies
from ..edge.keys import Keys
from ..edge.logging import logger
from ..edge.ready_made import ready_made
from ..edge.settings import check_options
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
from ..edge.storage import check_free, energy_to_uns, recorded, versions, write_fields


def fit_energy(
    adata: AnnData,
    time_key: str,
    n_pcs: int | None = None,
    *,
    use_rep: str | None = None,
    time_values: Mapping[Any, float] | None = None,
    weight_key: str | None = None,
    terms: Sequence[str] = ("potential",),
    parametrization: str = "neural",
    time_varying: bool | str | None = None,
    scheme: str = "both",
    time_label: str = "interval",
    coupling: str = "auto",
    couplings: Mapping[tuple[Any, Any], Any] | None = None,
    coupling_batch: int = 1000,
    epsilon: float = 0.01,
    memory_limit: float | None = None,
    whiten: bool = False,
    layers: Sequence[int] = (64, 64),
    epochs: int | None = None,
    batch_size: int = 250,
    learning_rate: float = 2e-2,
    degree: int | None = None,
    n_centers: int | None = None,
    ridge: float | str = "auto",
    n_components: int = 10,
    key_added: str = "jko",
    random_state: int = 0,
    progress: bool = True,
    client: Any = None,
    n_devices: int | None = None,
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
        Number of components of the representation to use; all by default.
    use_rep
        Key in ``adata.obsm`` of the representation; ``X_pca`` (or ``pca``) by default.
    time_values
        What each label in the time column stands for, where it cannot be read off it.
    weight_key
        Column of ``adata.obs`` with a weight for each cell; all weigh the same by default.
    terms
        Terms of the energy, the potential and any of the others:

        - ``"potential"``: V, where cells go on their own.
        - ``"interaction"``: U, how cells attract or repel each other.
        - ``"internal"``: β, how strongly they spread at random.
    parametrization
        How the energy is written:

        - ``"neural"``: V and U are multi-layer perceptrons, by gradient descent.
        - ``"linear"``: V and U are sums of monomials and radial basis functions, solved in closed form.
    time_varying
        Whether the potential may differ between intervals (and, with ``scheme="both"``, between the two ends of one).
        By default yes, unless two snapshots are fitted at one end only, where it would tell nothing apart. A linear
        potential may also be ``"smooth"``, quadratic in time; ``True`` gives it coefficients of its own for each
        interval.
    scheme
        Where the first-order condition is asked to hold:

        - ``"both"``: at both ends of every interval. Predicts forward and backward, and has seen every snapshot.
        - ``"explicit"``: where cells come from. Never sees the last snapshot; its potential there is extrapolated.
        - ``"implicit"``: where cells go to, as in the paper. Predicts by a proximal step, and never sees the first.
    time_label
        What the potential is told of an interval: ``"interval"``, its midpoint, or ``"target"``, the time it leads to,
        as in the paper.
    coupling
        How snapshots are coupled:

        - ``"auto"``: exactly up to about 4500 × 4500 cells, if ``memory_limit`` has room for it, else ``"decomposed"``;
          a log line says which.
        - ``"exact"``: by linear programming.
        - ``"decomposed"``: a few per cent more costly, without a matrix of all pairs: for snapshots of more than
          some 10⁴ cells.
        - ``"batched"``: exactly for random batches of ``coupling_batch`` cells.
        - ``"sinkhorn"``: with entropic regularisation ``epsilon``.
    couplings
        Ready-made couplings ``{(t0, t1): matrix}`` of all consecutive time points, in place of ``coupling``. A matrix
        (dense, sparse, or a :class:`scipy.sparse.linalg.LinearOperator`) has the cells of t0 in its rows and those of
        t1 in its columns, in the order of ``adata``; a DataFrame names them, and an AnnData in the layout of
        Waddington-OT (cells of t0 as ``obs``, those of t1 as ``var``) does.
    coupling_batch
        Cells of each time point in a batch of a batched coupling.
    epsilon
        Regularisation of the Sinkhorn coupling, relative to the mean cost.
    memory_limit
        Memory that couplings (and distances in :func:`scjko.tl.validate`) may take, in GB; by default a quarter of the
        machine's. It decides how many intervals are solved at a time, and with ``coupling="auto"`` by which solver.
    whiten
        Whether to standardise each component before fitting.
    layers
        Widths of the hidden layers.
    epochs
        Passes over the data; by default as many as make about 4000 updates (3000 of an implicit, time-varying one).
    batch_size
        Cells per update.
    learning_rate
        Peak of the one-cycle schedule.
    degree
        Highest degree of the monomials of a linear energy; by default four, but of more than 500 only powers of single
        coordinates and the products of two that the data ask for.
    n_centers
        Number of radial basis functions of a linear energy; by default a grid of 15 in one dimension and of 225 in
        two, and up to 300 at centres of clusters beyond.
    ridge
        Regularisation of a linear energy, on features of unit mean square; ``"auto"`` chooses it by the leave-one-out
        error.
    n_components
        Gaussians in the density of a snapshot that the internal energy needs, fewer for small snapshots.
    key_added
        Name under which the fit is stored.
    random_state
        Seed of the initial weights and of the batches.
    progress
        Whether to show a progress bar.
    client
        A ``distributed.Client``: couplings are then solved on its Dask cluster.
    n_devices
        Devices of JAX that share each batch of a neural fit; by default all there are. The fit is the same up to
        rounding.
    copy
        Whether to return a copy instead of writing into ``adata``.

    Returns
    -------
    ``None``, or with ``copy=True`` the AnnData, with these fields (for ``key_added="jko"``):

    ``obs["jko_potential"]``
        The potential at each cell and its own time. Its mean over the first snapshot is zero.
    ``obs["jko_forecast"]``
        Whether the predicted position lies beyond the last snapshot.
    ``obsm["X_jko"]``
        The coordinates that were fitted.
    ``obsm["jko_velocity"]``
        Minus the gradient of the energy, in units of ``X_jko`` per unit of time.
    ``obsm["jko_predicted"]``
        Each cell moved to the next snapshot; those of the last one moved on by the length of the last interval.
    ``uns["jko"]``
        ``params``, ``times``, ``weights``, ``scaling``, ``history`` (loss per epoch, as a fraction of that of an energy
        that moves nothing), ``couplings`` (a summary), ``diagnostics``, ``version``, ``versions`` (of the packages it
        was computed with), and ``whitening``, ``populations`` and ``mixtures`` where they are needed;
        :func:`scjko.get.params` gives the parameters to repeat the fit. The diagnostics are: for each interval the
        fraction of the squared velocity that the energy explains (``explained``); for each snapshot the number of cells
        whose prediction was not solved (``unconverged``); for each term beside the potential the share of its force
        that no potential has, near zero if the data cannot tell the two apart (``identifiability``); ``beta`` and its
        standard error ``beta_error``; and of a linear fit its ``ridge``, ``condition_number`` and
        ``degrees_of_freedom``.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", epochs=20, progress=False)
    >>> adata.obsm["jko_velocity"].shape
    (300, 2)
    """
    asked = {name: value for name, value in locals().items() if name not in ("adata", "progress", "client", "copy")}
    check_options(adata, asked, copy)
    check_client(client)
    rep, coordinates = representation(adata, use_rep, n_pcs)
    check_free(adata, key_added, rep)
    weights = cell_weights(adata, weight_key)
    whitening = Whitening.of(coordinates if weights is None else coordinates[weights > 0]) if whiten else None
    if whitening is not None:
        coordinates = whitening(coordinates)
    times = cell_times(adata, time_key, time_values)
    snapshots = collect(coordinates, times, weights)
    check_snapshots(snapshots, time_key, terms)
    solved: Sequence[Coupling | OperatorCoupling]
    if couplings is None:
        solved, solvers = couple_snapshots(snapshots, asked, progress, client)
    else:
        column = obs_column(adata, "time_key", time_key)
        solved = ready_made(couplings, snapshots, adata.obs_names, column, time_values)
        solvers = ["ready-made"] * len(solved)
    fitted = fit_snapshots(snapshots, solved, asked, progress)

    resolved = {"use_rep": rep, "n_pcs": coordinates.shape[1], "time_varying": varies(asked, len(snapshots.times))}
    if isinstance(fitted.settings, Training):
        resolved["epochs"] = fitted.settings.epochs
    keys = Keys(key_added)
    logger.info("Predicting %d cells.", len(coordinates))
    obs, obsm, unconverged = _cell_fields(fitted.energy, snapshots, keys, coordinates.dtype, random_state)
    uns = {
        "params": recorded({**asked, **resolved}),
        **energy_to_uns(fitted.energy),
        "history": {"loss": fitted.losses},
        "couplings": {**_summary(solved, snapshots), "solver": np.array(solvers)},
        "diagnostics": {**diagnose(fitted), "unconverged": unconverged},
        "version": version("scjko"),
        "versions": versions(),
    }
    if whitening is not None:
        uns["whitening"] = {"mean": whitening.mean, "std": whitening.std}
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    write_fields(adata, obs=obs, obsm={keys.coordinates: coordinates, **obsm}, uns={keys.uns: uns})
    return adata if copy else None


def _cell_fields(
    energy: Energy, snapshots: Snapshots, keys: Keys, dtype: np.dtype[Any], random_state: int
) -> tuple[dict[str, Any], dict[str, Any], NDArray[np.int64]]:
    """Columns of ``obs`` and ``obsm`` for every cell, and the number of unsolved predictions of each snapshot."""
    x, times = snapshots.coordinates, snapshots.cell_times
    after = energy.intervals.following
    seeds = np.random.SeedSequence(random_state).generate_state(len(after))
    moved = [
        energy.move(points, t0, t1, random_state=int(seed))
        for points, t0, t1, seed in zip(snapshots.points, snapshots.times, after, seeds, strict=True)
    ]
    unconverged = np.array([np.sum(~step.converged) for step in moved])
    if unconverged.any():
        logger.warning(
            "The predicted position of %d of %d cells was not solved (by snapshot: %s); obsm[%r] is not to be trusted "
            "there. scheme='both' and 'explicit' need no solver.",
            unconverged.sum(),
            len(x),
            ", ".join(map(str, unconverged)),
            keys.predicted,
        )
    place = snapshots.to_rows
    obs = {
        keys.potential: place(energy.potential(x, times)),
        keys.forecast: place(times == snapshots.times[-1]),
    }
    obsm = {
        keys.velocity: place(energy.velocity(x, times)).astype(dtype),
        keys.predicted: place(np.concatenate([step.positions for step in moved])).astype(dtype),
    }
    return obs, obsm, unconverged


def _summary(couplings: Sequence[Coupling | OperatorCoupling], snapshots: Snapshots) -> dict[str, Any]:
    return {
        "source_time": snapshots.times[:-1],
        "target_time": snapshots.times[1:],
        "n_source": snapshots.sizes[:-1],
        "n_target": snapshots.sizes[1:],
        "n_pairs": np.array([coupling.n_pairs for coupling in couplings]),
        "cost": np.array([coupling.cost for coupling in couplings]),
    }
