"""Tutorials run from top to bottom."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

TUTORIALS = sorted((Path(__file__).parents[2] / "tutorials").glob("*.py"))


@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_runs(path, capsys):
    names = runpy.run_path(str(path))
    # Measured 0.93; the tutorial says that the truth is recovered.
    assert names["correlation"] > 0.85
    assert "correlation of fitted and true potential" in capsys.readouterr().out
