"""Interpolation through the public function: where cells come from, what they weigh, what is refused."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from helpers import assert_same
from scipy.spatial import cKDTree

import scjko as sj
from scjko.core.judging.metrics import emd

QUICK = {"parametrization": sj.Neural(epochs=5), "progress": False}


def test_cells_of_both_sides_pooled_by_position(fitted):
    days = np.unique(fitted.obs["day"])
    time = 0.75 * days[0] + 0.25 * days[1]
    made = sj.tl.interpolate(fitted, time, density_prior=None, asynchrony=None)
    by_side = made.obs.groupby("jko_side")["jko_weight"].sum()
    before, after = (
        share * np.sum(fitted.obs["day"] == day) for share, day in zip((0.75, 0.25), days[:2], strict=True)
    )
    assert by_side["before"] == pytest.approx(before / (before + after)) and by_side.sum() == pytest.approx(1)
    assert set(made.obs.loc[made.obs["jko_side"] == "before", "jko_source_time"]) == {days[0]}
    assert set(made.obs.loc[made.obs["jko_side"] == "after", "jko_source_time"]) == {days[1]}
    assert (made.obs["day"] == time).all() and not made.obs["jko_forecast"].any()
    assert made.uns["jko_interpolation"] == {"density_prior": 0.0, "asynchrony": 0.0}
    energy, x = sj.get.energy(fitted), fitted.obsm["X_jko"]
    for row, start in ((0, days[0]), (made.n_obs - 1, days[1])):
        (source,) = np.flatnonzero(fitted.obs_names == made.obs["jko_source"].iloc[row])
        assert fitted.obs["day"].iloc[source] == start
        np.testing.assert_allclose(made.obsm["X_jko"][row], energy.step(x[[source]], start, time)[0], rtol=1e-5)


def test_a_measured_time_gives_its_cells_back(fitted):
    day = np.unique(fitted.obs["day"])[1]
    there = fitted[fitted.obs["day"] == day]
    made = sj.tl.interpolate(fitted, day, density_prior=0.5)
    np.testing.assert_allclose(np.sort(made.obsm["X_jko"], axis=0), np.sort(there.obsm["X_jko"], axis=0), rtol=1e-6)
    assert set(made.obs["jko_source"]) == set(there.obs_names)
    np.testing.assert_allclose(made.obs["jko_weight"], 1 / there.n_obs)


def test_a_left_out_day_is_met(_fitted):
    """A day nobody fitted is closer to its interpolation than to any of its neighbours."""
    adata = sj.datasets.simulated(1500)
    days = np.unique(adata.obs["day"])
    rest = adata[adata.obs["day"] != days[2]].copy()
    sj.tl.fit_energy(rest, "day", use_rep="X_latent", progress=False)
    target = adata[adata.obs["day"] == days[2]].obsm["X_latent"]
    made = sj.tl.interpolate(rest, days[2])
    error = emd(made.obsm["X_jko"], target, made.obs["jko_weight"].to_numpy())
    for day in (days[1], days[3]):
        assert error < 0.5 * emd(rest[rest.obs["day"] == day].obsm["X_latent"], target)


def test_several_times_and_a_forecast(fitted, caplog):
    last = fitted.obs["day"].max()
    with caplog.at_level(logging.INFO, "scjko"):
        made = sj.tl.interpolate(fitted, [1.5, last + 1], density_prior=None)
    assert "Forecast to 8, beyond the last time point (7)" in caplog.text
    beyond = made[made.obs["day"] == last + 1]
    assert beyond.obs["jko_forecast"].all() and (beyond.obs["jko_side"] == "before").all()
    assert (beyond.obs["jko_source_time"] == last).all()
    np.testing.assert_allclose(made.obs.groupby("day")["jko_weight"].sum(), 1)
    assert made.obs_names.is_unique


def test_the_prior_moves_cells_towards_observed_ones(fitted):
    free, pulled = (sj.tl.interpolate(fitted, 3, density_prior=p) for p in (None, 1.0))
    near = cKDTree(fitted.obsm["X_jko"])
    assert near.query(pulled.obsm["X_jko"])[0].max() < 1e-6  # all the way: up to rounding, on one of them
    assert near.query(free.obsm["X_jko"])[0].mean() > 1e-3
    auto = sj.tl.interpolate(fitted, 3)
    assert auto.uns["jko_interpolation"]["density_prior"] in (0.0, 0.25, 0.5, 0.75)


def test_rows_do_not_matter(fitted):
    shuffled = fitted[np.random.default_rng(1).permutation(fitted.n_obs)].copy()
    one, two = (sj.tl.interpolate(a, 3, density_prior=0.5) for a in (fitted, shuffled))
    np.testing.assert_array_equal(one.obsm["X_jko"], two.obsm["X_jko"])
    np.testing.assert_array_equal(one.obs["jko_source"], two.obs["jko_source"])


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"times": []}, ValueError, "times is empty"),
        ({"times": -1}, ValueError, "times=-1 lie before the first time point"),
        ({"times": [3, 99], "forecast": False}, ValueError, "times=99 lie beyond the last time point"),
        ({"times": 3, "density_prior": 2}, ValueError, "density_prior=2 must be a number from 0 to 1"),
        ({"times": 3, "density_prior": "strong"}, ValueError, "density_prior='strong'"),
        ({"times": 3, "density_prior": 1j}, ValueError, "density_prior=1j"),
        ({"times": 3, "asynchrony": -0.1}, ValueError, "asynchrony=-0.1 must be a number from 0 to 1"),
        ({"times": 3, "key": "other"}, KeyError, "other"),
        ({"times": np.nan}, ValueError, "times"),
    ],
)
def test_bad_input_is_named(fitted, options, error, words):
    with pytest.raises(error, match=words):
        sj.tl.interpolate(fitted, **options)


def test_an_explicit_fit_gives_measured_times_back(adata):
    sj.tl.fit_energy(adata, "day", 2, scheme="explicit", **QUICK)
    day = np.unique(adata.obs["day"])[1]
    assert sj.tl.interpolate(adata, np.array(day)).n_obs == (adata.obs["day"] == day).sum()
    with pytest.raises(ValueError, match="knows where cells came from"):
        sj.tl.interpolate(adata, day + 0.1)


def test_nothing_is_pulled_to_cells_without_weight(fitted):
    fitted.obs["w"] = (np.arange(fitted.n_obs) % 2).astype(float)
    sj.tl.fit_energy(fitted, "day", use_rep="X_latent", weight_key="w", **QUICK)
    pulled = sj.tl.interpolate(fitted, 3, density_prior=1.0)
    weighty = fitted.obsm["X_jko"][fitted.obs["w"] > 0]
    assert cKDTree(weighty).query(pulled.obsm["X_jko"])[0].max() < 1e-6


def test_cells_of_every_time_point_are_needed(fitted):
    part = fitted[fitted.obs["day"] > 0].copy()
    with pytest.raises(ValueError, match="needs the cells of every time point that was fitted"):
        sj.tl.interpolate(part, 3)


def test_a_time_that_is_named_twice_gives_its_cells_once(fitted):
    once, twice = sj.tl.interpolate(fitted, [3]), sj.tl.interpolate(fitted, [3, 3.0])
    assert_same(once, twice)
