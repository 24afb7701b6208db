"""The tree of wells and their marks on maps."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from helpers import simulate

import scjko as sj


@pytest.fixture(scope="module")
def _charted():
    adata = simulate(400)
    kantorovich = sj.Kantorovich(n_members=1, softness=0.05)
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", coupling="partial", parametrization=kantorovich, progress=False)
    sj.tl.landscape(adata, [4, 7], cluster_key="fate", paths=False)
    return adata


@pytest.fixture
def charted(_charted):
    yield _charted.copy()
    plt.close("all")


def test_the_tree_has_every_well_at_its_height_and_every_join_at_its_pass(charted):
    wells = charted.uns["jko_landscape"]["wells"]
    rows = np.flatnonzero(wells["time"] == 7)
    axes = sj.pl.barriers(charted, show=False)
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert sorted(float(dot.get_ydata()[0]) for dot in dots) == pytest.approx(sorted(wells["height"][rows]))
    joins = [line for line in axes.lines if len(line.get_xdata()) == 4]
    assert len(joins) == len(rows) - 1
    saddles = charted.uns["jko_landscape"]["saddles"]
    passes = saddles["height"][saddles["time"] == 7]
    assert {round(float(line.get_ydata()[1]), 9) for line in joins} <= {round(float(h), 9) for h in passes}
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert len(labels) == len(rows) and all("cells" in label for label in labels)
    assert axes.get_title() == "day 7"


def test_errors_are_drawn_where_there_are_any(charted):
    charted.uns["jko_landscape"]["wells"]["error"][:] = 0.1
    plain = len(sj.pl.barriers(charted, 4, show=False).collections)
    assert plain >= 2


def test_wells_are_marked_on_the_panels_of_their_time(charted):
    wells = charted.uns["jko_landscape"]["wells"]
    panels = sj.pl.level_curves(charted, [2, 7], wells=True, show=False)
    marks = [sum(line.get_marker() == "o" for line in axes.lines) for axes in panels]
    assert marks == [0, int((wells["time"] == 7).sum())]
    on_embedding = sj.pl.level_curves(charted, 7, basis="X_pca", wells=True, show=False)
    assert sum(line.get_marker() == "o" for line in on_embedding.lines) == marks[1]


def test_bad_input_is_named(charted):
    with pytest.raises(ValueError, match="not one of the landscape"):
        sj.pl.barriers(charted, 2, show=False)
    with pytest.raises(ValueError, match="superimpose"):
        sj.pl.level_curves(charted, wells=True, superimpose=True, show=False)
    del charted.uns["jko_landscape"]
    with pytest.raises(KeyError, match=r"sj\.tl\.landscape"):
        sj.pl.barriers(charted, show=False)
