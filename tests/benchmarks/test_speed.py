"""Benchmarks of speed: that they measure what they say. How fast it is, no test asserts: machines are noisy."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.benchmarks import solvers, speed


def test_a_fit_is_measured_in_a_process_of_its_own(tmp_path):
    frame = speed.run(tmp_path, n_cells=[400], progress=False)
    row = frame.iloc[0]
    phases = row[["couplings", "training", "cells"]]
    assert (phases > 0).all() and phases.sum() == pytest.approx(row["seconds"], rel=0.1)
    assert 0.1 < row["memory"] < 8
    assert row["emd"] == pytest.approx(row["emd_reference"]), "of few cells, both fits are one"
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


def test_solvers_are_compared_on_one_problem(tmp_path):
    frame = solvers.run(tmp_path, n_cells=[600], n_dims=[5], progress=False)
    by_solver = frame.groupby("solver")["cost"]
    assert (by_solver.min() >= 1 - 1e-9).all(), "nothing is below the optimum"
    assert by_solver.max()["exact"] == 1 and by_solver.max()["multiscale"] < 1.05
    assert len(solvers.table(frame)) == len(frame)
    assert (tmp_path / "solvers.png").exists()


def test_embryoid_couplings_are_timed_beside_pot_alone(tmp_path, rng):
    path = tmp_path / "cells.npz"
    np.savez(path, pcs=rng.normal(size=(300, 5)), sample_labels=np.arange(300) % 5)
    frame = solvers.run(n_cells=[200], n_dims=[2], path=path, progress=False)
    timed = frame[frame["clouds"] == "embryoid bodies"]
    assert list(timed["solver"]) == ["POT, one by one", "exact"]
    assert timed["cost"].iloc[1] == pytest.approx(1)
