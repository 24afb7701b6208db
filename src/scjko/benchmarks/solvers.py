"""What a coupling costs, and how long it takes: exact, multiscale, and by other solvers."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from ..core.compute.limits import machine_memory
from ..core.transport import Coupling, couple, exact, multiscale
from ..core.transport.budget import PER_PAIR
from ._grid import run_grid, write
from ._rivals import all_pairs, batches, bsp, low_rank, one_core, takes_bsp
from ._shapes import ARMS, CLOUDS, EMBRYOID, LARRY, Interval, files, intervals, two_clouds

POT, EXACT, MULTISCALE = "POT, all pairs", "exact", "multiscale"


def run(
    folder: str | Path | None = None,
    *,
    full: bool = False,
    n_cells: Sequence[int] | None = None,
    n_dims: Sequence[int] | None = None,
    path: str | Path | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Couple two snapshots by every solver, in one process, one after the other.

    Parameters
    ----------
    folder
        Where ``solvers.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        10⁴ cells in each snapshot, in place of 1000, and all cells of real data.
    n_cells, n_dims
        Other numbers of cells and, for clouds, of dimensions.
    path
        Real cells: the embryoid bodies, a file as for ``scjko.datasets.embryoid_body``, or a folder with
        ``embryoid_body/eb_pca5.npz``, ``clones/larry_2d.npz`` or both.
    progress
        Whether to show a progress bar.

    Returns
    -------
    One row for each problem and solver:

    ``seconds``
        The time it took; low-rank Sinkhorn is compiled before.
    ``time_ratio``
        Relative to POT with all pairs, or to the multiscale solver where all pairs do not fit into half of the memory.
    ``distance``
        The mean squared distance travelled, summed over the intervals.
    ``cost``
        The same relative to the optimum, or to the largest lower bound proven where POT is not run.
    ``gap``
        How far above the optimum it can be at most, as a fraction, where the solver proves that.

    POT uses one core; exact, multiscale and batched couplings use all. Exact couplings are left out where POT's
    matrices do not fit: they would take many minutes. BSP-OT gets as many plans, and random batches as many
    repetitions, as fit into the time of the multiscale solver. BSP-OT takes equal numbers of cells of equal weight
    only. Exact couplings of the embryoid bodies are also timed on one core, and with intervals side by side.
    """
    sizes = [int(n) for n in n_cells or ([10_000] if full else [1000])]
    cells = [cell for n in sizes for cell in _simulated(n, n_dims or (5, 30))]
    if path is not None:
        for shape, file in files(path).items():
            part = {"n_cells": None if full else max(sizes)} if shape in LARRY else {}
            cells.append({"shape": shape, "path": str(file), **part})
    frame = run_grid("solvers", cells, trial, folder, progress=progress)
    write("solvers", frame, draw(frame), folder)
    return frame


