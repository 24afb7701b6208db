"""Time and memory of a default fit against the number of cells, and what the fit is worth."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from anndata import AnnData
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .. import get, tl
from ..core.condition import loss
from ..core.energy import models
from ..core.energy.models import NeuralPotential
from ..core.fitting import descent
from ..core.fitting.schedule import Rows, plan
from ..core.judging.metrics import emd
from ..datasets import simulated
from ._grid import run_grid, write

N_SNAPSHOTS, N_DIMS = 10, 30
#: Cells of each snapshot that are held out, 2000 in all.
HELD_OUT = 200
#: Cells of the fit with exact couplings that larger ones are judged by.
REFERENCE = 10_000


def run(
    folder: str | Path | None = None,
    *,
    full: bool = False,
    n_cells: Sequence[int] | None = None,
    progress: bool = True,
) -> pd.DataFrame:
    """Fit simulated cells at ten time points in 30 dimensions, each size in a process of its own.

    Parameters
    ----------
    folder
        Where ``speed.json``, ``.csv`` and ``.png`` go; nothing is written by default.
    full
        10³ to 10⁶ cells, in place of 10³ and 10⁴.
    n_cells
        Other numbers of cells.
    progress
        Whether to show a progress bar.

    Returns
    -------
    One row for each number of cells: ``seconds`` of the whole call, compilation included, of which for ``couplings``,
    ``training`` and ``cells`` (prediction and writing); ``memory``, the peak resident in GB; ``emd``, the mean one-step
    error on 2000 held-out cells, and ``emd_reference``, that of a fit with exact couplings to at most 10⁴ of the cells;
    ``plane`` and ``plane_reference``, the same in the plane in which the cells truly move; ``floor``, the distance of
    two samples of as many cells, and ``plane_floor``;
    ``second``, the seconds of the training of a second fit of the same shape, and ``compiled``, how many programs that
    compiled; ``throughput``, updates per second as a fraction of those of a bare loop over the same gradients.
    """
    sizes = n_cells or ([10**k for k in (3, 4, 5, 6)] if full else [1000, 10_000])
    frame = run_grid("speed", [{"n_cells": int(n)} for n in sizes], trial, folder, progress=progress)
    write("speed", frame, draw(frame), folder)
    return frame


def trial(n_cells: int) -> dict[str, Any]:
    """One number of cells, in a process of its own: memory is counted by process, and compilation once."""
    code = f"import json; from scjko.benchmarks.speed import measure; print(json.dumps(measure({n_cells})))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"The fit of {n_cells} cells failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


def table(frame: pd.DataFrame) -> pd.DataFrame:
    """The rows by number of cells."""
    return frame.set_index("n_cells")


def draw(frame: pd.DataFrame) -> Figure:
    """Time and memory against the number of cells."""
    figure = Figure(figsize=(7.4, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    for name, style in (("seconds", "o-"), ("couplings", "s--"), ("training", "^:"), ("cells", "v-.")):
        left.plot(frame["n_cells"], frame[name], style, label="whole call" if name == "seconds" else name)
    left.set(xscale="log", yscale="log", xlabel="cells", ylabel="seconds")
    left.legend(fontsize=8)
    right.plot(frame["n_cells"], frame["memory"], "o-")
    right.set(xscale="log", yscale="log", xlabel="cells", ylabel="peak memory (GB)")
    return figure


def cells(n_cells: int, random_state: int = 0) -> AnnData:
    """Simulated cells at ten time points in 30 dimensions: a plane turned into them, with noise that falls off."""
    times = range(N_SNAPSHOTS)
    adata = simulated(n_cells, n_genes=1, times=[0.7 * t for t in times], random_state=random_state)
    noise = np.random.default_rng(random_state).normal(size=(n_cells, N_DIMS)) * 0.5 / np.sqrt(1 + np.arange(N_DIMS))
    x = (adata.obsm["X_latent"] @ plane().T + noise).astype(np.float32)
    return AnnData(obs=adata.obs[["day"]], obsm={"X_pca": x})


def plane() -> NDArray[np.float64]:
    """Two directions in 30 dimensions, always the same: those in which the simulated cells move."""
    return np.linalg.qr(np.random.default_rng(0).normal(size=(N_DIMS, 2)))[0]


def _peak_memory() -> float:
    """The most memory that this process has used so far, in gigabytes."""
    import resource  # not on Windows, where the rest of the package runs

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1024 if sys.platform == "linux" else 1) / 1e9


def measure(n_cells: int) -> dict[str, Any]:
    """A fit of as many cells in this process, measured."""
    adata, held_out = cells(n_cells), cells(4 * HELD_OUT * N_SNAPSHOTS, random_state=1)
    phases = _Phases()
    logging.getLogger("scjko").addHandler(phases)
    logging.getLogger("scjko").setLevel(logging.INFO)
    begun = time.perf_counter()
    tl.fit_energy(adata, "day", progress=False)
    seconds = time.perf_counter() - begun
    found = {"seconds": seconds, **phases.durations(), "memory": _peak_memory(), **_errors(adata, held_out)}
    rows = np.random.default_rng(0).choice(n_cells, min(n_cells, REFERENCE), replace=False)
    small = adata[np.sort(rows)].copy()
    tl.fit_energy(small, "day", coupling="exact", progress=False)
    found |= {f"{name}_reference": value for name, value in _errors(small, held_out).items()}
    found |= _floors(held_out)
    return found | _again(min(n_cells, REFERENCE)) | {"throughput": throughput()}


class _Phases(logging.Handler):
    """When each phase of a fit began, by the log lines that say so."""

    NAMES = {"Coupling": "couplings", "Training": "training", "Predicting": "cells"}

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.begun: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        name = self.NAMES.get(record.getMessage().split()[0])
        if name is not None:
            self.begun.setdefault(name, record.created)

    def durations(self) -> dict[str, float]:
        """Seconds of each phase, the last until now."""
        ends = [*list(self.begun.values())[1:], time.time()]
        return {name: end - start for (name, start), end in zip(self.begun.items(), ends, strict=True)}


def _errors(adata: AnnData, held_out: AnnData) -> dict[str, float]:
    """The mean one-step error on held-out cells, in all dimensions and in the plane in which they move.

    Where most dimensions are noise, a distance between few cells favours predictions that are drawn to the mean of it.
    The plane has no such dimensions.
    """
    energy, found = get.energy(adata), []
    for (t0, here), (t1, there) in pairwise(_clouds(held_out)):
        moved = energy.step(here, t0, t1)
        found.append([emd(moved, there), emd(moved @ plane(), there @ plane())])
    return dict(zip(("emd", "plane"), np.mean(found, axis=0).tolist(), strict=True))


def _floors(held_out: AnnData) -> dict[str, float]:
    """The mean distance of the cells compared from as many others of the same time point."""
    found = []
    for (_, one), (_, other) in zip(_clouds(held_out), _clouds(held_out, 1), strict=True):
        found.append([emd(one, other), emd(one @ plane(), other @ plane())])
    return dict(zip(("floor", "plane_floor"), np.mean(found, axis=0).tolist(), strict=True))


def _clouds(held_out: AnnData, number: int = 0) -> list[tuple[float, NDArray[np.float64]]]:
    """Each time with the first held-out cells of it, or with the next as many."""
    x, day = held_out.obsm["X_pca"].astype(np.float64), held_out.obs["day"].to_numpy()
    rows = slice(number * HELD_OUT, (number + 1) * HELD_OUT)
    return [(float(time), x[day == time][rows]) for time in np.unique(day)]


def _again(n_cells: int) -> dict[str, Any]:
    """Two fits of one shape: the seconds of the second, and the programs that it compiled."""
    compiled = _Compiled()
    for seed in (1, 2):
        adata = cells(n_cells, random_state=seed)
        begun = time.perf_counter()
        compiled.count = 0
        tl.fit_energy(adata, "day", progress=False)
    return {"second": time.perf_counter() - begun, "compiled": compiled.count}


class _Compiled:
    """Counts the programs that JAX compiles."""

    def __init__(self) -> None:
        self.count = 0
        listener: Any = self._heard
        jax.monitoring.register_event_duration_secs_listener(listener)

    def _heard(self, event: str, duration: float, **_: Any) -> None:
        self.count += event == "/jax/core/compile/backend_compile_duration"


def throughput(n_updates: int = 2000, batch_size: int = 250) -> float:
    """Updates per second of the training, as a fraction of those of a bare loop over the same gradients."""
    rng = np.random.default_rng(0)
    model, key = NeuralPotential((64, 64)), np.uint32(0)
    n_rows = 40 * batch_size
    z, velocity = rng.normal(size=(2, n_rows, N_DIMS)).astype(np.float32)
    labels, weight = np.zeros((n_rows, 2), np.float32), np.ones(n_rows, np.float32)
    rows = Rows(
        z=jnp.asarray(z),
        inputs=jnp.asarray(labels),
        velocity=jnp.asarray(velocity),
        weight=jnp.asarray(weight),
        place=jnp.zeros(n_rows, jnp.int32),
        pace=jnp.ones(n_rows),
    )
    epochs = np.arange(n_updates // 40, dtype=np.uint32)
    rates = np.full((len(epochs), 40), 1e-3, np.float32)
    bare_batches = tuple(array[: 40 * batch_size].reshape(40, batch_size, -1) for array in (rows.z, labels, velocity))

    def ours() -> None:
        state = descent.start(model, None, N_DIMS, 2, key)
        descent.run(model, model, None, state, rows, None, key, batch_size, plan(key, epochs, rates, batch_size))

    def bare() -> None:
        weights = descent.start(model, None, N_DIMS, 2, key)[0]["potential"]
        jax.block_until_ready(_bare(model, len(epochs), weights, *bare_batches))

    seconds = {}
    for name, program in (("ours", ours), ("bare", bare)):
        program()  # compiled
        repeated = []
        for _ in range(3):
            begun = time.perf_counter()
            program()
            repeated.append(time.perf_counter() - begun)
        seconds[name] = min(repeated)
    return seconds["bare"] / seconds["ours"]


@partial(jax.jit, static_argnums=(0, 1))
def _bare(model: NeuralPotential, n_epochs: int, weights: Any, *batches: Any) -> Any:
    def update(weights: Any, batch: Any) -> tuple[Any, None]:
        z, labels, velocity = batch

        def error(weights: Any) -> jax.Array:
            return loss(models.gradients(model, weights, z, labels), velocity, jnp.ones(len(z)))

        slope = jax.grad(error)(weights)
        return jax.tree.map(lambda w, s: w - 1e-9 * s, weights, slope), None

    def epoch(weights: Any, _: Any) -> tuple[Any, None]:
        return jax.lax.scan(update, weights, batches)[0], None

    return jax.lax.scan(epoch, weights, None, length=n_epochs)[0]
