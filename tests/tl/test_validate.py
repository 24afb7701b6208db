"""Validation: what is held out stays out, distances are exact, and the verdict is right both ways."""

from __future__ import annotations

import logging
import threading

import anndata
import numpy as np
import pandas as pd
import pytest
from helpers import assert_same, simulate

import scjko as sj
from scjko.core.judging.metrics import emd
from scjko.core.judging.names import SPOKEN
from scjko.edge.snapshots import collect
from scjko.edge.validation.folds import Fold
from scjko.edge.validation.protocols import Cells
from scjko.tl import _validate

FULL = {"n_pcs": 10, "n_splits": 3, "parametrization": sj.Neural(epochs=150), "progress": False}
QUICK = {"use_rep": "X_latent", "n_splits": 2, "parametrization": sj.Neural(epochs=30), "progress": False}


@pytest.fixture(scope="module")
def validated():
    adata = simulate(1500)
    return adata, sj.tl.validate(adata, "day", **FULL)


def test_the_frame_is_tidy_and_stored(validated):
    adata, frame = validated
    assert list(frame) == ["protocol", "split", "time", "method", "emd", "n_source", "n_target"]
    days = np.unique(adata.obs["day"])
    neighbours = {"ot_nearest", "ot_neighbours", "ot_neighbours_best"}
    maps = {"kernel_ridge", "linear_map", "kantorovich"}
    assert set(frame["method"]) == {"scjko", "persistence", *neighbours, *maps, "floor"}
    assert len(frame) == 3 * (len(days) - 1) * 9
    assert set(frame["method"]) <= {"scjko", "floor", *SPOKEN}, "every baseline has words"
    assert set(frame["time"]) == set(days[1:])
    pd.testing.assert_frame_equal(adata.uns["jko_validation"], frame)
    assert adata.uns["jko_validation_verdict"] == {"cells": frame.attrs["verdict"]}


def test_it_says_yes_when_the_energy_predicts(validated):
    _, frame = validated
    means = frame.groupby("method")["emd"].mean()
    assert means["scjko"] < means["ot_nearest"] < means["persistence"]
    assert "Not moving" not in frame.attrs["verdict"]
    assert f"EMD {means['scjko']:.4g} against" in frame.attrs["verdict"]


def test_it_says_no_when_times_were_shuffled(caplog):
    adata = sj.datasets.simulated(900)
    adata.obs["day"] = np.random.default_rng(0).permutation(adata.obs["day"])
    with caplog.at_level(logging.WARNING, "scjko"):
        frame = sj.tl.validate(adata, "day", **{**QUICK, "n_splits": 3})
    assert "Not moving does" in frame.attrs["verdict"]
    assert frame.attrs["verdict"] in caplog.text


def test_the_same_seed_gives_the_same_and_rows_do_not_matter(validated):
    adata, frame = validated
    shuffled = adata[np.random.default_rng(1).permutation(adata.n_obs)].copy()
    other = sj.tl.validate(shuffled, "day", **{**FULL, "n_splits": 1}, random_state=1)
    np.testing.assert_array_equal(other["emd"], frame[frame["split"] == 1]["emd"])


def fold_of(adata):
    """The first split of the cells."""
    snapshots = collect(adata.obsm["X_latent"], adata.obs["day"].to_numpy(float))
    return Cells(0.4, 1).folds(snapshots, "day", "both", 0)[0]


def test_nothing_of_held_out_cells_reaches_the_fit(monkeypatch):
    """With held-out cells moved far away, energy, couplings and whitening are what they were."""
    adata = sj.datasets.simulated(300)
    seen = []
    fit = _validate.fit_snapshots
    monkeypatch.setattr(
        _validate, "fit_snapshots", lambda train, *rest, **o: seen.append(train) or fit(train, *rest, **o)
    )
    options = {**QUICK, "n_splits": 1, "whiten": True}
    sj.tl.validate(adata, "day", **options)
    held_out = ~fold_of(adata).train
    adata.obsm["X_latent"][held_out] += 1e3
    monkeypatch.setattr(Cells, "folds", lambda *args: [Fold(0, ~held_out, 0)])
    sj.tl.validate(adata, "day", **options)
    np.testing.assert_array_equal(seen[0].coordinates, seen[1].coordinates)
    adata.obsm["X_latent"][held_out] -= 1e3
    sj.tl.validate(adata, "day", **{**options, "whiten": "all"})
    assert np.abs(seen[2].coordinates - seen[0].coordinates).max() > 1e-3


