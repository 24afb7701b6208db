"""Benchmarks of speed: that they measure what they say. How fast it is, no test asserts: machines are noisy."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd
import pytest

from scjko.benchmarks import _rivals, _shapes, solvers, speed
from scjko.core.compute.limits import n_cores
from scjko.core.compute.parallel import side_by_side


def test_a_fit_is_measured_in_a_process_of_its_own(tmp_path):
    frame = speed.run(tmp_path, n_cells=[400], progress=False)
    row = frame.iloc[0]
    phases = row[["couplings", "training", "cells"]]
    assert (phases > 0).all() and phases.sum() == pytest.approx(row["seconds"], rel=0.1)
    assert 0.1 < row["memory"] < 8
    assert row["emd"] == pytest.approx(row["emd_reference"]), "of few cells, both fits are one"
    assert row["plane"] == pytest.approx(row["plane_reference"]) and 0 < row["plane"] < row["emd"]
    assert 0 < row["plane_floor"] < row["floor"], "a projection brings samples nearer"
    assert row["compiled"] == 0, "the second fit of a shape compiles nothing"
    assert 0 < row["throughput"] < 2
    assert (tmp_path / "speed.png").exists() and (tmp_path / "speed.csv").exists()
    assert list(speed.table(frame).index) == [400]


def test_what_fails_in_that_process_is_said():
    with pytest.raises(RuntimeError, match="The fit of 3 cells failed: ValueError"):
        speed.trial(3)


def test_held_out_cells_are_others_of_the_same_course():
    one, other = speed.cells(500), speed.cells(500, random_state=1)
    assert one.obsm["X_pca"].shape == (500, speed.N_DIMS) and one.obs["day"].nunique() == speed.N_SNAPSHOTS
    assert not np.isin(other.obsm["X_pca"][:, 0], one.obsm["X_pca"][:, 0]).any()
    means = [adata.obsm["X_pca"].mean(axis=0) for adata in (one, other)]
    assert np.linalg.norm(means[0] - means[1]) < 0.3 * np.linalg.norm(means[0])


@pytest.fixture
def without_low_rank(monkeypatch):
    """Its programs take seconds to compile for each size."""
    monkeypatch.setattr(solvers, "low_rank", lambda interval: lambda: float("nan"))


def test_solvers_are_compared_on_one_problem(tmp_path, without_low_rank):
    frame = solvers.run(tmp_path, n_cells=[300], n_dims=[5], progress=False)
    by_solver = frame.dropna(subset="cost").groupby("solver")["cost"]
    assert (by_solver.min() >= 1 - 1e-9).all(), "nothing is below the optimum"
    assert by_solver.max()["exact"] == pytest.approx(1, abs=1e-9) and by_solver.max()["multiscale"] < 1.01 + 1e-9
    proven = frame.dropna(subset="gap")
    assert set(proven["solver"]) == {"exact", "multiscale"}
    assert (proven["cost"] - 1 <= proven["gap"] + 1e-9).all(), "no gap is below the excess"
    assert set(frame["shape"]) == {"overlapping", "separated", "arms"}
    rows = solvers.table(frame)
    assert len(rows) == len(frame) and "low-rank Sinkhorn" in rows.index.get_level_values("solver")
    assert (tmp_path / "solvers.png").exists()


@pytest.fixture
def data(tmp_path, rng):
    """A folder laid out as the real one, with few cells."""
    for name in ("embryoid_body", "clones"):
        (tmp_path / name).mkdir()
    np.savez(tmp_path / "embryoid_body/eb_pca5.npz", pcs=rng.normal(size=(300, 5)), sample_labels=np.arange(300) % 5)
    x, day = rng.normal(size=(200, 2)).astype(np.float32), np.repeat([2, 4, 6], [40, 80, 80])
    np.savez(tmp_path / "clones/larry_2d.npz", X=x, day=day, neu_mon=np.arange(200) % 4 > 0)
    return tmp_path


def solved(shape, **options):
    return pd.DataFrame(solvers.trial(shape, **options)).set_index("solver")


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes are tied to cores on Linux only")
def test_embryoid_couplings_are_timed_beside_pot_alone(data, without_low_rank):
    (path,) = _shapes.files(data / "embryoid_body/eb_pca5.npz").values()
    rows = solved("embryoid bodies", path=str(path))
    ours = ["exact", "exact, side by side", "exact, one core"]
    assert rows["time_ratio"][solvers.POT] == 1 and rows["n_source"].iloc[0] == rows["n_target"].iloc[0] == 240
    assert rows["cost"][ours].to_numpy() == pytest.approx(1) and (rows["gap"][ours] <= 1e-6).all()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes are tied to cores on Linux only")
def test_within_one_core_nothing_is_shared_among_cores():
    before = n_cores()
    with _rivals.one_core():
        assert n_cores() == 1
        assert set(side_by_side(lambda _: len(os.sched_getaffinity(0)), range(8))) == {1}
    assert n_cores() == before


def test_real_cells_are_found_in_a_folder(data, monkeypatch):
    found = _shapes.files(data)
    assert set(found) == {"embryoid bodies", *_shapes.LARRY}
    (data / "clones/empty").mkdir()
    seen = []
    monkeypatch.setattr(solvers, "trial", lambda **cell: seen.append(cell) or [])
    monkeypatch.setattr(solvers, "draw", lambda frame: None)
    solvers.run(n_cells=[50], n_dims=[2], path=data, progress=False)
    assert {cell["shape"]: cell.get("n_cells") for cell in seen if "path" in cell} == {
        "embryoid bodies": None,
        **dict.fromkeys(_shapes.LARRY, 50),
    }
    with pytest.raises(ValueError, match="There are no data in .*clones/larry_2d.npz"):
        _shapes.files(data / "clones/empty")


def test_where_pot_does_not_fit_costs_are_relative_to_the_proven_bound(data, monkeypatch):
    monkeypatch.setattr(solvers, "machine_memory", lambda: 1000)
    path = str(data / "clones/larry_2d.npz")
    rows = solved("LARRY, day 4 to 6", path=path)
    assert not {solvers.POT, "exact"} & set(rows.index) and rows["n_source"].iloc[0] == 60
    assert rows["time_ratio"]["multiscale"] == 1
    assert rows["cost"]["multiscale"] == pytest.approx(1 + rows["gap"]["multiscale"])
    assert rows["cost"]["low-rank Sinkhorn"] > 1


def test_of_real_cells_a_random_part_is_taken(data):
    interval = _shapes.larry("LARRY, day 2 to 4", str(data / "clones/larry_2d.npz"), n_cells=20)
    assert len(interval.x) == len(interval.y) == 20 and interval.a.sum() == pytest.approx(1)


def test_a_low_rank_solver_that_fails_gives_no_number(rng):
    x = rng.normal(size=(20, 2))
    assert np.isnan(_rivals.low_rank(_shapes.equal(x, np.full((20, 2), np.nan)), rank=3)())