def _simulated(n: int, n_dims: Iterable[int]) -> list[dict[str, Any]]:
    """Clouds and arms of ``n`` cells: equal and random weights, equal and unequal sizes."""
    overlapping, separated = CLOUDS
    fewer = int(0.7 * n)
    clouds = [
        (shape, int(d), m, weighted)
        for d in n_dims
        for shape, m, weighted in (
            (overlapping, n, False),
            (separated, n, False),
            (overlapping, n, True),
            (separated, n, True),
            (overlapping, fewer, False),
            (overlapping, fewer, True),
        )
    ]
    return [
        {"shape": shape, "n_dims": d, "n_source": n, "n_target": m, "weighted": weighted}
        for shape, d, m, weighted in (*clouds, (ARMS, 2, n, False), (ARMS, 2, fewer, True))
    ]


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows by problem and solver, with the cost above the optimum and the proven gap in per cent."""
    keys = ["shape", "n_dims", "n_source", "n_target", "weighted", "solver"]
    per_cent = {"above %": 100 * (frame["cost"] - 1), "gap %": 100 * frame["gap"]}
    rounded = {name: column.round(6) + 0.0 for name, column in per_cent.items()}  # no −0
    return frame.assign(**rounded).set_index(keys)[["seconds", "time_ratio", "distance", *rounded]]


def draw(frame: pd.DataFrame) -> Figure:
    """Cost against time."""
    figure = Figure(figsize=(6.2, 3.6), layout="constrained")
    axes = figure.subplots()
    for (name, part), marker in zip(
        frame.dropna(subset="cost").groupby("solver", sort=False), "osD^vP*X", strict=False
    ):
        axes.plot(part["seconds"], 100 * (part["cost"] - 1).clip(0) + 0.001, marker, label=name, alpha=0.8)
    axes.set(xscale="log", yscale="log", xlabel="seconds", ylabel="per cent above the optimum (+ 0.001)")
    figure.legend(loc="outside right upper", fontsize=8)
    return figure


class Result(NamedTuple):
    """The cost of a problem by one solver, the gap that it proves, and the time it took."""

    solver: str
    cost: float
    gap: float
    seconds: float


def trial(shape: str, **options: Any) -> list[dict[str, Any]]:
    """One problem by every solver."""
    problem = intervals(shape, **options)
    results = [*_solved(problem), *(_exact_otherwise(problem) if shape == EMBRYOID else [])]
    found = {result.solver: result for result in results}
    reference = found.get(POT, found[MULTISCALE])
    least = reference.cost / (1 + (0 if reference.solver == POT else reference.gap))
    about = {
        "n_dims": problem[0].x.shape[1],
        "n_source": sum(len(interval.x) for interval in problem),
        "n_target": sum(len(interval.y) for interval in problem),
        "weighted": bool(options.get("weighted", False)),
    }
    return [
        {
            **about,
            "solver": result.solver,
            "seconds": result.seconds,
            "time_ratio": result.seconds / reference.seconds,
            "distance": result.cost,
            "cost": result.cost / least,
            "gap": result.gap,
        }
        for result in results
    ]


def _solved(problem: list[Interval]) -> list[Result]:
    """The intervals one after the other by each solver that takes them."""
    multiscale(*two_clouds(CLOUDS[0], 300, 300, 2))  # libraries loaded, threads started
    results = []
    if _fits(problem):
        results.append(_timed(POT, lambda: sum(map(all_pairs, problem))))
        results.append(_proven(EXACT, lambda: [exact(*interval) for interval in problem]))
    ours = _proven(MULTISCALE, lambda: [multiscale(*interval) for interval in problem])
    share = ours.seconds / len(problem)
    results += [ours, _timed("batches of 1000", lambda: sum(batches(interval, share) for interval in problem))]
    if all(map(takes_bsp, problem)):
        results.append(_timed("BSP-OT", lambda: sum(bsp(interval, share) for interval in problem)))
    compiled = [low_rank(interval) for interval in problem]
    return [*results, _timed("low-rank Sinkhorn", lambda: sum(cost() for cost in compiled))]


def _exact_otherwise(problem: list[Interval]) -> list[Result]:
    """Exact couplings with intervals side by side and, where that can be arranged, on one core."""
    points = [problem[0].x, *(interval.y for interval in problem)]
    results = [_proven("exact, side by side", lambda: couple(points))]
    if hasattr(os, "sched_setaffinity"):
        with one_core():
            results.append(_proven("exact, one core", lambda: [exact(*interval) for interval in problem]))
    return results


def _fits(problem: list[Interval]) -> bool:
    """Whether POT's matrices of all pairs fit into half of the memory."""
    return max(PER_PAIR * len(interval.x) * len(interval.y) for interval in problem) <= machine_memory() / 2


def _proven(name: str, work: Callable[[], list[Coupling]]) -> Result:
    begun = time.perf_counter()
    couplings = work()
    seconds = time.perf_counter() - begun
    cost = sum(coupling.cost for coupling in couplings)
    least = sum(coupling.cost / (1 + (np.inf if coupling.bound is None else coupling.bound)) for coupling in couplings)
    return Result(name, cost, cost / least - 1 if least > 0 else float("nan"), seconds)


def _timed(name: str, work: Callable[[], float]) -> Result:
    begun = time.perf_counter()
    cost = work()
    return Result(name, cost, float("nan"), time.perf_counter() - begun)
