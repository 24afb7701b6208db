"""The potential over one coordinate, with time running down."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest

import scjko as sj
from scjko.edge.fitted import fitted_cells
from scjko.pl._valley import coordinate, valley


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def test_the_surface_falls_with_time_and_rises_where_no_cells_are(drawable):
    seen = fitted_cells(drawable, "jko")
    found = valley(seen, coordinate(seen, "fate"), 0)
    middle = np.abs(found.s - np.median(found.s)) < 0.2 * np.ptp(found.s)
    along = coordinate(seen, "fate").known
    level = [found.lift(along[seen.times == t], seen.times[seen.times == t]).mean() for t in (0, 1, 2, 4, 7)]
    assert (np.diff(level) < 0).all(), "the mean cell goes down"
    assert found.bare[0, [0, -1]].min() > 0.5, "the first cells are few places"
    assert found.bare[-1, middle].min() == 0
    assert found.heights[0, [0, -1]].min() > found.heights[0, middle].min()


def test_colours_are_the_potential_of_cells_relative_to_the_mean_of_their_time(drawable):
    seen = fitted_cells(drawable, "jko")
    along = coordinate(seen, None)
    found = valley(seen, along, 0)
    last = seen.times == 7
    v = seen.energy.potential(seen.coordinates[last], 7.0)
    bins = np.digitize(along.known[last], found.s[::20])
    truth = np.array([(v - v.mean())[bins == k].mean() for k in np.unique(bins)])
    at = np.array([along.known[last][bins == k].mean() for k in np.unique(bins)])
    drawn = np.interp(at, found.s, found.potential[-1])
    assert np.corrcoef(truth, drawn)[0, 1] > 0.9  # the kernel evens out the ends


def test_the_direction_separates_the_groups(drawable):
    seen = fitted_cells(drawable, "jko")
    last = (seen.times == 7) & (drawable.obs["fate"] != "fate 2").to_numpy()
    own = coordinate(seen, "fate").known[last]
    one = (drawable.obs["fate"] == "fate 1").to_numpy()[last]
    apart = abs(own[one].mean() - own[~one].mean()) / np.sqrt(own[one].var() + own[~one].var())
    assert apart > 2


def test_cells_paths_and_wells_are_on_it(drawable):
    axes = sj.pl.waddington(drawable, "fate", n_paths=4, show=False)
    (cells,) = [c for c in axes.collections if hasattr(c, "_offsets3d")]
    assert len(cells._offsets3d[0]) == pytest.approx(drawable.n_obs, abs=5)  # without the far ones
    wells = drawable.uns["jko_landscape"]["wells"]
    marks = [line for line in axes.lines if line.get_marker() == "o"]
    assert len(marks) == len(wells["time"])
    paths = [
        line for line in axes.lines if line.get_marker() in (None, "None", "") and len(line.get_data_3d()[0]) == 120
    ]
    assert len(paths) == 4
    plain = sj.pl.waddington(drawable, wells=False, cells=False, n_paths=0, show=False)
    assert len(plain.lines) == 2 and axes.get_ylim() == (0, 7)


def test_numbers_and_genes_are_coordinates_too(drawable):
    drawable.obs["score"] = drawable.obsm["X_latent"][:, 0]
    seen = fitted_cells(drawable, "jko")
    along = coordinate(seen, "score")
    carried = along(seen.coordinates.astype(float))  # to points by the cells near them
    assert np.corrcoef(carried, along.known)[0, 1] > 0.98
    assert sj.pl.waddington(drawable, "score", color="score", show=False).get_xlabel() == "score"


def test_what_cannot_be_drawn_is_named(drawable):
    with pytest.raises(KeyError, match="nonsense"):
        sj.pl.waddington(drawable, "nonsense")
    drawable.obs["one"] = "same"
    with pytest.raises(ValueError, match="coordinate='one' has one group at the last time point"):
        sj.pl.waddington(drawable, "one")
    with pytest.raises(ValueError, match="one time point only"):
        sj.pl.waddington(drawable[drawable.obs["day"] == 7].copy())
    del drawable.uns["jko_landscape"]
    with pytest.raises(KeyError, match=r"run sj\.tl\.landscape"):
        sj.pl.waddington(drawable, wells=True)
