"""The benchmark on real data, on a folder of small simulated files in the same form."""

from __future__ import annotations

import logging

import anndata
import numpy as np
import pandas as pd
import pytest

import scjko as sj
from scjko.benchmarks import _flow, _sets, data
from scjko.cli.main import main
from scjko.core.judging.metrics import emd


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Default fits in a closed form of few features, and no OT-CFM, whether it is installed or not."""
    options = {"parametrization": sj.Linear(degree=1, n_centers=0, ridge=0.1)}
    validate = data.tl.validate
    monkeypatch.setattr(data.tl, "validate", lambda *args, **given: validate(*args, **given, **options))
    monkeypatch.setattr(_flow, "installed", lambda: False)


def course(rng, n_dims, n_times=3, n_cells=20):
    """Cells that drift, and their times."""
    label = np.repeat(np.arange(n_times), n_cells)
    return rng.normal(size=(len(label), n_dims)) + label[:, None], label


@pytest.fixture
def folder(tmp_path, rng):
    """All files, with few cells."""
    root = tmp_path / "sets"
    for name in {each.file for each in _sets.SETS}:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
    for name, n_dims in (("eb_pca5", 5), ("eb_pca100_subset", 100)):
        x, label = course(rng, n_dims, 5)
        np.savez(root / f"embryoid_body/{name}.npz", pcs=x.astype(np.float32), sample_labels=label)
    x, label = course(rng, 2)
    np.savez(root / "hematopoiesis/lineage_2d.npz", X=x, day=2.0 * label + 2)
    np.savez(root / "clones/larry_2d.npz", X=x.astype(np.float32), day=(2 * label + 2).astype(np.int8))
    x, label = course(rng, 50)
    np.savez(root / "bcell/bcell_pcs.npz", pcs=x, hour=label.astype(np.float32))
    np.savez(root / "pbmc/pbmc_21x500x30.npz", X=rng.normal(size=(4, 15, 30)), time=np.linspace(0, 1, 4))
    obs = pd.DataFrame({"time_info": pd.Categorical((2 * label + 2).astype(str))}, index=np.arange(60).astype(str))
    anndata.AnnData(obs=obs, obsm={"X_pca": x[:, :40]}).write_h5ad(root / "clones/cospar_781.h5ad")
    obs = pd.DataFrame({"day": pd.Categorical(10 + label / 2)}, index=np.arange(60).astype(str))
    anndata.AnnData(rng.poisson(2, size=(60, 80)).astype(np.float32), obs).write_h5ad(
        root / "reprogramming/reprogramming_250.h5ad"
    )
    return root


def only(folder, *names):
    """The folder with no other files than these."""
    for file in [file for file in folder.rglob("*.*") if file.is_file() and file.name not in names]:
        file.unlink()
    return folder


def test_every_set_is_read_as_it_should_be(folder):
    found = {each.name: each.load(each.find(folder)) for each in _sets.SETS}
    sizes = {name: (*adata.obsm["X_pca"].shape, adata.obs["time"].nunique()) for name, adata in found.items()}
    assert sizes == {
        "embryoid bodies, 5 PCs": (100, 5, 5),
        "embryoid subset, 5 PCs": (100, 5, 5),
        "embryoid subset, 20 PCs": (100, 20, 5),
        "embryoid subset, 50 PCs": (100, 50, 5),
        "haematopoiesis, 2-D": (60, 2, 3),
        "LARRY, 10⁴ cells, 2-D": (60, 2, 3),
        "LARRY, all cells, 2-D": (60, 2, 3),
        "CoSpar, 10 PCs": (60, 10, 3),
        "reprogramming, 5 PCs": (60, 5, 3),
        "B cells, 10 PCs": (60, 10, 3),
        "PBMC, 30-D": (60, 30, 4),
    }
    assert sorted(set(found["reprogramming, 5 PCs"].obs["time"])) == [10, 10.5, 11]
    assert sorted(set(found["CoSpar, 10 PCs"].obs["time"])) == [2, 4, 6]
    with np.load(folder / "pbmc/pbmc_21x500x30.npz") as content:
        np.testing.assert_array_equal(found["PBMC, 30-D"].obsm["X_pca"][20], content["X"][1, 5])
        assert found["PBMC, 30-D"].obs["time"].iloc[20] == content["time"][1]


def test_of_a_large_set_a_part_is_taken_always_the_same(folder):
    part = _sets.DataSet("part", "clones/larry_2d.npz", _sets.SETS[5].read, 2, n_cells=25)
    one, other = (part.load(part.find(folder)) for _ in range(2))
    assert one.n_obs == 25 and one.obs["time"].nunique() == 3
    np.testing.assert_array_equal(one.obsm["X_pca"], other.obsm["X_pca"])


def test_all_sets_and_both_protocols_are_compared(folder, tmp_path, caplog):
    with caplog.at_level(logging.WARNING, "scjko"):
        frame = data.run(tmp_path / "out", path=folder, progress=False)
    assert set(frame["set"]) == {each.name for each in _sets.SETS if not each.large}
    assert set(frame["protocol"]) == {"cells", "times"}
    assert "torchcfm is not installed, so OT-CFM is left out" in caplog.text
    assert "Skipped" not in caplog.text and "predicts" not in caplog.text, (
        "nothing is missing, and no verdict of a split"
    )
    by_method = frame[frame["set"] == "B cells, 10 PCs"].groupby(["protocol", "method"])["emd"].mean()
    shown = data.table(frame)
    row = shown.loc[("cells", "B cells, 10 PCs")]
    assert row["n_cells"] == 60 and row["n_dims"] == 10
    ours, baselines = by_method["cells"]["scjko"], by_method["cells"].drop(["scjko", "floor"])
    assert row["best"] == pytest.approx(baselines.min()) and row["best baseline"] == baselines.idxmin()
    assert row["/ best"] == pytest.approx(ours / baselines.min())
    assert row["/ ot_neighbours"] == pytest.approx(ours / baselines["ot_neighbours"])
    assert row["floor"] == pytest.approx(by_method["cells"]["floor"])
    assert np.isnan(row["/ ot_midpoint_prior"]), "there is none of held-out cells"
    for protocol in ("cells", "times"):
        part = shown.loc[protocol]
        assert part.loc["mean", "/ best"] == pytest.approx(part.drop("mean")["/ best"].mean())
    for kind in ("csv", "json", "png"):
        assert (tmp_path / f"out/data.{kind}").stat().st_size > 0


def test_what_is_missing_is_said_and_what_is_finished_is_kept(folder, tmp_path, caplog, monkeypatch):
    only(folder, "bcell_pcs.npz")
    with caplog.at_level(logging.WARNING, "scjko"):
        frame = data.run(tmp_path / "out", path=folder, progress=False)
    assert "Skipped, because the folder has no such file: embryoid_body/eb_pca5.npz, embryoid_body/" in caplog.text
    assert set(frame["set"]) == {"B cells, 10 PCs"}
    monkeypatch.setattr(data.tl, "validate", None)
    again = data.run(tmp_path / "out", path=folder, progress=False)
    pd.testing.assert_frame_equal(again, frame)


def test_files_may_be_in_the_folder_itself(folder):
    (folder / "bcell/bcell_pcs.npz").rename(folder / "bcell_pcs.npz")
    (each,) = (each for each in _sets.SETS if each.name == "B cells, 10 PCs")
    assert each.find(folder) == folder / "bcell_pcs.npz"


def test_a_full_run_has_five_splits_and_thins_the_largest_set(folder, monkeypatch):
    monkeypatch.setattr(data, "MAX_COMPARED", 5)
    frame = data.run(path=only(folder, "larry_2d.npz"), full=True, progress=False)
    cells = frame[frame["protocol"] == "cells"]
    assert set(cells["seed"]) == set(range(5)) and set(frame[frame["protocol"] == "times"]["seed"]) == {0}
    whole, part = (frame[frame["set"] == f"LARRY, {name} cells, 2-D"] for name in ("all", "10⁴"))
    assert (whole[["n_source", "n_target"]] == 5).all(axis=None) and (part["n_target"] > 5).all()
    assert np.isfinite(whole["emd"]).all()


def test_time_points_are_left_out_only_if_there_are_three(folder, rng):
    x, label = course(rng, 50, 2)
    np.savez(only(folder, "bcell_pcs.npz") / "bcell/bcell_pcs.npz", pcs=x, hour=label)
    frame = data.run(path=folder, progress=False)
    assert set(frame["protocol"]) == {"cells"}
    assert data.draw(frame).axes[0].get_title() == "held-out cells"
    assert "/ ot_midpoint_prior" not in data.table(frame)


@pytest.fixture
def standing_still(monkeypatch):
    """In place of OT-CFM, a rival that does not move; the fits that were asked of it."""
    fits = []

    def fit_flow(points, times, *, n_batches, random_state):
        fits.append((len(points), n_batches))
        return lambda x, start, stop: x

    monkeypatch.setattr(_flow, "installed", lambda: True)
    monkeypatch.setattr(_flow, "fit_flow", fit_flow)
    return fits


def test_a_rival_sees_the_same_folds_and_is_judged_on_the_same_cells(folder, standing_still, caplog):
    """One that does not move has the errors of persistence, to the bit."""
    frame = data.run(path=only(folder, "bcell_pcs.npz", "eb_pca5.npz"), progress=False)
    keys = ["set", "protocol", "split", "time", "emd", "n_source", "n_target"]
    rival, still = (frame[frame["method"] == name][keys].reset_index(drop=True) for name in ("OT-CFM", "persistence"))
    pd.testing.assert_frame_equal(rival, still)
    assert standing_still == [(5, 4000), *[(4, 4000)] * 3, (3, 4000), (2, 4000)]
    shown = data.table(frame)
    assert (shown["/ OT-CFM"].drop("mean", level="set") > 0).all()
    assert "OT-CFM" not in set(shown["best baseline"]), "it is trained"
    assert "torchcfm" not in caplog.text


def test_the_figure_has_every_method_and_arrows_for_what_is_far_off(folder, standing_still):
    frame = data.run(path=only(folder, "bcell_pcs.npz", "lineage_2d.npz"), progress=False)
    frame.loc[frame["method"] == "persistence", "emd"] *= 100
    figure = data.draw(frame)
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == set(frame["method"])
    for axes, protocol in zip(figure.axes, ("cells", "times"), strict=True):
        drawn = np.concatenate([dots.get_offsets() for dots in axes.collections])
        assert len(drawn) == frame[frame["protocol"] == protocol].groupby(["set", "method"]).ngroups
        assert drawn[:, 0].max() == data.LIMITS[1]


@pytest.mark.parametrize(
    ("path", "said"),
    [
        (None, "must be a folder with data sets"),
        ("nowhere", "must be a folder with data sets"),
        ("empty", r"There are no data in .*embryoid_body/eb_pca5.npz, "),
        ("wrong", r"bcell_pcs.npz' is not what 'B cells, 10 PCs' is read from"),
        ("narrow", r"bcell_pcs.npz' is not what .* cells of shape \(60, 3\)"),
    ],
)
def test_a_bad_folder_is_named(tmp_path, rng, capsys, path, said):
    (tmp_path / "empty").mkdir()
    for name, arrays in (
        ("wrong", {"pcs": np.ones((3, 10))}),
        ("narrow", {"pcs": np.ones((60, 3)), "hour": np.ones(60)}),
    ):
        (tmp_path / name).mkdir()
        np.savez(tmp_path / name / "bcell_pcs.npz", **arrays)
    path = None if path is None else tmp_path / path
    with pytest.raises(ValueError, match=said):
        data.run(path=path)
    with pytest.raises(SystemExit):
        main(["bench", "data", "-o", str(tmp_path / "out"), *([] if path is None else ["--path", str(path)])])
    assert "error: " in capsys.readouterr().err


def test_the_command_line_prints_the_table(folder, tmp_path, capsys):
    assert main(["bench", "data", "--path", str(only(folder, "bcell_pcs.npz")), "-o", str(tmp_path / "out")]) == 0
    printed = capsys.readouterr().out
    assert "B cells, 10 PCs" in printed and "best baseline" in printed and "data.png" in printed


def test_ot_cfm_learns_a_shift(rng):
    """The rival itself, where its package is installed."""
    pytest.importorskip("torchcfm")
    points = [rng.normal(size=(300, 2)) + [3.0 * k, 0.0] for k in range(3)]
    state = np.random.get_state()[1].copy()
    move = _flow.fit_flow(points, np.array([0.0, 2.0, 4.0]), n_batches=600, random_state=0)
    np.testing.assert_array_equal(np.random.get_state()[1], state)
    x = rng.normal(size=(200, 2))
    for stop, shift in ((2.0, 3.0), (4.0, 6.0)):
        assert emd(move(x, 0.0, stop), x + [shift, 0.0]) < 0.25 * shift
    again = _flow.fit_flow(points, np.array([0.0, 2.0, 4.0]), n_batches=600, random_state=0)
    np.testing.assert_array_equal(again(x, 0.0, 2.0), move(x, 0.0, 2.0))
