from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from .._checks import check_integer, check_key, check_option, check_positive
from .._keys import Keys
from .._logging import logger, progress_bar
from .._snapshots import Snapshots, Whitening, cell_times, check_snapshots, collect, representation
from .._storage import energy_to_uns, recorded, write_fit
from ..core.condition import SCHEMES
from ..core.couplings import Coupling, couple
from ..core.energies import Energy
from ..core.fit import Training, fit_neural
from ..core.intervals import TIME_LABELS, Intervals


def fit_energy(
    adata: AnnData,
    time_key: str,
    n_pcs: int | None = None,
    *,
    use_rep: str | None = None,
    time_values: Mapping[Any, float] | None = None,
    terms: Sequence[str] = ("potential",),
    parametrization: str = "neural",
    time_varying: bool | None = None,
    scheme: str = "both",
    time_label: str = "interval",
    coupling: str = "exact",
    whiten: bool = False,
    layers: Sequence[int] = (64, 64),
    epochs: int | None = None,
    batch_size: int = 250,
    learning_rate: float = 2e-2,
    key_added: str = "jko",
    random_state: int = 0,
    progress: bool = True,
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
    terms
        Terms of the energy: ``("potential",)``.
    parametrization
        How the energy is written:

        - ``"neural"``: a multi-layer perceptron, by gradient descent.
    time_varying
        Whether the potential may differ between intervals (and, with ``scheme="both"``, between the two ends of one).
        By default yes, unless two snapshots are fitted at one end only, where it would tell nothing apart.
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

        - ``"exact"``: by linear programming.
    whiten
        Whether to standardise each component before fitting.
    layers
        Widths of the hidden layers.
    epochs
        Passes over the data; by default as many as make about 4000 updates (2000 if implicit).
    batch_size
        Cells per update.
    learning_rate
        Peak of the one-cycle schedule.
    key_added
        Name under which the fit is stored.
    random_state
        Seed of the initial weights and of the batches.
    progress
        Whether to show a progress bar.
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
        Minus the gradient of the energy, in units of the representation per unit of time.
    ``obsm["jko_predicted"]``
        Each cell moved to the next snapshot; those of the last one moved on by the length of the last interval.
    ``uns["jko"]``
        ``params``, ``times``, ``weights``, ``scaling``, ``history`` (loss per epoch, as a fraction of that of an
        energy that moves nothing), ``couplings`` (a summary), ``diagnostics`` (for each interval the fraction of the
        squared velocity that the energy explains, and for each snapshot the number of cells whose prediction was not
        solved), ``version``, and ``whitening`` where it was asked for.

    Examples
    --------
    >>> import scjko as sj
    >>> adata = sj.datasets.simulated(300)
    >>> sj.tl.fit_energy(adata, "day", use_rep="X_latent", epochs=20, progress=False)
    >>> adata.obsm["jko_velocity"].shape
    (300, 2)
    """
    asked = {name: value for name, value in locals().items() if name not in ("adata", "progress", "copy")}
    _check_options(adata, asked, copy)
    training = _training(layers, epochs, batch_size, learning_rate, random_state)
    rep, coordinates = representation(adata, use_rep, n_pcs)
    whitening = Whitening.of(coordinates) if whiten else None
    if whitening is not None:
        coordinates = whitening(coordinates)
    snapshots = collect(coordinates, cell_times(adata, time_key, time_values))
    check_snapshots(snapshots, time_key)
    if time_varying is None:
        time_varying = scheme == "both" or len(snapshots.times) > 2

    couplings = _couple(snapshots, progress)
    with progress_bar(100, "training", enabled=progress) as bar:
        fit = fit_neural(
            snapshots.points,
            couplings,
            Intervals(snapshots.times, time_label),
            scheme=scheme,
            time_varying=time_varying,
            training=training,
            on_progress=lambda fraction: bar.update(100 * fraction),
        )

    resolved = {
        "use_rep": rep,
        "n_pcs": coordinates.shape[1],
        "time_varying": time_varying,
        "epochs": fit.training.epochs,
    }
    keys = Keys(key_added)
    obs, obsm, unconverged = _cell_fields(fit.energy, snapshots, keys, coordinates.dtype)
    uns = {
        "params": recorded({**asked, **resolved}),
        **energy_to_uns(fit.energy),
        "history": {"loss": fit.losses},
        "couplings": _summary(couplings, snapshots),
        "diagnostics": {"explained": fit.explained, "unconverged": unconverged},
        "version": version("scjko"),
    }
    if whitening is not None:
        uns["whitening"] = {"mean": whitening.mean, "std": whitening.std}
    if copy:
        adata = adata.to_memory() if adata.isbacked else adata.copy()
    write_fit(adata, keys, obs=obs, obsm={keys.coordinates: coordinates, **obsm}, uns=uns)
    return adata if copy else None


def _check_options(adata: AnnData, asked: Mapping[str, Any], copy: bool) -> None:
    if not isinstance(adata, AnnData):
        raise TypeError(f"adata must be an AnnData, not {type(adata).__name__}.")
    if adata.isbacked and adata.is_view and not copy:
        raise ValueError("adata is a view of a backed AnnData and cannot be written to; call .to_memory() on it first.")
    terms = asked["terms"]
    check_option("terms", (terms,) if isinstance(terms, str) else tuple(terms), [("potential",)])
    check_option("parametrization", asked["parametrization"], ["neural"])
    check_option("scheme", asked["scheme"], SCHEMES)
    check_option("time_label", asked["time_label"], TIME_LABELS)
    check_option("coupling", asked["coupling"], ["exact"])
    check_key(asked["key_added"])


def _training(
    layers: Sequence[int], epochs: int | None, batch_size: int, learning_rate: float, random_state: int
) -> Training:
    return Training(
        layers=tuple(check_integer("layers", width) for width in layers),
        epochs=None if epochs is None else check_integer("epochs", epochs),
        batch_size=check_integer("batch_size", batch_size),
        learning_rate=check_positive("learning_rate", learning_rate),
        random_state=check_integer("random_state", random_state, minimum=0),
    )


def _couple(snapshots: Snapshots, progress: bool) -> list[Coupling]:
    sizes = snapshots.sizes
    largest = max(zip(sizes[:-1], sizes[1:], strict=True), key=np.prod)
    logger.info("Coupling %d intervals exactly, the largest of %d × %d cells.", len(sizes) - 1, *largest)
    with progress_bar(len(sizes) - 1, "couplings", enabled=progress) as bar:
        return couple(snapshots.points, on_solved=bar.update)


def _cell_fields(
    energy: Energy, snapshots: Snapshots, keys: Keys, dtype: np.dtype[Any]
) -> tuple[dict[str, Any], dict[str, Any], NDArray[np.int64]]:
    """Columns of ``obs`` and ``obsm`` for every cell, and the number of unsolved predictions of each snapshot."""
    x, times = snapshots.coordinates, snapshots.cell_times
    after = np.append(snapshots.times[1:], snapshots.times[-1] + energy.intervals.gaps[-1])
    moved = [
        energy.move(points, t0, t1) for points, t0, t1 in zip(snapshots.points, snapshots.times, after, strict=True)
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
        keys.velocity: place(-energy.gradient(x, times)).astype(dtype),
        keys.predicted: place(np.concatenate([step.positions for step in moved])).astype(dtype),
    }
    return obs, obsm, unconverged


def _summary(couplings: Sequence[Coupling], snapshots: Snapshots) -> dict[str, Any]:
    return {
        "source_time": snapshots.times[:-1],
        "target_time": snapshots.times[1:],
        "n_source": snapshots.sizes[:-1],
        "n_target": snapshots.sizes[1:],
        "n_pairs": np.array([len(coupling.weight) for coupling in couplings]),
        "cost": np.array([coupling.cost for coupling in couplings]),
    }
