"""The command line."""

from __future__ import annotations

import anndata
import matplotlib.image
import pytest

import scjko as sj
from scjko.cli.main import main


def test_demo_writes_what_it_says(tmp_path, capsys):
    assert main(["demo", "-o", str(tmp_path / "out"), "--n-cells", "400"]) == 0
    printed = capsys.readouterr().out
    for name in ("fit.h5ad", "report.html", "level_curves.png", "landscape.png", "recovery.png"):
        assert str(tmp_path / "out" / name) in printed
    assert "correlation of fitted and true potential" in printed
    energy = sj.get.energy(anndata.read_h5ad(tmp_path / "out" / "fit.h5ad"))
    assert energy.n_dims == 5
    picture = matplotlib.image.imread(tmp_path / "out" / "landscape.png")
    assert picture[..., :3].std() > 0.1, "the picture is blank"


def test_an_unknown_command_lists_the_commands(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["fly"])
    assert stop.value.code == 2
    assert "demo" in capsys.readouterr().err


def test_what_cannot_be_done_is_said_without_a_traceback(tmp_path, capsys):
    (tmp_path / "file").touch()
    for arguments, said in (
        (["demo", "--n-cells", "3"], "at least 100 cells"),
        (["demo", "-o", str(tmp_path / "file")], "cannot write to"),
    ):
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        assert stop.value.code == 2
        assert said in capsys.readouterr().err