def test_every_time_in_between_is_left_out_in_turn():
    adata = sj.datasets.simulated(600)
    frame = sj.tl.validate(adata, "day", protocol="times", **QUICK)
    days = np.unique(adata.obs["day"])
    assert list(frame["time"].unique()) == list(days[1:-1])
    baselines = {"persistence", "ot_midpoint", "ot_midpoint_prior", "ot_asynchronous", "mixture"}
    assert set(frame["method"]) == {"scjko", "floor"} | baselines
    means = frame.groupby("method")["emd"].mean()
    assert means["floor"] < means["scjko"] < 0.6 * means["mixture"]
    sizes = frame[frame["method"] == "scjko"].set_index("time")
    counts = adata.obs["day"].value_counts()
    assert sizes.loc[days[1], "n_source"] == counts[days[0]] + counts[days[2]]
    assert sizes.loc[days[1], "n_target"] == counts[days[1]]


def test_distances_are_those_of_the_definition():
    """Persistence and the floor, computed once more from the split itself."""
    adata = sj.datasets.simulated(300)
    frame = sj.tl.validate(adata, "day", **{**QUICK, "n_splits": 1})
    x, day = adata.obsm["X_latent"], adata.obs["day"].to_numpy(float)
    train = fold_of(adata).train
    first, second = np.unique(day)[:2]
    here, there = x[~train & (day == first)], x[~train & (day == second)]
    found = frame[frame["time"] == second].set_index("method")["emd"]
    assert found["persistence"] == pytest.approx(emd(here, there))
    assert found["floor"] == pytest.approx(emd(x[train & (day == second)], there))


def test_splits_leave_the_fraction_out_at_every_time():
    times = np.repeat([0.0, 1.0], [10, 100])
    folds = Cells(0.4, 3).folds(collect(np.arange(110.0)[:, None], times), "day", "both", 7)
    for fold in folds:
        assert [np.sum(fold.train[times == t]) for t in (0, 1)] == [6, 60]
    assert [fold.seed for fold in folds] == [7, 8, 9]
    assert not np.array_equal(folds[0].train, folds[1].train)


def test_a_benchmark_may_compare_fewer_cells():
    """Of each population a sample, and memory is asked for no more; a sample of all cells changes nothing."""
    adata, options = sj.datasets.simulated(300), {**QUICK, "n_splits": 1}
    usual, few, all_of_them = (
        sj.tl.validate(adata, "day", protocol=protocol, **options)
        for protocol in ("cells", Cells(0.4, 1, max_compared=10), Cells(0.4, 1, max_compared=1000))
    )
    assert (few[["n_source", "n_target"]] == 10).all(axis=None)
    np.testing.assert_allclose(all_of_them["emd"], usual["emd"], rtol=1e-9)
    snapshots = collect(adata.obsm["X_latent"], adata.obs["day"].to_numpy(float))
    assert set(Cells(0.4, 1, max_compared=10).pairs(snapshots, fold_of(adata))) == {(10, 10)}


def test_cells_without_weight_are_not_there():
    """Copies of weight zero change neither the energy's errors nor those of its rivals."""
    adata = sj.datasets.simulated(300)
    ghosts = adata.copy()
    ghosts.obsm["X_latent"] = ghosts.obsm["X_latent"] + 1.0
    both = anndata.concat([adata, ghosts], index_unique="-")
    both.obs["w"] = np.repeat([1.0, 0.0], adata.n_obs)
    options = {**QUICK, "n_splits": 1}
    with_ghosts = sj.tl.validate(both, "day", weight_key="w", **options)
    np.testing.assert_allclose(with_ghosts["emd"], sj.tl.validate(adata, "day", **options)["emd"], rtol=1e-4)


