"""Where the method must fail, and says so: energies that look alike, and a field that is no gradient (appendix)."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..core.energy.specification import Terms
from ..core.fitting.fit import Fit, fit
from ..core.fitting.parametrizations import Linear
from ..core.judging.diagnostics import UNDETERMINED, identifiability
from ..core.timeline import Timeline
from ..core.transport import Coupling, couple
from ._grid import run_grid, write
from ._trial import one_step_errors, stay

Array = NDArray[np.float64]

#: dX = α X dt + √(2β) dW from a standard normal start.
ALPHA, BETA = 0.3, 0.2
#: ẋ = F x: no potential has this force, for F is not symmetric.
FIELD = np.array([[-1.0, 1.0], [0.0, 1.0]])
TIMES = {"two snapshots": (0.0, 1.0), "three snapshots": (0.0, 1.0, 2.0)}
NO_GRADIENT = "a field that is no gradient"


def run(folder: str | Path | None = None, *, full: bool = False, progress: bool = True) -> pd.DataFrame:
    """Fit the examples of the paper's appendix on failure modes.

    Parameters
    ----------
    folder
        Where ``failure-modes.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        5000 particles in place of 2000.
    progress
        Whether to show a progress bar.

    Returns
    -------
    One row for each case. Observability: ``share`` of the internal energy's force that no potential has,
    ``told_apart``, and the fitted ``alpha`` and ``beta`` with its standard error ``beta_error``. The other: ``emd`` of
    held-out particles, ``emd_no_move``, ``cosine`` and ``relative_error`` of the fitted velocity, and ``best_error``,
    that of a fit which knows which particle went where.
    """
    cells = [{"case": case, "n_particles": 5000 if full else 2000} for case in (*TIMES, NO_GRADIENT)]
    frame = run_grid("failure-modes", cells, trial, folder, progress=progress)
    write("failure-modes", frame, draw(frame), folder)
    return frame


def trial(case: str, n_particles: int) -> dict[str, Any]:
    """One case."""
    return _no_gradient(n_particles) if case == NO_GRADIENT else _observability(np.array(TIMES[case]), n_particles)


def _observability(times: Array, n: int) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    points = [rng.standard_normal((n, 1)) * np.sqrt(variance(t)) for t in times]
    # At both ends, so that the bias of a long step is that of neither; a quadratic potential, as the true one is.
    fitted = _fit(points, times, ("potential", "internal"), "both", Linear(degree=2, n_centers=0))
    share = identifiability(fitted)["internal"]
    assert fitted.noise is not None
    curvature = float(fitted.energy.hessian(np.zeros((1, 1)), times[0])[0, 0, 0])
    return {
        "share": share,
        "told_apart": share >= UNDETERMINED,
        "alpha": -curvature,
        "beta": fitted.energy.beta,
        "beta_error": fitted.noise.error,
    }


def variance(t: float) -> float:
    """Of the population at time t: dσ²/dt = 2ασ² + 2β.

    The paper adds up the variances that drift and noise give each by itself, e^{2αt} + 2βt, which leaves out that the
    drift carries the noise apart too.
    """
    return float(np.exp(2 * ALPHA * t) * (1 + BETA / ALPHA) - BETA / ALPHA)


def _no_gradient(n: int) -> dict[str, Any]:
    times = np.arange(6, dtype=np.float64) / 100
    rng = np.random.default_rng(0)
    x = rng.uniform(-4, 4, (2 * n, 2))
    snapshots = [x]
    for gap in np.diff(times):
        snapshots.append(snapshots[-1] + gap * snapshots[-1] @ FIELD.T)
    train, test = [s[:n] for s in snapshots], [s[n:] for s in snapshots]
    paired = [Coupling.of(np.arange(n), np.arange(n), np.ones(n), x, y) for x, y in pairwise(train)]
    best = _fit(train, times, ("potential",), "explicit", Linear(), paired).energy
    energy = _fit([rng.permutation(x) for x in train], times, ("potential",), "explicit", Linear()).energy
    true, fitted, nearest = test[0] @ FIELD.T, energy.velocity(test[0], 0.0), best.velocity(test[0], 0.0)
    lengths = np.linalg.norm(true, axis=1) * np.linalg.norm(fitted, axis=1)
    return {
        "emd": float(one_step_errors(energy.step, test, times).mean()),
        "emd_no_move": float(one_step_errors(stay, test, times).mean()),
        "cosine": float(np.mean(np.sum(true * fitted, axis=1) / lengths)),
        "relative_error": float(np.linalg.norm(fitted - true) / np.linalg.norm(true)),
        "best_error": float(np.linalg.norm(nearest - true) / np.linalg.norm(true)),
        "arrows": np.hstack([test[0], true, fitted])[:150].tolist(),
    }


def _fit(
    points: list[Array],
    times: Array,
    terms: tuple[str, ...],
    scheme: str,
    parametrization: Linear,
    couplings: list[Coupling] | None = None,
) -> Fit:
    couplings = couple(points) if couplings is None else couplings
    return fit(
        points,
        couplings,
        Timeline(times),
        parametrization=parametrization,
        terms=Terms.of(terms),
        scheme=scheme,
        time_varying=False,
    )


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The figures of each case, a column each."""
    return frame.drop(columns=["arrows", "n_particles"]).set_index("case").T


def draw(frame: pd.DataFrame) -> Figure:
    """The pairs (α, β) that explain two snapshots equally well with the fitted ones, and the field beside its fit."""
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    cases = frame.set_index("case")
    alpha = np.linspace(0.0, 0.6, 100)
    growth = np.exp(2 * alpha[1:])
    left.plot(
        alpha[1:],
        alpha[1:] * (variance(1.0) - growth) / (growth - 1),
        color="0.6",
        label="all that fit the snapshots at 0 and 1",
    )
    left.plot(ALPHA, BETA, "k*", ms=12, label="true")
    for case in TIMES:
        told = "distinguished" if cases.loc[case, "told_apart"] else "not distinguished"
        left.plot(cases.loc[case, "alpha"], cases.loc[case, "beta"], "o", label=f"{case}: {told}")
    left.set(xlabel="α (drift)", ylabel="β (noise)", title="observability", ylim=(0, None))
    left.legend(fontsize=8)
    x, y, u, v, fitted_u, fitted_v = np.array(cases.loc[NO_GRADIENT, "arrows"]).T
    right.quiver(x, y, u, v, color="tab:green", label="true", width=0.004)
    right.quiver(x, y, fitted_u, fitted_v, color="tab:blue", label="fitted", width=0.004)
    right.set(title=NO_GRADIENT, xlabel="x₁", ylabel="x₂")
    right.legend(fontsize=8, loc="upper right")
    return figure
