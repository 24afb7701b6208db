"""Which loss goes with which prediction when the potential varies in time (appendix on data generation).

On the line, V(x, t) = −0.75 x², except between times 0.2 and 0.3 and between 0.7 and 0.8, where it is zero. Losses
stand at the later end of an interval and know it by the time of its start (the paper's explicit adaptation) or of its
end (the implicit one); predictions take the slope where a particle stands (explicit) or where it goes (implicit).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..core.energy.energy import Energy
from ..core.fitting.fit import fit
from ..core.fitting.parametrizations import Linear
from ..core.timeline import Timeline
from ..core.transport import couple
from ._grid import run_grid, write

Array = NDArray[np.float64]

RATE = 1.5
STILL = ((0.2, 0.3), (0.7, 0.8))
#: Steps, loss and prediction of the paper's four panels.
PANELS: dict[str, tuple[int, str, str]] = {
    "explicit loss, explicit prediction": (10, "explicit", "explicit"),
    "the same with more observations": (50, "explicit", "explicit"),
    "implicit loss, explicit prediction": (10, "implicit", "explicit"),
    "implicit loss, implicit prediction": (10, "implicit", "implicit"),
}
SHOWN = (0.5, 0.65, 0.8)


def run(folder: str | Path | None = None, *, full: bool = False, progress: bool = True) -> pd.DataFrame:
    """Fit and predict by the four combinations of the paper's figure.

    Parameters
    ----------
    folder
        Where ``time-varying.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        1000 particles in place of 200.
    progress
        Whether to show a progress bar.

    Returns
    -------
    One row for each panel, trajectory and time: ``time``, the true ``x`` and the ``predicted`` one.
    """
    cells = [{"panel": panel, "n_particles": 1000 if full else 200} for panel in PANELS]
    frame = run_grid("time-varying", cells, trial, folder, progress=progress)
    write("time-varying", frame, draw(frame), folder)
    return frame


def trial(panel: str, n_particles: int) -> list[dict[str, Any]]:
    """One panel: three trajectories, as they are and as they are predicted from their start on."""
    n_steps, loss, prediction = PANELS[panel]
    times = np.linspace(0, 1, n_steps + 1)
    rng = np.random.default_rng(0)
    start = rng.uniform(0.4, 1.0, (n_particles, 1))
    points = [rng.permutation(flow(start, t)) for t in times]
    # Coefficients of their own for each interval: nothing but the schemes is on trial here.
    energy = fit(
        points,
        couple(points),
        Timeline(times),
        parametrization=Linear(degree=2, n_centers=0),
        scheme="implicit",
    ).energy
    x = np.array(SHOWN)[:, None]
    rows = []
    for k, t in enumerate(times):
        rows += [
            {"trajectory": i, "time": float(t), "x": float(flow(np.array(x0), t)), "predicted": float(x[i, 0])}
            for i, x0 in enumerate(SHOWN)
        ]
        if k < n_steps:
            x = energy.step(x, t, times[k + 1]) if prediction == "implicit" else _explicit(energy, x, k, loss)
    return rows


def flow(start: Array, time: float) -> Array:
    """Where particles are at a time: x doubles and redoubles, but for the pauses."""
    paused = sum(np.clip(time - a, 0, b - a) for a, b in STILL)
    return np.asarray(start * np.exp(RATE * (time - paused)))


def _explicit(energy: Energy, x: Array, k: int, loss: str) -> Array:
    """x − Δ ∇V(x, t_k). With the implicit loss, t_k is the label of the interval before; the first one has no label."""
    labelled = k if loss == "explicit" else max(k - 1, 0)
    slope = energy.gradient_at(x, np.full(len(x), labelled), np.ones(len(x)))
    return np.asarray(x - energy.timeline.gaps[k] * slope)


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """For each panel the mean error of the trajectories, and when they were predicted to pause."""
    rows = {}
    for panel, part in frame.groupby("panel", sort=False):
        error = np.mean(np.abs(part["predicted"] - part["x"]))
        one = part[part["trajectory"] == 0]
        growth = np.diff(np.log(one["predicted"].to_numpy())) / np.diff(one["time"].to_numpy())
        slow = growth < RATE / 3
        pauses = one["time"].to_numpy()[:-1][slow & ~np.append(False, slow[:-1])]
        rows[panel] = {"mean error": error, "pauses from": ", ".join(f"{t:.2g}" for t in pauses)}
    return pd.DataFrame(rows).T


def draw(frame: pd.DataFrame) -> Figure:
    """True and predicted trajectories, a panel for each combination."""
    figure = Figure(figsize=(12, 3.2), layout="constrained")
    for axes, (panel, part) in zip(figure.subplots(1, 4, sharey=True), frame.groupby("panel", sort=False), strict=True):
        for a, b in STILL:
            axes.axvspan(a, b, color="0.9")
        for trajectory, rows in part.groupby("trajectory"):
            first = trajectory == 0
            axes.plot(rows["time"], rows["x"], color="C0", lw=2, label="true" if first else None)
            axes.plot(
                rows["time"], rows["predicted"], "o-", ms=3, lw=1, color="C3", label="predicted" if first else None
            )
        axes.set(title=panel, xlabel="time")
        axes.title.set_size(9)
    figure.axes[0].set_ylabel("x")
    figure.axes[0].legend(fontsize=8)
    return figure
