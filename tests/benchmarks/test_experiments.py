"""The experiments: that they run, show what the paper says they show, and do no work twice."""

from __future__ import annotations

import json
import logging

import matplotlib.image
import numpy as np
import pandas as pd
import pytest

from scjko import benchmarks
from scjko.benchmarks import _grid, couplings, embryoid, failure_modes, general, lightspeed, scaling, time_varying
from scjko.benchmarks._trial import MODELS
from scjko.cli.main import main


@pytest.fixture
def few_particles(monkeypatch):
    """Half as many particles in every trial."""

    def halved(trial):
        return lambda *args, n_particles, **cell: trial(*args, n_particles=n_particles // 2, **cell)

    for module in (lightspeed, failure_modes, general):
        monkeypatch.setattr(module, "trial", halved(module.trial))


def test_every_model_learns_a_potential(tmp_path, few_particles):
    """All four on a potential of sines; none NaN, each far better than no move, files as the docs say."""
    frame = lightspeed.run(tmp_path, functionals=["oakley_ohagan"], progress=False)
    assert list(frame["model"]) == list(MODELS)
    # The third to twentieth of a full training: far from converged, and yet far better than nothing.
    assert (frame["emd"] < 0.5 * frame["emd_no_move"]).all()
    assert (frame[["seconds", "seconds_per_epoch", "emd_std"]] > 0).all(axis=None)
    neural = frame.set_index("model").loc["jkonet_star_potential"]
    assert len(neural["losses"]) == neural["epochs"] == 50
    written = pd.read_csv(tmp_path / "lightspeed.csv")
    np.testing.assert_allclose(written["emd"], frame["emd"])
    assert matplotlib.image.imread(tmp_path / "lightspeed.png")[..., :3].std() > 0.05
    shown = lightspeed.table(frame)
    assert shown.loc["oakley_ohagan", "reference"] == 0.0328
    assert shown.loc["geometric mean", "jkonet_star"] == pytest.approx(frame["emd"][1])


def test_what_is_finished_is_not_computed_again(tmp_path, monkeypatch):
    options = {"functionals": ["sphere"], "models": ["jkonet_star_linear_potential"], "progress": False}
    first = lightspeed.run(tmp_path, **options)
    monkeypatch.setattr(lightspeed, "generate", None)
    pd.testing.assert_frame_equal(lightspeed.run(tmp_path, **options), first)


def test_an_interrupt_keeps_what_was_finished(tmp_path):
    def compute(cell):
        if cell == 2:
            raise KeyboardInterrupt
        return {"value": 10 * cell}

    cells = [{"cell": k} for k in range(4)]
    with pytest.raises(KeyboardInterrupt):
        _grid.run_grid("grid", cells, compute, tmp_path, progress=False)
    calls = []
    frame = _grid.run_grid("grid", cells, lambda cell: calls.append(cell) or {"value": 10 * cell}, tmp_path)
    assert calls == [2, 3]
    assert list(frame["value"]) == [0, 10, 20, 30]


@pytest.mark.parametrize("content", ['{"version": "0.0.0", "finished": {"{}": [{"value": 1}]}}', "[1, 2", "[]"])
def test_results_of_another_version_are_computed_anew(tmp_path, caplog, content):
    (tmp_path / "grid.json").write_text(content)
    with caplog.at_level(logging.WARNING, "scjko"):
        frame = _grid.run_grid("grid", [{}], lambda: {"value": 2}, tmp_path, progress=False)
    assert list(frame["value"]) == [2]
    assert "grid.json was written by" in caplog.text and "computed anew" in caplog.text
    assert json.loads((tmp_path / "grid.json").read_text())["finished"] == {"{}": [{"value": 2}]}


def test_the_four_panels_show_what_the_paper_says():
    """Explicit needs more observations; an implicit loss with an explicit prediction is late; implicit is right."""
    frame = pd.DataFrame([{"panel": p, **row} for p in time_varying.PANELS for row in time_varying.trial(p, 50)])
    shown = time_varying.table(frame)
    few, many, shifted, right = shown["mean error"]
    assert few > 0.1 and shifted > 0.1
    assert many < few / 3
    assert right < 1e-3
    assert list(shown["pauses from"]) == ["0.2, 0.7", "0.2, 0.7", "0.3, 0.8", "0.2, 0.7"]


def test_failure_modes_are_told(few_particles):
    frame = failure_modes.run(progress=False).set_index("case")
    assert list(frame["told_apart"].iloc[:2]) == [False, True]
    field = frame.loc[failure_modes.NO_GRADIENT]
    # Populations are predicted although single particles are not, and by no potential could be.
    assert field["relative_error"] > 0.3 and field["best_error"] > 0.3
    assert field["emd"] < 0.6 * field["emd_no_move"]


def test_the_variance_of_the_gaussian_example_solves_its_equation():
    t, h = 0.7, 1e-5
    slope = (failure_modes.variance(t + h) - failure_modes.variance(t - h)) / (2 * h)
    assert slope == pytest.approx(2 * failure_modes.ALPHA * failure_modes.variance(t) + 2 * failure_modes.BETA)


def test_more_particles_and_fewer_dimensions_are_easier():
    options = {"models": ["jkonet_star_potential"], "functionals": ["watershed"], "progress": False}
    shown = scaling.table(scaling.run(**options, n_particles=[100, 250], n_dims=[2, 5]))
    neural = shown.loc[("jkonet_star_potential", "watershed")]
    assert neural.loc[250, 2] < neural.loc[100, 2] < neural.loc[100, 5]


def test_the_error_of_the_closed_form_grows_sublinearly_where_coordinates_do_not_mix():
    """Less than five times the error in five times as many dimensions, and nearly none for a quartic."""
    options = {"models": ["jkonet_star_linear_potential"], "functionals": ["styblinski_tang", "flowers"]}
    frame = scaling.run(**options, n_particles=[300], n_dims=[4, 20], progress=False)
    shown = scaling.table(frame).droplevel([0, 2])
    assert (shown[20] < 5 * shown[4]).all()
    assert shown.loc["styblinski_tang", 20] < 1e-5


def test_general_energies_are_fitted(tmp_path, few_particles):
    frame = general.run(
        tmp_path, models=["jkonet_star_linear"], combinations=[("flowers", "oakley_ohagan")], betas=[0, 0.2]
    )
    assert (frame["emd"] < 0.5 * frame["emd_no_move"]).all()
    assert (frame["beta_fitted"] >= 0).all()
    assert frame["force_correlation"].between(-1, 1).all()
    assert general.table(frame).loc[("jkonet_star_linear", "all"), "paper's median"] == 0.104
    assert (tmp_path / "general.png").exists()


def test_pairs_have_every_potential_and_no_holder_table_as_interaction():
    pairs = general.pairs()
    assert [v for v, _ in pairs] == list(benchmarks.functionals)
    assert "holder_table" not in {u for _, u in pairs} and all(v != u for v, u in pairs)


def test_the_force_correlation_ignores_a_common_push(rng):
    force = rng.normal(size=(50, 2))
    assert general.correlation(3 * force + [1, 2], force) == pytest.approx(1)
    assert np.isnan(general.correlation(force, np.zeros((50, 2))))


def test_entropic_couplings_are_less_exact(mixed_ranks):
    frame = couplings.run(functionals=["oakley_ohagan"], n_particles=[60], epsilons=[None, 0.01, 1.0], progress=False)
    exact, little, much = frame["emd"]
    assert exact < little < much
    assert list(frame["solver"]) == ["exact", "sinkhorn, ε = 0.01", "sinkhorn, ε = 1"]


def test_a_coupling_that_does_not_converge_is_a_row_of_its_own(monkeypatch):
    def fail(*args, **options):
        raise RuntimeError("The Sinkhorn coupling did not converge")

    monkeypatch.setattr(couplings, "fit_model", fail)
    frame = couplings.run(functionals=["sphere"], n_particles=[20], epsilons=[1e-9], progress=False)
    assert not frame["converged"][0] and np.isnan(frame["emd"][0])


def test_the_command_line_prints_a_table_and_says_where_things_are(tmp_path, capsys):
    assert main(["bench", "time-varying", "-o", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "implicit loss, implicit prediction" in printed
    for kind in ("csv", "png", "json"):
        assert str(tmp_path / f"time-varying.{kind}") in printed
        assert (tmp_path / f"time-varying.{kind}").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["warp"], "lightspeed"),
        (
            ["lightspeed", "--functionals", "cube"],
            "functionals='cube' is not an option; choose one of 'styblinski_tang'",
        ),
        (["lightspeed", "--models", "gpt"], "'jkonet_star'"),
        (["general", "--n-dims", "3"], "general takes no --n-dims"),
        (["lightspeed", "--quick", "--full"], "not allowed with"),
        (["lightspeed", "--n-seeds", "0"], "n_seeds=0 is too small"),
        (["embryoid", "--path", "nowhere.npz"], "error: There is no file 'nowhere.npz'"),
        (["scaling", "--functionals", "ishigami", "--n-dims", "1"], "ishigami needs at least 2 dimensions"),
    ],
)
def test_bad_arguments_are_named(tmp_path, capsys, arguments, said):
    with pytest.raises(SystemExit) as stop:
        main(["bench", *arguments, "-o", str(tmp_path)])
    assert stop.value.code == 2
    assert said in capsys.readouterr().err


def test_results_of_another_file_are_other_results(tmp_path, rng):
    means = []
    for name, spread in (("one", 1.0), ("two", 5.0)):
        labels = np.repeat(np.arange(5), 20)
        np.savez(tmp_path / name, pcs=spread * rng.normal(size=(100, 5)), sample_labels=labels)
        with np.load(tmp_path / f"{name}.npz"):
            frame = embryoid.run(tmp_path / "out", path=tmp_path / f"{name}.npz", progress=False)
        means.append(frame["emd"].mean())
    assert means[0] != means[1]
    assert "persistence" in embryoid.table(frame).index


def test_a_folder_that_cannot_be_written_is_said_before_any_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(lightspeed, "generate", None)
    (tmp_path / "file").touch()
    with pytest.raises(SystemExit):
        main(["bench", "lightspeed", "-o", str(tmp_path / "file")])
    assert f"cannot write to {tmp_path / 'file'}" in capsys.readouterr().err
