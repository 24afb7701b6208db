"""The command line for pipelines: from file to file."""

from __future__ import annotations

import functools
import hashlib
import json
import subprocess
import sys
import warnings

import anndata
import numpy as np
import pandas as pd
import pytest
from helpers import simulate

import scjko as sj
from scjko.cli.main import main
from scjko.edge.storage import files

FIT = ["--time-key", "day", "--n-pcs", "3", "--parametrization", "neural", "--epochs", "5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with an h5ad file and a zarr store of the same cells."""
    path = tmp_path_factory.mktemp("files")
    adata = simulate(300)
    adata.write_h5ad(path / "cells.h5ad")
    adata.write_zarr(path / "cells.zarr")
    return path


def fingerprint(path) -> str:
    parts = sorted(path.rglob("*")) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(part.read_bytes() for part in parts if part.is_file())).hexdigest()


def fails(arguments, capsys) -> str:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
def test_fit_predict_and_validate_from_file_to_file(folder, tmp_path, capsys, kind):
    source, fitted, made = folder / f"cells.{kind}", tmp_path / f"fit.{kind}", tmp_path / f"day3.{kind}"
    before = fingerprint(source)
    assert main(["fit", str(source), *FIT, "-o", str(fitted)]) == 0
    assert str(fitted) in capsys.readouterr().out
    assert main(["predict", str(fitted), "--time", "3", "-o", str(made)]) == 0
    between = tmp_path / f"between.{kind}"
    assert main(["predict", str(fitted), "--time", "3", "--interpolate", "-o", str(between)]) == 0
    errors = tmp_path / "errors.csv"
    assert main(["validate", str(source), *FIT, "--n-splits", "1", "-o", str(errors)]) == 0
    said = capsys.readouterr()
    assert "fitted energy" in said.out and "fitted energy" not in said.err, "the verdict is said once"
    assert fingerprint(source) == before, "the input is never changed"
    assert set(pd.read_csv(errors)["method"]) >= {"scjko", "persistence", "floor"}

    here = sj.tl.fit_energy(
        files.read(source), "day", 3, parametrization=sj.Neural(epochs=5), progress=False, copy=True
    )
    np.testing.assert_array_equal(files.read(fitted).obsm["jko_predicted"], here.obsm["jko_predicted"])
    np.testing.assert_array_equal(files.read(made).obsm["X_jko"], sj.tl.predict(here, 3).obsm["X_jko"])
    assert set(files.read(between).obs["jko_side"]) == {"before", "after"}


def test_the_output_opens_in_a_new_process(folder, tmp_path):
    out = tmp_path / "fit.h5ad"
    assert main(["fit", str(folder / "cells.h5ad"), *FIT, "-o", str(out)]) == 0
    code = f"import anndata, scjko as sj; print(sj.get.energy(anndata.read_h5ad({str(out)!r})).n_dims)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "3"


def test_json_gives_one_object_to_a_line(folder, tmp_path, capsys):
    assert main(["fit", str(folder / "cells.h5ad"), *FIT, "-o", str(tmp_path / "fit.h5ad"), "--json"]) == 0
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert result["command"] == "fit" and result["n_cells"] == 300 and len(result["times"]) == 5
    logs = [json.loads(line) for line in err.splitlines()]
    assert all({"time", "level", "message"} <= set(log) for log in logs)
    assert any("Coupling 4 intervals" in log["message"] for log in logs)
    with pytest.raises(SystemExit):
        main(["fit", "nothing.h5ad", *FIT, "-o", str(tmp_path / "other.h5ad"), "--json"])
    assert "there is no file" in json.loads(capsys.readouterr().err.splitlines()[-1])["error"]


def test_warnings_are_json_too_and_of_formats_there_are_none(folder, tmp_path, capsys, monkeypatch):
    fit = sj.tl.fit_energy
    monkeypatch.setattr(
        sj.tl, "fit_energy", lambda *args, **options: (warnings.warn("look out", stacklevel=1), fit(*args, **options))
    )
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        assert main(["fit", str(folder / "cells.zarr"), *FIT, "-o", str(tmp_path / "fit.zarr"), "--json"]) == 0
    logs = [json.loads(line)["message"] for line in capsys.readouterr().err.splitlines()]
    # Newer versions of pandas and anndata may warn of each other too.
    assert sum("UserWarning: look out" in log for log in logs) == 1
    assert not any("zarr v2" in log for log in logs)


