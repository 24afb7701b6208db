"""Faults in the midst of work: whatever stops it, the AnnData is as it was."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
from contextlib import contextmanager

import jax
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from helpers import assert_same

import scjko as sj
from scjko.core.compute.parallel import side_by_side
from scjko.core.fitting import descent
from scjko.core.fitting import fit as core_fit
from scjko.core.transport import solvers
from scjko.edge import diagnosis, fitting
from scjko.edge.options import FitOptions
from scjko.edge.storage import fields as written
from scjko.tl import _validate

QUICK = {"parametrization": sj.Neural(epochs=3), "progress": False}


def stopped(fault, after=0):
    """A function that stands in for any other and raises when it has been called ``after`` times."""
    calls = []

    def fail(*args, **kwargs):
        calls.append(args)
        if len(calls) > after:
            raise fault

    return fail


def in_a_solver(monkeypatch, fault):
    """One of the threads that solve couplings is stopped while the others are at work."""
    solve, first = solvers.exact, threading.Lock()

    def exact(*args):
        if first.acquire(blocking=False):
            raise fault
        return solve(*args)

    monkeypatch.setattr(solvers, "exact", exact)


def between_epochs(monkeypatch, fault):
    bar = fitting.progress_bar

    def stopping(total, description, **options):
        made = bar(total, description, **options)
        if description == "training":
            made.update = stopped(fault, after=1)
        return made

    monkeypatch.setattr(fitting, "progress_bar", stopping)


PHASES = {
    "in a solver": in_a_solver,
    "between epochs": between_epochs,
    "after training": lambda patch, fault: patch.setattr(core_fit, "offsets", stopped(fault)),
    "in diagnostics": lambda patch, fault: patch.setattr(diagnosis, "identifiability", stopped(fault)),
    "while recording": lambda patch, fault: patch.setattr(FitOptions, "recorded", stopped(fault)),
}


@pytest.mark.parametrize("phase", PHASES.values(), ids=PHASES.keys())
@pytest.mark.parametrize("fault", [KeyboardInterrupt(), SystemExit(3), RuntimeError("a thread died")], ids=repr)
def test_a_fit_that_is_stopped_within_a_phase_leaves_the_data_as_they_were(adata, monkeypatch, phase, fault):
    before = adata.copy()
    phase(monkeypatch, fault)
    with pytest.raises(type(fault)):
        sj.tl.fit_energy(adata, "day", **QUICK)
    assert_same(adata, before)
    monkeypatch.undo()
    sj.tl.fit_energy(adata, "day", **QUICK)
    assert "jko" in adata.uns, "and the next one works"


def interrupted(function, after):
    """Whether ``function()`` was interrupted, before its line number ``after``, those of all it calls counted."""
    left = [after]

    def on_line(frame, event, argument):
        if event == "line":
            left[0] -= 1
            if left[0] < 0:
                sys.settrace(None)
                raise KeyboardInterrupt
        return on_line

    tracing = sys.gettrace()
    gc.disable()  # what it calls is not ours, and cannot be interrupted
    sys.settrace(lambda frame, event, argument: on_line if frame.f_code.co_filename.endswith(".py") else None)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(tracing)
        gc.enable()
    return False


def small(key, n=12):
    """A few cells, and the fields that a fit would write."""
    rng = np.random.default_rng(0)
    adata = AnnData(obs=pd.DataFrame({"day": np.arange(n) % 2}, index=[f"c{i}" for i in range(n)]))
    adata.obsm["X_pca"] = rng.normal(size=(n, 2))
    fields = {
        "obs": {f"{key}_potential": rng.normal(size=n), f"{key}_converged": np.arange(n) > 3},
        "obsm": {f"X_{key}": rng.normal(size=(n, 2)), f"{key}_velocity": rng.normal(size=(n, 2))},
        "uns": {key: {"params": {}, "times": np.arange(2)}},
    }
    return adata, fields


@pytest.mark.parametrize("again", [False, True], ids=["first fit", "second fit"])
def test_an_interrupt_at_any_line_of_writing_leaves_all_or_nothing(again):
    """Line by line through our code and that of anndata and pandas, every seventh of them."""
    start, fields = small("jko")
    if again:
        written.write_fields(start, **small("jko")[1])
        fields["obs"]["jko_potential"] = fields["obs"]["jko_potential"] + 1
    whole = start.copy()
    written.write_fields(whole, **fields)
    outcomes = {"before": 0, "after": 0}
    for after in range(0, 10**6, 7):
        adata = start.copy()
        stop = interrupted(lambda adata=adata: written.write_fields(adata, **fields), after)
        done = not stop or np.array_equal(adata.obs.get("jko_potential"), fields["obs"]["jko_potential"])
        outcomes["after" if done else "before"] += 1
        assert_same(adata, whole if done else start)
        if not stop:
            break
    assert outcomes["before"] > 50 and outcomes["after"] >= 1


def test_a_validation_that_is_stopped_leaves_the_data_as_they_were(adata, monkeypatch):
    before = adata.copy()
    in_a_solver(monkeypatch, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        sj.tl.validate(adata, "day", n_splits=2, **QUICK)
    assert_same(adata, before)


def test_threads_that_cannot_be_started_are_an_error(adata, monkeypatch):
    before = adata.copy()

    def full(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", full)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        sj.tl.fit_energy(adata, "day", **QUICK)
    assert_same(adata, before)


def test_a_thread_that_dies_stops_those_that_have_not_begun():
    begun = []

    def work(k):
        begun.append(k)
        raise SystemExit

    with pytest.raises(SystemExit):
        side_by_side(work, range(100), at_once=1)
    assert len(begun) < 100


@pytest.fixture(scope="module")
def many_cells():
    """32 000 cells at each of three times: the costs of two of them take 8 GB."""
    n = 32_000
    obs = pd.DataFrame({"day": np.repeat([0.0, 1.0, 2.0], n)}, index=np.arange(3 * n).astype(str))
    return AnnData(obs=obs, obsm={"X_pca": np.random.default_rng(0).normal(size=(3 * n, 2))})


@contextmanager
def little_memory():
    """Fails if more than a hundredth of what the costs take is allocated on the way."""
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < 80e6
    finally:
        tracemalloc.stop()


def test_what_does_not_fit_is_refused_before_it_is_allocated(many_cells):
    coupling, message = sj.Sinkhorn(memory_limit=1.0), "the sinkhorn coupling of 32000 and 32000 cells needs 51.2 GB"
    with little_memory(), pytest.raises(MemoryError, match=message):
        sj.tl.fit_energy(many_cells, "day", coupling=coupling, progress=False)
    assert list(many_cells.uns) == []


@pytest.mark.parametrize(("protocol", "n", "percent"), [("cells", 19_200, 40), ("times", 64_000, 10)])
def test_distances_that_do_not_fit_are_refused_before_anything_is_fitted(many_cells, protocol, n, percent, monkeypatch):
    """The largest is that of the training cells against those held out, or of both neighbours against a time."""
    monkeypatch.setattr(_validate, "couple_snapshots", lambda *args, **kwargs: pytest.fail("it began to fit"))
    held_out = 12_800 if protocol == "cells" else 32_000
    message = f"distance of {n} and {held_out} cells needs .* validate a random {percent} % of the cells"
    limit = n * held_out * 50 / 1e9 * (percent / 100) ** 2
    with little_memory(), pytest.raises(MemoryError, match=message):
        sj.tl.validate(many_cells, "day", protocol=protocol, coupling=sj.Auto(memory_limit=limit), progress=False)
    assert list(many_cells.uns) == []


def test_a_loss_that_is_not_a_number_is_an_error(adata, monkeypatch):
    before, run = adata.copy(), descent.run

    def spoilt(*args, **kwargs):
        state, losses = run(*args, **kwargs)
        return state, losses * np.nan

    monkeypatch.setattr(descent, "run", spoilt)
    with pytest.raises(FloatingPointError, match="the loss is nan times"):
        sj.tl.fit_energy(adata, "day", **QUICK)
    assert_same(adata, before)


@pytest.mark.parametrize(
    "parametrization", [sj.Neural(epochs=3), sj.Linear(degree=1, n_centers=0)], ids=lambda kind: kind.name
)
def test_weights_that_are_not_numbers_are_an_error_though_the_loss_was_one(adata, monkeypatch, parametrization):
    """As after an overflow in the very last update, or in the solution of nearly singular equations."""
    before, assembled = adata.copy(), core_fit._assembled

    def spoilt(solved, *others):
        return assembled(solved._replace(weights=jax.tree.map(lambda w: w * np.nan, solved.weights)), *others)

    monkeypatch.setattr(core_fit, "_assembled", spoilt)
    with pytest.raises(FloatingPointError, match="not a number"):
        sj.tl.fit_energy(adata, "day", parametrization=parametrization, progress=False)
    assert_same(adata, before)
