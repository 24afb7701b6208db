"""What a coupling costs, and in which time: exact, multiscale, in batches, and by BSP-OT."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ot
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import NDArray

from ..core.transport import Coupling, batched, couple, exact, multiscale
from ..datasets import embryoid_body
from ..edge.snapshots import Whitening, collect
from ._grid import run_grid, write

CLOUDS = ("overlapping", "separated")


def run(
    folder: str | Path | None = None,
    *,
    full: bool = False,
    n_cells: Sequence[int] | None = None,
    n_dims: Sequence[int] | None = None,
    path: str | Path | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Couple two clouds by every solver, in one process, one after the other.

    Parameters
    ----------
    folder
        Where ``solvers.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        10⁴ cells in each cloud, in place of 1000.
    n_cells, n_dims
        Other numbers of cells and of dimensions.
    path
        The embryoid bodies, as for ``scjko.datasets.embryoid_body``; with it, their exact couplings are timed too, side
        by side and one after the other.
    progress
        Whether to show a progress bar.

    Returns
    -------
    One row for each problem and solver, with ``seconds``, their ``time_ratio`` to those of the exact one, and ``cost``
    relative to the optimum. BSP-OT gets as many plans, and random batches of 1000 as many repetitions, as fit into the
    time of the multiscale solver, which uses all cores. BSP-OT takes equal numbers of cells of equal weight only.
    """
    cells = [
        {"clouds": clouds, "n_dims": int(d), "n_source": int(n), "n_target": int(m), "weighted": weighted}
        for n in n_cells or ([10_000] if full else [1000])
        for d in n_dims or (5, 30)
        for clouds, m, weighted in (
            *((clouds, n, False) for clouds in CLOUDS),
            (CLOUDS[0], int(0.7 * n), False),
            (CLOUDS[0], int(0.7 * n), True),
        )
    ]
    frame = run_grid("solvers", cells, trial, folder, progress=progress)
    if path is not None:
        data = [{"clouds": "embryoid bodies", "path": str(path)}]
        frame = pd.concat([frame, run_grid("solvers", data, _embryoid, folder, progress=False)], ignore_index=True)
    write("solvers", frame, draw(frame), folder)
    return frame


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows by problem and solver."""
    keys = ["clouds", "n_dims", "n_source", "n_target", "weighted", "solver"]
    return frame.set_index(keys)[["seconds", "time_ratio", "cost"]]


def draw(frame: pd.DataFrame) -> Figure:
    """Cost against time."""
    figure = Figure(figsize=(4.6, 3.4), layout="constrained")
    axes = figure.subplots()
    for (name, part), marker in zip(frame.dropna(subset="cost").groupby("solver", sort=False), "osD^", strict=False):
        axes.plot(part["seconds"], 100 * (part["cost"] - 1) + 0.01, marker, label=name, alpha=0.8)
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="per cent above the optimum (+ 0.01)")
    axes.legend(fontsize=8)
    return figure


def two_clouds(
    kind: str, n: int, m: int, n_dims: int, random_state: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Two mixtures of Gaussians with variances that fall off as those of principal components do."""
    rng = np.random.default_rng(random_state)
    spread = 1 / np.sqrt(1 + np.arange(n_dims))
    centers = 3 * rng.normal(size=(6, n_dims)) * spread
    x, y = (centers[rng.integers(6, size=k)] + rng.normal(size=(k, n_dims)) * spread for k in (n, m))
    return x, y * (1.2 if kind == "overlapping" else 1.0) + (0.5 if kind == "overlapping" else 4.0) * spread


def trial(clouds: str, n_dims: int, n_source: int, n_target: int, weighted: bool) -> list[dict[str, Any]]:
    """One problem by every solver."""
    x, y = two_clouds(clouds, n_source, n_target, n_dims)
    rng = np.random.default_rng(1)
    a, b = (rng.random(n) if weighted else np.ones(n) for n in (n_source, n_target))
    a, b = a / a.sum(), b / b.sum()
    multiscale(*two_clouds(clouds, 300, 300, n_dims))  # libraries loaded, threads started
    optimal, longest = _timed(lambda: exact(x, y, a, b).cost)
    ours, seconds = _timed(lambda: multiscale(x, y, a, b).cost)
    rows = [("exact", optimal, longest), ("multiscale", ours, seconds)]
    rows.append(("batches of 1000", *_timed(lambda: _cheapest_batches(x, y, a, b, seconds))))
    if hasattr(ot, "bsp") and n_source == n_target and not weighted:
        rows.append(("BSP-OT", *_timed(lambda: _bsp(x, y, seconds))))
    return [
        {"solver": name, "seconds": took, "time_ratio": took / longest, "cost": cost / optimal}
        for name, cost, took in rows
    ]


def _timed(work: Callable[[], float]) -> tuple[float, float]:
    begun = time.perf_counter()
    return work(), time.perf_counter() - begun


def _cheapest_batches(
    x: NDArray[np.float64], y: NDArray[np.float64], a: NDArray[np.float64], b: NDArray[np.float64], seconds: float
) -> float:
    """The cheapest of as many random batchings as fit into the time, at least one."""
    begun = time.perf_counter()
    costs: list[float] = []
    while not costs or time.perf_counter() - begun < seconds:
        size = min(1000, len(x), len(y))
        costs.append(batched(x, y, a, b, size=size, random_state=len(costs)).cost)
    return min(costs)


def _bsp(x: NDArray[np.float64], y: NDArray[np.float64], seconds: float) -> float:
    """BSP-OT with as many plans as fit into the time."""

    def cost(n_plans: int) -> float:
        _, partner, *_ = ot.bsp.compute_bspot_bijection(x, y, n_plans=n_plans)
        return float(np.mean(np.sum((x - y[np.asarray(partner)]) ** 2, axis=1)))

    _, took = _timed(lambda: cost(8))
    return cost(max(8, int(8 * (seconds - took) / took)))


def _embryoid(clouds: str, path: str) -> list[dict[str, Any]]:
    """Exact couplings of the four intervals of the embryoid bodies, side by side and one after the other."""
    adata = embryoid_body(path)
    x = adata.obsm["X_pca"][:, :5]
    points = collect(Whitening.of(x)(x), adata.obs["day"].to_numpy()).points

    def one_after_the_other() -> float:
        cost = 0.0
        for before, after in zip(points[:-1], points[1:], strict=True):
            distances = ot.dist(before, after)
            plan = ot.emd(np.ones(len(before)) / len(before), np.ones(len(after)) / len(after), distances, 10**8)
            cost += float(np.sum(plan * distances))
        return cost

    def side_by_side() -> float:
        solved: list[Coupling] = couple(points)
        return sum(coupling.cost for coupling in solved)

    alone, longest = _timed(one_after_the_other)
    ours, seconds = _timed(side_by_side)
    return [
        {"solver": "POT, one by one", "seconds": longest, "time_ratio": 1.0, "cost": 1.0},
        {"solver": "exact", "seconds": seconds, "time_ratio": seconds / longest, "cost": ours / alone},
    ]