def test_an_interrupt_is_one_line(folder, tmp_path, capsys, monkeypatch):
    def stopped(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(sj.tl, "fit_energy", stopped)
    with pytest.raises(SystemExit) as stop:
        main(["fit", str(folder / "cells.h5ad"), *FIT, "-o", str(tmp_path / "fit.h5ad")])
    assert stop.value.code == 130
    assert capsys.readouterr().err == "scjko fit: error: interrupted\n"
    assert not list(tmp_path.iterdir())


@pytest.fixture
def options_of(folder, monkeypatch):
    """The options that reach a fit or a validation for some flags; nothing is fitted."""

    def found(*flags, command="fit", source="cells.h5ad"):
        seen = {}

        def told(adata, time_key, **options):
            seen.update(options)
            raise ValueError("nothing is fitted")

        output = ["-o", str(folder / "never.h5ad")] if command == "fit" else []
        name = {"fit": "fit_energy"}.get(command, command)
        with monkeypatch.context() as patch, pytest.raises(SystemExit):
            # The signature stays: it says which options there are.
            patch.setattr(sj.tl, name, functools.wraps(getattr(sj.tl, name))(told))
            main([command, str(folder / source), "--time-key", "day", *map(str, flags), *output])
        return seen

    return found


def test_any_option_of_a_fit_and_of_its_objects_can_be_set(options_of):
    network = options_of(
        "--parametrization", "neural", "--epochs", 5, "--set", "layers=[8, 8]", "--set", "time-label=target"
    )
    assert network["parametrization"] == sj.Neural(epochs=5, layers=(8, 8), time_label="target")
    closed = options_of("--parametrization", "linear", "--set", "ridge=0.01", "--set", "time_varying=smooth")
    assert closed["parametrization"] == sj.Linear(ridge=0.01)
    assert closed["time_varying"] == "smooth"
    assert options_of("--memory-limit", 2)["coupling"] == sj.Auto(memory_limit=2)
    entropic = options_of("--coupling", "sinkhorn", "--set", "epsilon=0.05", "--memory-limit", 3)
    assert entropic["coupling"] == sj.Sinkhorn(epsilon=0.05, memory_limit=3)
    assert options_of("--coupling", "batched", "--set", "size=500")["coupling"] == sj.Batched(size=500)
    assert options_of("--coupling", "partial", "--set", "price=3")["coupling"] == sj.Partial(price=3)
    terms = ["--terms", "potential", "interaction", "internal"]
    made = options_of(*terms, "--set", "even=true", "--set", "n_components=3")["terms"]
    assert made == ("potential", sj.Interaction(even=True), sj.Internal(n_components=3))
    plain = options_of(*terms, "--whiten", "--set", 'time_values={"a": 1}')
    assert plain["terms"] == terms[1:] and plain["whiten"] is True and plain["time_values"] == {"a": 1}
    assert not {"parametrization", "coupling", "whiten"} & set(options_of())


def test_what_is_set_is_recorded(folder, tmp_path):
    out = tmp_path / "fit.h5ad"
    flags = ["--set", "layers=[8, 8]", "--memory-limit", "2", "--whiten"]
    assert main(["fit", str(folder / "cells.h5ad"), *FIT, *flags, "-o", str(out)]) == 0
    params = sj.get.params(anndata.read_h5ad(out))
    assert params["parametrization"].layers == (8, 8) and params["parametrization"].epochs == 5
    assert params["coupling"].memory_limit == 2 and params["whiten"]


def test_validate_takes_the_options_of_the_fit_in_the_file(folder, tmp_path, capsys, options_of):
    out = folder / "linear.h5ad"
    flags = ["--parametrization", "linear", "--set", "n_centers=4", "--set", "degree=2", "--n-pcs", "2"]
    assert main(["fit", str(folder / "cells.h5ad"), "--time-key", "day", *flags, "-o", str(out), "--force"]) == 0
    capsys.readouterr()
    for protocol in ("cells", "times", "last"):
        errors = tmp_path / f"{protocol}.json"
        arguments = ["--protocol", protocol, "--n-splits", "1", "--json", "-o", str(errors)]
        assert main(["validate", str(out), *arguments]) == 0
        printed = capsys.readouterr()
        result = json.loads(printed.out)
        assert result["protocol"] == protocol and "itted energy" in result["verdict"]
        assert set(result["emd"]) == {row["method"] for row in json.loads(errors.read_text())}
        assert "2 components of obsm['X_pca'] are validated" in printed.err
    # An option of an object goes into that of the fit.
    assert options_of("--set", "ridge=0.5", command="validate", source="linear.h5ad")["parametrization"] == sj.Linear(
        degree=2, n_centers=4, ridge=0.5
    )
    said = fails(["validate", out, "--epochs", "5"], capsys)
    assert "--epochs 5: it belongs to --parametrization neural, and this fit has --parametrization linear" in said
    assert options_of("--no-fit", "--n-pcs", 5, command="validate", source="linear.h5ad")["key"] is None
    assert "validate needs --time-key" in fails(["validate", folder / "cells.h5ad"], capsys)


def test_what_is_wrong_is_said_in_one_line_with_exit_code_2(folder, tmp_path, capsys):
    cells, out = folder / "cells.h5ad", tmp_path / "fit.h5ad"
    (tmp_path / "text.h5ad").write_text("no AnnData")
    (tmp_path / "there.h5ad").write_text("precious")
    for arguments, said in (
        (["fit", "nothing.h5ad", *FIT, "-o", out], "there is no file nothing.h5ad"),
        (["fit", tmp_path / "text.h5ad", *FIT, "-o", out], "is not an AnnData file"),
        (["fit", cells, *FIT, "-o", tmp_path / "there.h5ad"], "is there already; --force replaces it"),
        (["fit", cells, *FIT, "-o", cells, "--force"], "is the input, which is never changed"),
        (["fit", cells, *FIT, "-o", tmp_path / "fit.txt"], "must end in .h5ad or .zarr"),
        (["fit", cells, *FIT, "-o", tmp_path / "no" / "fit.h5ad"], "does not exist"),
        (["fit", cells, "--time-key", "hour", "-o", out], "No --time-key 'hour' in adata.obs"),
        (
            ["fit", cells, "--time-key", "day", "--n-pcs", "99", "-o", out],
            "error: --n-pcs 99, but obsm['X_pca'] has 10",
        ),
        (["fit", cells, *FIT, "--memory-limit", "1e-9", "-o", out], "the smallest --memory-limit that works is 0.001"),
        (["fit", cells, *FIT, "--set", "speed=3", "-o", out], "--set speed=3: give NAME=VALUE"),
        (
            ["fit", cells, *FIT, "--set", "ridge=0.01", "-o", out],
            "--set ridge=0.01: it belongs to --parametrization linear, and this fit has --parametrization neural",
        ),
        (
            ["fit", cells, *FIT, "--set", "epsilon=0.1", "-o", out],
            "--set epsilon=0.1: it belongs to --coupling sinkhorn, and this fit has --coupling auto",
        ),
        (
            ["fit", cells, *FIT, "--set", "even=true", "-o", out],
            "it belongs to --terms interaction, which is not among the terms: potential",
        ),
        (
            ["fit", cells, "--time-key", "day", "--parametrization", "neural", "--epochs", "0", "-o", out],
            "error: --epochs 0 is too small",
        ),
        (["fit", cells, *FIT, "--set", "layers=8", "-o", out], "layers must be a list, not 8"),
        (["fit", cells, *FIT, "--set", "n_pcs=3", "-o", out], "it has a flag of its own, --n-pcs"),
        (["fit", cells, *FIT, "--set", "key_added=mine", "-o", out], "it has a flag of its own, --key-added"),
        (["fit", folder / "cells.zarr", *FIT, "-o", folder / "cells.zarr" / "in.zarr"], "lies in the input"),
        (["predict", cells, "--time", "3", "-o", out], "No fitted energy at adata.uns['jko']"),
        (["predict", cells, "--interpolate", "-o", out], "--interpolate needs --time"),
        (["validate", cells, *FIT, "-o", tmp_path / "errors.txt"], "must end in .csv or .json"),
    ):
        assert said in fails(arguments, capsys)
    assert (tmp_path / "there.h5ad").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.h5ad", "there.h5ad"], "nothing is left behind"


@pytest.mark.parametrize(("command", "name"), [("fit", "fit.h5ad"), ("validate", "errors.csv")])
def test_a_folder_that_cannot_be_written_to_is_said_before_anything_is_computed(
    folder, tmp_path, capsys, monkeypatch, command, name
):
    def refused(dir):
        raise PermissionError(13, "Permission denied", dir)

    monkeypatch.setattr(files.tempfile, "TemporaryFile", refused)
    monkeypatch.setattr(files, "read", lambda path: pytest.fail("it began to read"))
    said = fails([command, folder / "cells.h5ad", *FIT, "-o", tmp_path / name], capsys)
    assert f"the folder {tmp_path} cannot be written to (Permission denied)" in said


def test_paths_are_not_taken_for_flags(tmp_path, capsys):
    (tmp_path / "n_pcs").mkdir()
    path = tmp_path / "n_pcs" / "time_key.h5ad"
    assert f"there is no file {path}\n" in fails(["fit", path, *FIT, "-o", tmp_path / "fit.h5ad"], capsys)


def test_force_replaces_files_and_stores(folder, tmp_path):
    for kind in files.ENDINGS:
        out = tmp_path / f"fit{kind}"
        for _ in range(2):
            assert main(["fit", str(folder / "cells.h5ad"), *FIT, "-o", str(out), "--force"]) == 0
        assert "jko" in files.read(out).uns


def test_a_folder_that_is_no_store_is_not_replaced(folder, tmp_path, capsys):
    precious = tmp_path / "precious.zarr"
    precious.mkdir()
    (precious / "notes.txt").write_text("precious")
    said = fails(["fit", folder / "cells.h5ad", *FIT, "-o", precious, "--force"], capsys)
    assert "is a folder, but no zarr store; it is not replaced" in said
    assert (precious / "notes.txt").read_text() == "precious"


def test_help_explains(capsys):
    for command in ("fit", "validate", "predict"):
        with pytest.raises(SystemExit) as stop:
            main([command, "--help"])
        assert stop.value.code == 0
        assert "never changed" in " ".join(capsys.readouterr().out.split())
