"""Large data: what couples them, within which memory, and what is compiled again."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from helpers import assert_same, simulate

import scjko as sj
from scjko.benchmarks.speed import _Compiled
from scjko.core.compute.limits import machine_memory
from scjko.core.transport import budget
from scjko.core.transport.programs import multiscale
from scjko.edge import fitting


def fit(adata, **options):
    quick = {"parametrization": sj.Neural(epochs=3), "use_rep": "X_latent", "progress": False}
    sj.tl.fit_energy(adata, "day", **{**quick, **options})
    return adata.uns["jko"]


def test_small_snapshots_are_coupled_exactly_by_default(adata, caplog):
    with caplog.at_level(logging.INFO, "scjko"):
        stored = fit(adata)
    assert set(stored["couplings"]["solver"]) == {"exact"}
    assert "Coupling 4 intervals (4 exact)" in caplog.text and "cells" in caplog.text


def test_large_ones_are_multiscale_and_the_log_says_how_near_the_optimum(adata, caplog, monkeypatch):
    monkeypatch.setattr(budget, "LARGEST_EXACT", 10_000)
    with caplog.at_level(logging.INFO, "scjko"):
        stored = fit(adata)
    assert sorted(set(stored["couplings"]["solver"])) == ["exact", "multiscale"]
    assert "Multiscale couplings are at most" in caplog.text
    assert (stored["couplings"]["gap"] <= 0.01).all()
    assert caplog.text.index("Coupling") < caplog.text.index("Training") < caplog.text.index("Predicting")


def test_a_gap_above_the_tolerance_is_warned_of(adata, caplog):
    stored = fit(adata, coupling=sj.Multiscale(tolerance=1e-300))
    assert stored["couplings"]["gap"].max() > 1e-300, "exact but for rounding"
    assert "above the optimum, more than the tolerance of 1e-298 %" in caplog.text
    assert "sj.Multiscale(max_sweeps=...) refines it further" in caplog.text


def test_large_partial_couplings_say_both_how_much_is_left_over_and_how_near_the_optimum(adata, caplog, monkeypatch):
    monkeypatch.setattr(budget, "LARGEST_EXACT", 100)
    with caplog.at_level(logging.INFO, "scjko"):
        stored = fit(adata, coupling=sj.Partial(price=2))
        assert "Mass left uncoupled: " in caplog.text and "Partial couplings are at most" in caplog.text
        assert (stored["couplings"]["dropped"] > 0).any() and (stored["couplings"]["gap"] <= 0.01).all()
        fit(adata, coupling=sj.Partial(price=1e6))
        assert "No mass was left uncoupled." in caplog.text
        monkeypatch.setattr(multiscale, "SMALLEST_BLOCK", 32)
        monkeypatch.setattr(multiscale, "WHOLE", 0)
        fit(adata, coupling=sj.Partial(price=2, tolerance=1e-5, max_sweeps=1))
        assert "sj.Partial(max_sweeps=...) refines it further" in caplog.text


def test_a_memory_limit_is_recorded(adata):
    stored = fit(adata, coupling=sj.Auto(memory_limit=0.01))
    assert stored["params"]["auto"] == {"memory_limit": 0.01}


@pytest.mark.parametrize("coupling", [sj.Auto(memory_limit=1e-6), sj.Exact(memory_limit=1e-4)], ids=lambda c: c.name)
def test_a_limit_too_small_says_which_works_and_writes_nothing(adata, coupling):
    before = adata.copy()
    with pytest.raises(MemoryError, match="smallest memory_limit that works is"):
        fit(adata, coupling=coupling)
    assert_same(adata, before)


@pytest.mark.parametrize("limit", [0, -1, "4GB", float("nan")])
@pytest.mark.parametrize(
    "solver", [sj.Auto, sj.Exact, sj.Multiscale, sj.Partial, sj.Batched, sj.Sinkhorn], ids=lambda s: s.name
)
def test_a_limit_that_is_none_is_named(solver, limit):
    with pytest.raises((TypeError, ValueError), match="memory_limit"):
        solver(memory_limit=limit)


def test_by_default_couplings_take_a_quarter_of_the_machine(adata, monkeypatch):
    asked = []
    allot = budget.allot
    monkeypatch.setattr(fitting, "allot", lambda *a: (asked.append(a[0].limit), allot(*a))[1])
    fit(adata)
    assert asked == [machine_memory() // 4]


def test_more_devices_than_there_are_is_an_error_that_says_how_many(adata):
    with pytest.raises(ValueError, match=r"n_devices=64, but JAX has 1 \(cpu\)"):
        fit(adata, parametrization=sj.Neural(n_devices=64))


def test_a_second_fit_of_the_same_shape_compiles_nothing():
    compiled, network = _Compiled(), sj.Neural(layers=(7, 9), epochs=3)
    fit(simulate(400, random_state=1), parametrization=network)  # no other test has compiled this one
    assert compiled.count > 0, "the counter counts"
    compiled.count = 0
    stored = fit(simulate(400, random_state=2), parametrization=network)
    assert compiled.count == 0
    assert np.isfinite(stored["history"]["loss"]).all()
