"""``tl.predict``: which cells are moved, where to, and what is said about it."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from helpers import assert_same

import scjko as sj
from scjko.core.judging.metrics import emd

QUICK = {"parametrization": sj.Neural(epochs=3), "progress": False}


def test_by_default_every_cell_is_moved_to_the_next_snapshot(fitted):
    predicted = sj.tl.predict(fitted)
    np.testing.assert_array_equal(predicted.obs["jko_source"], fitted.obs_names)
    np.testing.assert_allclose(predicted.obsm["X_jko"], fitted.obsm["jko_predicted"], rtol=1e-6)
    np.testing.assert_array_equal(predicted.obs["jko_forecast"], fitted.obs["jko_forecast"])
    after = {0: 1, 1: 2, 2: 4, 4: 7, 7: 10}
    np.testing.assert_array_equal(predicted.obs["day"], fitted.obs["day"].map(after))
    assert predicted.obs["jko_converged"].all() and predicted.obs_names.is_unique


def test_a_time_is_predicted_from_the_last_snapshot_before_it(fitted):
    energy = sj.get.energy(fitted)
    for time, source in ((1, 0), (1.5, 1), (2, 1), (7, 4), (9, 7)):
        predicted = sj.tl.predict(fitted, time)
        assert set(predicted.obs["jko_source_time"]) == {source}
        x = fitted.obsm["X_jko"][fitted.obs["day"] == source]
        np.testing.assert_array_equal(predicted.obsm["X_jko"], energy.step(x, source, time))
        assert (predicted.obs["jko_forecast"] == (time > 7)).all()


def test_a_source_further_back_chains_steps(fitted):
    energy = sj.get.energy(fitted)
    x = fitted.obsm["X_jko"][fitted.obs["day"] == 0]
    predicted = sj.tl.predict(fitted, 4, source=0)
    np.testing.assert_array_equal(predicted.obsm["X_jko"], energy.step(x, 0, 4))
    back = sj.tl.predict(fitted, 2, source=7)
    assert set(back.obs["day"]) == {2} and set(back.obs["jko_source_time"]) == {7}


def test_chained_predictions_reach_the_right_population(fitted):
    """From the first snapshot to the last through every interval, far better than not moving."""
    last = fitted.obsm["X_jko"][fitted.obs["day"] == 7]
    first = fitted.obsm["X_jko"][fitted.obs["day"] == 0]
    predicted = sj.tl.predict(fitted, 7, source=0).obsm["X_jko"]
    assert emd(predicted, last) < 0.2 * emd(first, last)


def test_the_scheme_can_be_asked_for(fitted):
    forward, proximal = sj.tl.predict(fitted, 1), sj.tl.predict(fitted, 1, scheme="implicit")
    difference = np.abs(forward.obsm["X_jko"] - proximal.obsm["X_jko"])
    # Both end where the next snapshot is, by different ways.
    assert 1e-4 < difference.mean() < 0.2
    np.testing.assert_array_equal(sj.tl.predict(fitted, 1, scheme="explicit").obsm["X_jko"], forward.obsm["X_jko"])


def test_cells_that_were_not_fitted_are_predicted(adata):
    train, test = adata[::2].copy(), adata[1::2].copy()
    sj.tl.fit_energy(train, "day", 4, whiten=True, **QUICK)
    test.uns["jko"] = train.uns["jko"]
    predicted = sj.tl.predict(test, 1)
    first = test[test.obs["day"] == 0].obsm["X_pca"][:, :4]
    whitening = train.uns["jko"]["whitening"]
    white = ((first - whitening["mean"]) / whitening["std"]).astype(np.float32)
    np.testing.assert_array_equal(predicted.obsm["X_jko"], sj.get.energy(train).step(white, 0, 1))


def test_coordinates_of_another_fit_are_not_taken_for_these(adata):
    train, test = adata[::2].copy(), adata[1::2].copy()
    sj.tl.fit_energy(train, "day", 4, whiten=True, **QUICK)
    sj.tl.fit_energy(test, "day", 4, **QUICK)
    test.uns["jko"] = train.uns["jko"]
    with pytest.raises(ValueError, match="of another fit"):
        sj.tl.predict(test, 1)


def test_a_time_up_to_rounding_is_that_time(fitted):
    assert set(sj.tl.predict(fitted, 2 + 1e-12).obs["jko_source_time"]) == {1}


def test_labels_name_times_too(adata):
    adata.obs["stage"] = adata.obs["day"].map({0: "a", 1: "b", 2: "c", 4: "d", 7: "e"})
    values = {"a": 0, "b": 1, "c": 2, "d": 4, "e": 7}
    sj.tl.fit_energy(adata, "stage", time_values=values, **QUICK)
    predicted = sj.tl.predict(adata, "d", source="b")
    assert set(predicted.obs["stage"]) == {4} and set(predicted.obs["jko_source_time"]) == {1}


def test_samples_repeat_cells_under_names_of_their_own(fitted):
    predicted = sj.tl.predict(fitted, 1, n_samples=3)
    assert predicted.n_obs == 3 * (fitted.obs["day"] == 0).sum()
    assert predicted.obs_names.is_unique
    assert (predicted.obs["jko_source"].value_counts() == 3).all()


def test_a_forecast_is_said_to_be_one(fitted, caplog):
    with caplog.at_level(logging.INFO, logger="scjko"):
        sj.tl.predict(fitted, 12)
    assert "Forecast to 12, beyond the last time point (7)" in caplog.text


def test_cells_that_leave_the_data_are_flagged_counted_and_finite(fitted, caplog):
    """Monomials of degree four throw a cell that stands far from all others further out, with every step."""
    options = {"parametrization": sj.Linear(degree=4, n_centers=0, ridge=1e-6), "progress": False}
    sj.tl.fit_energy(fitted, "day", use_rep="X_latent", **options)
    test = fitted[:60].copy()
    for name in ("X_jko", "jko_velocity", "jko_predicted"):
        del test.obsm[name]
    test.obsm["X_latent"][:3] = [[40.0, 40.0], [-1e3, 5.0], [1e30, 1e30]]
    predicted = sj.tl.predict(test)
    assert not predicted.obs["jko_converged"].iloc[:3].any() and predicted.obs["jko_converged"].iloc[3:].all()
    assert "3 of 60 predicted cells left the range of the data or were not solved" in caplog.text
    assert np.isfinite(predicted.obsm["X_jko"]).all()
    # Rolled out over everything and beyond, they are still numbers, and still said to be wrong.
    caplog.clear()
    path = sj.get.energy(test).simulate(test.obsm["X_latent"][:5], [0, 1, 2, 4, 7, 10, 40])
    assert np.isfinite(path).all() and "3 of 5 cells moved from 0 to 40 left the range" in caplog.text


def test_names_that_repeat_do_not_matter(fitted):
    fitted.obs_names = ["cell"] * fitted.n_obs
    assert sj.tl.predict(fitted, 1).obs_names.is_unique


def test_the_input_is_not_changed(fitted):
    before = fitted.copy()
    sj.tl.predict(fitted, 3)
    assert_same(fitted, before)


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"key": "other"}, KeyError, "key_added='other'"),
        ({"time": 0}, ValueError, "time=0 is not after the first time point"),
        ({"time": "soon"}, ValueError, "time='soon'"),
        ({"time": float("nan")}, ValueError, "time=nan"),
        ({"time": 3, "source": 3}, ValueError, "source=3 is no time point of obs['day'], which has 0, 1, 2, 4, 7"),
        ({"time": -1, "source": 1}, ValueError, "first snapshot is at 0"),
        ({"scheme": "leapfrog"}, ValueError, "'both', 'explicit', 'implicit'"),
        ({"n_samples": 0}, ValueError, "n_samples=0"),
    ],
)
def test_bad_input_is_named(fitted, options, kind, said):
    with pytest.raises(kind) as error:
        sj.tl.predict(fitted, **options)
    assert said in str(error.value)
