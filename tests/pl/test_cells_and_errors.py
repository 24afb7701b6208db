"""Pictures of cells, of training and of validation."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgba
from matplotlib.patches import FancyArrowPatch
from matplotlib.quiver import Quiver

import scjko as sj
from scjko.core.transport import budget
from scjko.pl._canvas import INTERPOLATED, OBSERVED, PREDICTED


@pytest.fixture(autouse=True)
def _closed():
    yield
    plt.close("all")


def dots(axes) -> dict[str, np.ndarray]:
    return {c.get_label(): np.asarray(c.get_offsets()) for c in axes.collections}


def test_predictions_show_observed_cells_and_one_step_ahead_from_before(fitted):
    panels = sj.pl.predictions(fitted, show=False)
    day, x = fitted.obs["day"].to_numpy(), fitted.obsm["X_jko"]
    assert list(dots(panels[0])) == ["observed"], "nothing is known before the first time"
    for axes, before, after in zip(panels[1:], (0, 1, 2, 4), (1, 2, 4, 7), strict=True):
        drawn = dots(axes)
        np.testing.assert_allclose(drawn["observed"], x[day == after], rtol=1e-6)
        np.testing.assert_allclose(
            drawn["predicted"], fitted.obsm["jko_predicted"][day == before], rtol=1e-4, atol=1e-4
        )
    colours = {c.get_label(): tuple(c.get_facecolor()[0][:3]) for c in panels[1].collections}
    assert colours == {"observed": to_rgba(OBSERVED)[:3], "predicted": to_rgba(PREDICTED)[:3]}
    assert [t.get_text() for t in panels[-1].get_legend().get_texts()] == ["observed", "predicted"]


def test_times_between_are_interpolated_and_beyond_forecast_and_said_to_be(fitted):
    between, beyond = sj.pl.predictions(fitted, times=[3, 8], show=False)
    assert (between.get_title(), beyond.get_title()) == ("day 3\ninterpolated", "day 8\nforecast")
    made = sj.tl.interpolate(fitted, 3)
    np.testing.assert_array_equal(dots(between)["interpolated"], made.obsm["X_jko"])
    assert tuple(between.collections[0].get_facecolor()[0][:3]) == to_rgba(INTERPOLATED)[:3]


def test_predictions_of_one_kind_or_in_one_frame(fitted):
    panels = sj.pl.predictions(fitted, kind="observed", show=False)
    assert all(list(dots(axes)) == ["observed"] for axes in panels)
    axes = sj.pl.predictions(fitted, times=[1, 2], superimpose=True, s=9, show=False)
    assert list(dots(axes)) == ["day 1, observed", "day 1, predicted", "day 2, observed", "day 2, predicted"]
    assert all(set(c.get_sizes()) == {9} for c in axes.collections)
    with pytest.raises(ValueError, match="kind='guessed' is not an option"):
        sj.pl.predictions(fitted, kind="guessed")


def test_couplings_join_coupled_cells(fitted):
    axes = sj.pl.couplings(fitted, times=1, n_pairs=50, show=False)
    lines = np.asarray(axes.collections[-1].get_segments())
    assert lines.shape == (50, 2, 2) and axes.get_title() == "day 1 to day 2"
    day, x = fitted.obs["day"].to_numpy(), fitted.obsm["X_jko"]
    for end, when in ((0, 1), (1, 2)):
        cells = x[day == when]
        assert all(np.isclose(cells, point, rtol=1e-6).all(axis=1).any() for point in lines[:, end])
    # Optimal pairs are shorter than pairs drawn at random.
    shuffled = lines[:, 0] - lines[::-1, 1]
    assert np.sum((lines[:, 0] - lines[:, 1]) ** 2) < 0.7 * np.sum(shuffled**2)


def test_couplings_say_what_is_left_over_and_how_near_the_optimum_they_are(adata, monkeypatch):
    def notes(coupling):
        options = {"parametrization": sj.Neural(epochs=2), "progress": False}
        sj.tl.fit_energy(adata, "day", use_rep="X_latent", coupling=coupling, **options)
        axes = sj.pl.couplings(adata, times=4, show=False)
        return [text.get_text() for text in axes.texts]

    assert notes("exact") == []
    (dropped,) = notes(sj.Partial(price=2))
    share = adata.uns["jko"]["couplings"]["dropped"][-1]
    assert dropped == f"{100 * share:.2g} % uncoupled"
    monkeypatch.setattr(budget, "LARGEST_EXACT", 100)
    (both,) = notes(sj.Partial(price=2, tolerance=0.2))
    assert both.splitlines()[0].endswith("% uncoupled") and both.splitlines()[1].startswith("at most")


def test_couplings_that_were_not_kept_cannot_be_drawn(fitted):
    fitted.uns["jko"]["couplings"]["solver"] = np.array(["ready-made"] * 4)
    with pytest.raises(ValueError, match="ready-made couplings, which it does not keep"):
        sj.pl.couplings(fitted)


def test_history_is_the_loss_by_epoch_with_the_held_out_one_if_there(fitted):
    sj.tl.fit_energy(fitted, "day", use_rep="X_latent", parametrization=sj.Neural(epochs=5), progress=False)
    axes = sj.pl.history(fitted, linewidth=3, show=False)
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), fitted.uns["jko"]["history"]["loss"])
    assert axes.get_yscale() == "log" and axes.lines[0].get_linewidth() == 3
    fitted.uns["jko"]["history"]["held_out_loss"] = fitted.uns["jko"]["history"]["loss"] * 1.1
    labels = [text.get_text() for text in sj.pl.history(fitted, show=False).get_legend().get_texts()]
    assert labels == ["loss", "held out loss"]


def test_a_closed_form_has_no_history(adata):
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization="linear", progress=False)
    with pytest.raises(ValueError, match="solved at once"):
        sj.pl.history(adata)


def test_streamlines_and_arrows_follow_the_velocity(fitted):
    axes = sj.pl.velocity(fitted, show=False)
    assert len([p for p in axes.patches if isinstance(p, FancyArrowPatch)]) > 10
    axes = sj.pl.velocity(fitted, kind="arrows", n_arrows=40, show=False)
    (arrows,) = [c for c in axes.collections if isinstance(c, Quiver)]
    shown = np.linspace(0, fitted.n_obs - 1, 40).astype(int)
    np.testing.assert_allclose(np.stack([arrows.U, arrows.V], axis=1), fitted.obsm["jko_velocity"][shown], rtol=1e-6)
    np.testing.assert_allclose(arrows.get_offsets(), fitted.obsm["X_jko"][shown], rtol=1e-6)


def test_on_an_embedding_velocity_has_to_be_projected_first(fitted):
    fitted.obsm["X_umap"] = fitted.obsm["X_latent"] + 1
    with pytest.raises(KeyError, match=r"run sj\.tl\.velocity_embedding\(adata, 'umap'\)"):
        sj.pl.velocity(fitted, basis="umap")


def test_the_interaction_is_drawn_against_distance(adata):
    options = {"terms": ("potential", "interaction"), "parametrization": sj.Linear(degree=3, n_centers=0)}
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", progress=False, **options)
    kernel, force = sj.pl.interaction(adata, show=False)
    energy = sj.get.energy(adata)
    reach, drawn = (np.asarray(values) for values in kernel.lines[-1].get_data())
    angle = np.linspace(0, 2 * np.pi, 400, endpoint=False)
    around = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    mean = np.array([energy.interaction(r * around).mean() for r in reach])
    # The picture takes 64 random directions.
    assert np.abs(drawn - mean).max() < 0.35 * np.ptp([energy.interaction(r * around) for r in reach])
    assert force.get_ylabel() == "force" and reach[0] > 0


def test_without_an_interaction_there_is_none_to_draw(fitted):
    with pytest.raises(ValueError, match=r"has no interaction.*terms=\('potential', 'interaction'\)"):
        sj.pl.interaction(fitted)


@pytest.fixture
def table() -> pd.DataFrame:
    rows = [
        ("cells", split, time, method, base + 0.1 * split + 0.01 * time)
        for split in range(3)
        for time in (1.0, 2.0, 7.0)
        for method, base in {"scjko": 0.5, "persistence": 1.0, "ot_neighbours": 0.6, "floor": 0.4}.items()
    ]
    return pd.DataFrame(rows, columns=["protocol", "split", "time", "method", "emd"])


def test_validation_draws_means_ranges_and_the_floor(adata, table):
    adata.uns["jko_validation"] = table
    axes = sj.pl.validation(adata, show=False)
    drawn = {c.get_label(): c for c in axes.containers}
    assert list(drawn) == ["scjko", "ot_neighbours", "persistence"]
    line, _, (bars,) = drawn["scjko"]
    np.testing.assert_allclose(line.get_ydata(), [0.61, 0.62, 0.67])
    np.testing.assert_allclose(np.asarray(bars.get_segments())[0][:, 1], [0.51, 0.71])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1", "2", "7"]
    assert "floor" in [text.get_text() for text in axes.get_legend().get_texts()]
    assert axes.get_ylim()[0] == 0


def test_validation_says_what_to_run_and_what_it_is_not(adata):
    with pytest.raises(KeyError, match=r"run sj\.tl\.validate"):
        sj.pl.validation(adata)
    adata.uns["jko_validation"] = {"a": 1}
    with pytest.raises(ValueError, match=r"not the result of sj\.tl\.validate"):
        sj.pl.validation(adata)


def test_energy_over_time_draws_the_median_of_each_group(fitted):
    axes = sj.pl.energy_over_time(fitted, groupby="fate", show=False)
    assert [line.get_label() for line in axes.lines] == list(fitted.obs["fate"].cat.categories)
    for line in axes.lines:
        here = fitted.obs[fitted.obs["fate"] == line.get_label()]
        median = here.groupby("day", observed=True)["jko_potential"].median()
        np.testing.assert_allclose(line.get_xdata(), median.index)
        np.testing.assert_allclose(line.get_ydata(), median, rtol=1e-6)
    assert len({line.get_color() for line in axes.lines}) == len({line.get_marker() for line in axes.lines}) == 3
    assert len(sj.pl.energy_over_time(fitted, show=False).lines) == 1


def test_groups_that_cannot_be_drawn_are_named(fitted):
    with pytest.raises(KeyError, match="No groupby='type' in adata.obs"):
        sj.pl.energy_over_time(fitted, groupby="type")
    fitted.obs["name"] = fitted.obs_names
    with pytest.raises(ValueError, match="more than 30 cannot be distinguished"):
        sj.pl.energy_over_time(fitted, groupby="name")
