"""One trial: a model is fitted to training particles and judged on held-out ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from anndata import AnnData
from numpy.typing import NDArray

from ..core.energy.energy import Energy
from ..core.energy.specification import TERMS, Terms
from ..core.fitting.fit import fit
from ..core.fitting.parametrizations import PARAMETRIZATIONS, Neural
from ..core.judging.metrics import emd
from ..core.timeline import Timeline
from ..core.transport import Exact, Solver, couple
from ._generate import snapshots_of

Array = NDArray[np.float64]

#: The four models of the paper: how the energy is written, and its terms.
MODELS: dict[str, tuple[str, tuple[str, ...]]] = {
    "jkonet_star_potential": ("neural", ("potential",)),
    "jkonet_star": ("neural", TERMS),
    "jkonet_star_linear_potential": ("linear", ("potential",)),
    "jkonet_star_linear": ("linear", TERMS),
}


@dataclass(frozen=True)
class Fitted:
    """A fitted model, whichever it is: how it moves cells, and how long it took."""

    step: Callable[[Array, float, float], Array]
    seconds: float
    """Everything: couplings, compilation and fit."""
    seconds_couplings: float
    seconds_per_epoch: float
    losses: Array
    energy: Energy | None = None


def fit_model(
    adata: AnnData,
    model: str,
    *,
    epochs: int | None = None,
    solver: Solver | None = None,
    scheme: str = "explicit",
    random_state: int = 0,
) -> Fitted:
    """One of :data:`MODELS`, with the potential constant in time, fitted to the training particles."""
    points, times = snapshots_of(adata, "train"), np.unique(adata.obs["time"])
    started = time.perf_counter()
    couplings = couple(points, None, solver or Exact(), random_state=random_state)
    coupled = time.perf_counter()
    kind, terms = MODELS[model]
    fitted = fit(
        points,
        couplings,
        Timeline(times),
        parametrization=Neural(epochs=epochs) if kind == Neural.name else PARAMETRIZATIONS[kind](),
        terms=Terms.of(terms),
        scheme=scheme,
        time_varying=False,
        random_state=random_state,
    )
    done = time.perf_counter()
    return Fitted(
        fitted.energy.step,
        done - started,
        coupled - started,
        (done - coupled) / len(fitted.losses),
        fitted.losses,
        fitted.energy,
    )


def one_step_errors(step: Callable[[Array, float, float], Array], snapshots: list[Array], times: Array) -> Array:
    """For each step the exact EMD of the snapshot before it, moved by ``step``, to the one after it."""
    return np.array(
        [
            emd(step(x, float(t0), float(t1)), y)
            for x, y, t0, t1 in zip(snapshots[:-1], snapshots[1:], times[:-1], times[1:], strict=True)
        ]
    )


def stay(x: Array, t0: float, t1: float) -> Array:
    """No move: what any model has to beat."""
    return x


def judge(adata: AnnData, fitted: Fitted) -> dict[str, Any]:
    """Error on held-out particles and cost of a fitted model, as a row of a table."""
    snapshots, times = snapshots_of(adata, "test"), np.unique(adata.obs["time"])
    errors = one_step_errors(fitted.step, snapshots, times)
    return {
        "emd": float(errors.mean()),
        "emd_std": float(errors.std()),
        "emd_no_move": float(one_step_errors(stay, snapshots, times).mean()),
        "seconds": fitted.seconds,
        "seconds_couplings": fitted.seconds_couplings,
        "seconds_per_epoch": fitted.seconds_per_epoch,
        "epochs": len(fitted.losses),
    }