def test_rivals_have_exact_couplings_whatever_the_fit_has():
    adata = sj.datasets.simulated(300)
    exact, batched = (
        sj.tl.validate(adata, "day", **{**QUICK, "n_splits": 1}, **options)
        for options in ({}, {"coupling": sj.Batched(size=10)})
    )
    rivals = exact["method"] != "scjko"
    np.testing.assert_array_equal(exact["emd"][rivals], batched["emd"][rivals])
    assert (exact["emd"][~rivals] != batched["emd"][~rivals]).all()


def test_whitening_takes_what_is_true_for_true():
    adata = sj.datasets.simulated(300)
    one, two = (sj.tl.validate(adata, "day", **{**QUICK, "n_splits": 1}, whiten=w) for w in (True, np.True_))
    np.testing.assert_array_equal(one["emd"], two["emd"])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (
            {"protocol": "genes"},
            ValueError,
            "protocol='genes' is not an option; choose one of 'cells', 'times', 'last'",
        ),
        ({"test_size": 0}, ValueError, "test_size=0 must be finite and above zero"),
        ({"test_size": 1.5}, ValueError, "test_size=1.5 must be a fraction below one"),
        ({"test_size": 0.999}, ValueError, "test_size=0.999 leaves 0 of the"),
        ({"n_splits": 0}, ValueError, "n_splits=0 is too small"),
        (
            {"n_split": 3},
            TypeError,
            "no 'n_split'. Its own options are time_key, .*n_splits.*; those that it passes on",
        ),
        ({"copy": True}, TypeError, "validate takes no 'copy'"),
        ({"epochs": 3}, TypeError, r"validate takes no 'epochs'; write parametrization=sj.Neural\(epochs=...\)"),
        ({"coupling": {(0, 1): np.eye(2)}}, ValueError, "coupling must be a solver: ready-made couplings are those of"),
        ({"time_key": None}, TypeError, "validate needs time_key"),
        ({"key": "mine"}, KeyError, "No fitted energy at adata.uns.'mine'"),
        ({"key": "taken"}, ValueError, "is not a fitted energy.* With key=None no options are taken from it"),
        ({"scheme": "sideways"}, ValueError, "scheme='sideways'"),
        ({"whiten": "some"}, ValueError, "whiten='some'"),
        ({"whiten": 1}, TypeError, "whiten must be True or False"),
        ({"protocol": "times", "scheme": "explicit"}, ValueError, "scheme='explicit' has no step back"),
        ({"key_added": "a/b"}, ValueError, "must be a name without '/'"),
        ({"key_added": "taken"}, ValueError, "would overwrite adata.uns.'taken'."),
        ({"key_added": "half"}, ValueError, "would overwrite adata.uns.'half_verdict'."),
    ],
)
def test_bad_input_is_named_and_nothing_written(adata, options, error, words):
    adata.uns["taken"] = {"mine": 1}
    adata.uns["half_verdict"] = "mine"
    before = adata.copy()
    with pytest.raises(error, match=words):
        sj.tl.validate(adata, **{"time_key": "day", "n_pcs": 3, "progress": False, **options})
    assert_same(adata, before)


@pytest.mark.parametrize(
    ("protocol", "words"), [("times", "leaves out .* has only 2"), ("last", "at least three, .* 2")]
)
def test_two_time_points_are_too_few_to_leave_one_out(adata, protocol, words):
    two = adata[adata.obs["day"].isin(adata.obs["day"].unique()[:2])].copy()
    with pytest.raises(ValueError, match=rf"protocol='{protocol}' .*{words}.*; use protocol='cells'"):
        sj.tl.validate(two, "day", n_pcs=3, protocol=protocol)


def test_an_error_in_one_fold_is_the_error_of_the_call(adata, monkeypatch):
    def fail(*args, **options):
        raise FloatingPointError("The fit of the potential diverged")

    monkeypatch.setattr(_validate, "fit_snapshots", fail)
    before, threads = adata.copy(), set(threading.enumerate())
    with pytest.raises(FloatingPointError, match="diverged"):
        sj.tl.validate(adata, "day", n_pcs=3, progress=False)
    assert_same(adata, before)
    # A fold that goes on would be one of the next test. Pools of other tests and libraries may stay for good.
    for thread in set(threading.enumerate()) - threads:
        thread.join(timeout=120)
        assert not thread.is_alive()
