"""Pictures of the potential: what was drawn is what the energy says."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.contour import ContourSet
from scipy.spatial import cKDTree

import scjko as sj
from scjko.pl._surface import FADED, fade_away


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def _pca():
    from helpers import simulate

    adata = simulate(600)
    sj.tl.fit_energy(adata, "day", n_pcs=4, parametrization=sj.Neural(epochs=60), progress=False)
    return adata


@pytest.fixture
def pca(_pca):
    """A fit in four components."""
    return _pca.copy()


def contours(axes) -> list[ContourSet]:
    return [c for c in axes.collections if isinstance(c, ContourSet)]


def test_level_curves_draw_a_panel_of_contours_for_each_time(fitted):
    panels = sj.pl.level_curves(fitted, times=[0, 3, 7], show=False)
    assert [axes.get_title() for axes in panels] == ["day 0", "day 3", "day 7"]
    levels = []
    for axes in panels:
        filled, lines = contours(axes)
        assert filled.filled and not lines.filled
        np.testing.assert_array_equal(filled.levels, lines.levels)
        levels.append(filled.levels)
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("latent1", "latent2")
        assert len(axes.images) == 1, "the veil over regions without cells"
    np.testing.assert_array_equal(levels[0], levels[1])  # one scale for all times
    bar = panels[0].figure.axes[-1]
    assert bar.get_ylabel() == "potential"


def test_cells_of_a_panel_are_those_of_its_time_or_around_it(fitted):
    measured, between = sj.pl.level_curves(fitted, times=[2, 3], show=False)
    x, day = fitted.obsm["X_jko"], fitted.obs["day"].to_numpy()
    for axes, here in ((measured, day == 2), (between, (day == 2) | (day == 4))):
        (dots,) = [c for c in axes.collections if isinstance(c, PathCollection)]
        drawn = np.asarray(dots.get_offsets())
        assert len(drawn) == here.sum()
        np.testing.assert_allclose(np.sort(drawn[:, 0]), np.sort(x[here, 0]), rtol=1e-6)


def test_a_contour_runs_where_the_potential_has_its_height(fitted):
    axes = sj.pl.level_curves(fitted, times=1, show=False)
    energy, (_, lines) = sj.get.energy(fitted), contours(axes)
    heights = [(level, path.vertices) for level, path in zip(lines.levels, lines.get_paths(), strict=True)]
    scale = np.ptp(lines.levels)
    for level, points in heights:
        if len(points):
            # Lines run straight between points of a grid of 100: half a per cent of the range.
            assert np.median(np.abs(energy.potential(points, 1.0) - level)) < 0.005 * scale


def test_regions_without_cells_are_veiled(fitted):
    axes = sj.pl.level_curves(fitted, times=0, show=False)
    (veil,) = axes.images
    alpha = np.asarray(veil.get_array())[..., 3]
    left, right, bottom, top = veil.get_extent()
    cells = fitted[fitted.obs["day"] == 0].obsm["X_jko"]
    column, row = (((cells - (left, bottom)) / (right - left, top - bottom)) * (np.array(alpha.T.shape) - 1)).T
    assert np.mean(alpha[np.rint(row).astype(int), np.rint(column).astype(int)] < 0.1) > 0.85
    assert np.mean(alpha > 0.85) > 0.5, "the cells of the first day fill a small part of the plane"
    assert not sj.pl.level_curves(fitted, times=0, fade=False, show=False).images


@pytest.mark.parametrize(
    ("options", "told"),
    [({}, "other components at their mean"), ({"others": "cells"}, "other components as in near cells")],
)
def test_the_title_says_what_became_of_the_other_components(pca, options, told):
    figure = sj.pl.level_curves(pca, return_fig=True, **options)
    assert figure.get_suptitle() == told
    _, given = plt.subplots()
    brief = told.replace("other components", "others")
    assert sj.pl.level_curves(pca, times=1, ax=given, **options).get_title() == f"day 1\n{brief}"


def test_other_components_are_where_they_are_said_to_be(pca):
    energy, x = sj.get.energy(pca), pca.obsm["X_jko"].astype(float)
    here = x[pca.obs["day"] == 2]
    axes = sj.pl.level_curves(pca, times=2, components=(2, 4), show=False)
    _, lines = contours(axes)
    assert axes.get_xlabel() == "PC2" and axes.get_ylabel() == "PC4"
    vertices = np.concatenate([p.vertices for p in lines.get_paths()])
    heights = np.concatenate(
        [np.full(len(p.vertices), h) for h, p in zip(lines.levels, lines.get_paths(), strict=True)]
    )
    points = np.tile(here.mean(axis=0), (len(vertices), 1))
    points[:, [1, 3]] = vertices
    assert np.median(np.abs(energy.potential(points, 2.0) - heights)) < 0.005 * np.ptp(lines.levels)


def test_on_an_embedding_the_potential_is_interpolated_and_said_to_be(fitted):
    fitted.obsm["X_umap"] = fitted.obsm["X_latent"] * (2, -3) + 1
    figure = sj.pl.level_curves(fitted, times=1, basis="umap", return_fig=True)
    assert figure.get_suptitle() == "interpolated between cells"
    assert figure.axes[0].get_xlabel() == "UMAP1"
    # Where the embedding is the fitted plane in other units, heights among cells are those of the energy.
    _, lines = contours(figure.axes[0])
    vertices = np.concatenate([path.vertices for path in lines.get_paths()])
    heights = np.concatenate(
        [np.full(len(p.vertices), h) for h, p in zip(lines.levels, lines.get_paths(), strict=True)]
    )
    back = (vertices - 1) / (2, -3)
    cells = fitted[fitted.obs["day"] == 1].obsm["X_jko"]
    among = cKDTree(cells).query(back, k=[5])[0][:, 0] < 0.15
    off = np.abs(sj.get.energy(fitted).potential(back[among], 1.0) - heights[among])
    assert among.sum() > 100 and np.median(off) < 0.05 * np.ptp(lines.levels)  # measured 0.01


def test_superimposed_times_have_their_own_line_style_and_colour(fitted):
    axes = sj.pl.level_curves(fitted, times=[0, 2, 7], superimpose=True, show=False)
    drawn = contours(axes)
    assert len(drawn) == 3 and all(len(lines.levels) == 3 for lines in drawn)
    assert len({tuple(lines.get_edgecolor()[0]) for lines in drawn}) == 3
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["day 0", "day 2", "day 7"]
    assert len({str(lines.get_linestyle()[0]) for lines in drawn}) == 3


def test_cells_are_coloured_by_a_column_or_a_gene_and_options_reach_scanpy(pca):
    axes = sj.pl.level_curves(pca, times=7, color="fate", size=33, show=False)
    (dots,) = [c for c in axes.collections if isinstance(c, PathCollection) and len(c.get_offsets()) > 3]
    assert len(np.unique(dots.get_facecolor(), axis=0)) == 3
    assert set(dots.get_sizes()) == {33}
    assert "fate_colors" not in pca.uns, "scanpy's colours are not written into the user's data"
    gene = sj.pl.level_curves(pca, times=[1, 7], color=pca.var_names[0], show=False)
    assert pca.var_names[0] in [axes.get_xlabel() for axes in gene[0].figure.axes]
    ranges = {c.get_clim() for axes in gene for c in axes.collections if isinstance(c, PathCollection)}
    assert len(ranges) == 1, "one scale of colours for all panels"


def test_labels_of_the_time_column_are_used(fitted):
    fitted.obs["day"] = fitted.obs["day"].map(lambda d: f"Day {d:g}").astype("category")
    panels = sj.pl.level_curves(fitted, times=["Day 0", 0.5], show=False)
    assert [axes.get_title() for axes in panels] == ["Day 0", "day 0.5"]


def test_the_landscape_is_a_surface_with_the_cells_on_it(fitted):
    axes = sj.pl.landscape(fitted, time=2, show=False)
    assert axes.name == "3d" and axes.get_zlabel() == "potential"
    dots = axes.collections[-1]
    x, y, z = (np.asarray(values) for values in dots._offsets3d)
    here = fitted.obsm["X_jko"][fitted.obs["day"] == 2]
    assert len(x) == len(here)
    true = sj.get.energy(fitted).potential(np.stack([x, y], axis=1), 2.0)
    # Dots are raised by a hundredth of the range, so that the surface does not swallow them.
    assert np.abs(z - true).max() < 0.02 * np.ptp(true)
    everything = sj.pl.landscape(fitted, show=False)
    assert len(everything.collections[-1]._offsets3d[0]) == fitted.n_obs
    assert everything.get_title() == "every cell at its own time"


def test_trajectories_start_at_cells_and_end_where_the_energy_takes_them(fitted):
    axes = sj.pl.trajectories(fitted, n_cells=20, show=False)
    (lines,) = [c for c in axes.collections if isinstance(c, LineCollection)]
    pieces = np.asarray(lines.get_segments())
    steps = len(pieces) // 20
    first = fitted.obsm["X_jko"][fitted.obs["day"] == 0]
    starts = pieces[:20, 0]
    assert all(np.isclose(first, start, rtol=1e-5).all(axis=1).any() for start in starts)
    ends = sj.get.energy(fitted).simulate(starts, fitted.uns["jko"]["times"])[-1]
    # Many short steps compose to one step an interval up to 1e-3; the cells are spread over four units.
    np.testing.assert_allclose(pieces[(steps - 1) * 20 :, 1], ends, rtol=0, atol=2e-3)


def test_an_animation_is_written_frame_by_frame(fitted, tmp_path):
    from PIL import Image

    path = tmp_path / "course.gif"
    sj.pl.animation(fitted, path, n_frames=4)
    with Image.open(path) as picture:
        assert picture.n_frames == 4
    with pytest.raises(ValueError, match=r"must end in \.gif or \.mp4"):
        sj.pl.animation(fitted, tmp_path / "course.avi")
    with pytest.raises(FileNotFoundError, match="does not exist"):
        sj.pl.animation(fitted, tmp_path / "nowhere" / "course.gif")


def test_without_ffmpeg_a_film_says_what_is_missing(fitted, tmp_path, monkeypatch):
    from matplotlib import animation

    monkeypatch.setattr(animation.writers, "is_available", lambda name: name != "ffmpeg")
    with pytest.raises(RuntimeError, match="ffmpeg"):
        sj.pl.animation(fitted, tmp_path / "course.mp4")


@pytest.mark.parametrize("n_cells", [20, 80, 2000])
def test_the_veil_begins_where_cells_end_however_many_they_are(rng, n_cells):
    """Of two clusters ten spreads apart, what lies between them is veiled, and they are not."""
    centers = np.array([[-5.0, 0.0], [5.0, 0.0]])
    positions = rng.normal(size=(n_cells, 2)) * 0.5 + centers[np.arange(n_cells) % 2]
    side = np.linspace(-7, 7, 100)
    grid = np.stack([axis.ravel() for axis in np.meshgrid(side, side)], axis=1)
    fading = fade_away(positions, grid)
    assert fading[np.linalg.norm(grid, axis=1) < 2].min() == 1
    for center in centers:
        assert fading[np.linalg.norm(grid - center, axis=1) < 0.4].max() < 0.5


def test_cells_in_one_place_can_be_drawn(adata):
    adata.obsm["X_one"] = np.ones((adata.n_obs, 3))
    sj.tl.fit_energy(adata, "day", use_rep="X_one", parametrization=sj.Neural(epochs=2), progress=False)
    for draw in (sj.pl.level_curves, sj.pl.landscape, sj.pl.trajectories, sj.pl.velocity, sj.pl.predictions):
        drawn = draw(adata, show=False)
        plt.gcf().canvas.draw()
        for axes in np.atleast_1d(drawn):
            # The place is in the picture, which has a size.
            (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
            assert left < 1 < right and bottom < 1 < top


def test_one_component_is_no_plane(adata):
    sj.tl.fit_energy(adata, "day", 1, parametrization=sj.Neural(epochs=2), progress=False)
    with pytest.raises(ValueError, match="has one component that was fitted; a plane to draw on needs two"):
        sj.pl.level_curves(adata)


@pytest.fixture(scope="module")
def _sure():
    from helpers import simulate

    adata = simulate(300)
    kantorovich = sj.Kantorovich(softness=0.05, n_members=2)
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=kantorovich, progress=False)
    return adata


def test_maps_fade_where_the_standard_deviation_exceeds_the_differences_of_height(_sure):
    masks = []
    for std in (0.0, 100.0):
        _sure.obs["jko_potential_std"] = std
        axes = sj.pl.level_curves(_sure, times=[2], show=False)
        (axes,) = axes if isinstance(axes, list) else [axes]
        masks.append(np.asarray(axes.images[0].get_array())[..., 3])
    assert masks[0].min() == 0
    np.testing.assert_allclose(masks[1], FADED)


@pytest.mark.parametrize(("std", "faint"), [(0.0, False), (100.0, True)])
def test_arrows_and_streamlines_are_faint_where_velocities_are_not_known(_sure, std, faint):
    _sure.obsm["jko_velocity_std"] = np.full_like(_sure.obsm["jko_velocity"], std)
    arrows = sj.pl.velocity(_sure, kind="arrows", show=False).collections[-1]
    np.testing.assert_allclose(arrows.get_facecolors()[:, 3], 0.2 if faint else 1.0)
    lines = sj.pl.velocity(_sure, show=False).collections[-1]
    shades = np.asarray(lines.get_array())
    np.testing.assert_allclose(shades, 0.2 if faint else 1.0, atol=1e-6)
