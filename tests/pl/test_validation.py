"""Pictures of a validation by several protocols."""

from __future__ import annotations

import matplotlib.pyplot as plt
import pytest

import scjko as sj


@pytest.fixture
def validated(adata):
    options = {"n_pcs": 2, "parametrization": sj.Linear(degree=2, n_centers=4, ridge=0.1), "n_splits": 1}
    for protocol in ("last", "cells", "times"):
        sj.tl.validate(adata, "day", protocol=protocol, progress=False, **options)
    yield adata
    plt.close("all")


def test_every_protocol_has_a_panel_with_all_its_methods(validated):
    panels = sj.pl.validation(validated, show=False)
    titles = [axes.get_title() for axes in panels]
    assert titles == ["held-out cells, one step ahead", "time points left out", "last time point, forecast"]
    table = validated.uns["jko_validation"]
    for axes, protocol in zip(panels, ("cells", "times", "last"), strict=True):
        drawn = {container.get_label() for container in axes.containers} | {"floor"}
        assert drawn == set(table[table["protocol"] == protocol]["method"])


def test_one_protocol_may_be_chosen(validated):
    assert sj.pl.validation(validated, protocol="last", show=False).get_title() == "last time point, forecast"
    with pytest.raises(ValueError, match="protocol='genes' is not an option; choose one of 'cells', 'times', 'last'"):
        sj.pl.validation(validated, protocol="genes")
    with pytest.raises(ValueError, match="ax must be 3 matplotlib Axes"):
        sj.pl.validation(validated, ax=plt.subplots()[1])
