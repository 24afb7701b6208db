"""Validation after a fit: its options are the defaults, results stand side by side, and forecasts are judged."""

from __future__ import annotations

import logging

import anndata
import numpy as np
import pandas as pd
import pytest
from helpers import assert_same
from scipy import sparse

import scjko as sj
from scjko.core.judging.metrics import emd
from scjko.core.judging.names import spoken
from scjko.core.motion.interpolation import Rule
from scjko.edge.options import FitOptions
from scjko.edge.validation import folds
from scjko.edge.validation.folds import Fold
from scjko.edge.validation.protocols import Cells, Last, Times
from scjko.tl import _validate

#: A closed form of a few features: fits in milliseconds.
LINEAR = sj.Linear(degree=2, n_centers=4, ridge=0.1)
QUIET = {"n_splits": 1, "progress": False}


@pytest.fixture
def seen(monkeypatch):
    """The options of every fit that a validation makes, and the number of its dimensions."""
    found, fit = [], _validate.fit_snapshots
    monkeypatch.setattr(
        _validate,
        "fit_snapshots",
        lambda train, couplings, options, progress, growth: (
            found.append((options, train.coordinates.shape[1])) or fit(train, couplings, options, progress, growth)
        ),
    )
    return found


def test_the_options_of_the_fit_are_the_defaults(adata, seen, caplog):
    adata.obs["w"] = np.linspace(1, 2, adata.n_obs)
    told = {"scheme": "implicit", "coupling": sj.Partial(price=4), "weight_key": "w", "time_varying": False}
    sj.tl.fit_energy(adata, "day", 3, parametrization=LINEAR, whiten=True, progress=False, **told)
    with caplog.at_level(logging.INFO, "scjko"):
        after = sj.tl.validate(adata, **QUIET)
    ((options, n_dims),) = seen
    assert n_dims == 3
    assert (options.scheme, options.weight_key, options.time_varying) == ("implicit", "w", False)
    assert options.parametrization == LINEAR
    assert options.solver == sj.Partial(price=4)
    assert "the fit at adata.uns['jko']: 3 components of obsm['X_pca'] are validated" in caplog.text
    named = sj.tl.validate(adata, "day", 3, parametrization=LINEAR, whiten=True, key=None, **told, **QUIET)
    pd.testing.assert_frame_equal(after, named)


def test_what_is_given_goes_before_the_fit(adata, seen):
    sj.tl.fit_energy(adata, "day", 3, parametrization=LINEAR, scheme="explicit", time_varying="smooth", progress=False)
    network = sj.Neural(layers=(8,), epochs=2)
    sj.tl.validate(adata, n_pcs=2, scheme="both", **QUIET)
    sj.tl.validate(adata, use_rep="X_latent", parametrization=network, **QUIET)
    sj.tl.validate(adata, "day", key=None, parametrization=network, **QUIET)
    adata.obs["other"] = adata.obs["day"]
    sj.tl.validate(adata, "other", parametrization=network, **QUIET)
    (two, n_two), (latent, n_latent), (_, n_all), (other, n_other) = seen
    assert (two.scheme, two.parametrization, n_two) == ("both", LINEAR, 2)
    # The number of components is that of the fit's representation, and "smooth" is for linear energies only.
    assert (latent.scheme, latent.time_varying, n_latent) == ("explicit", None, 2)
    assert n_all == 10
    assert (other.scheme, other.time_key, n_other) == ("both", "other", 10)


def test_ready_made_couplings_cannot_be_repeated_on_a_part(adata, seen, caplog):
    days, sizes = np.unique(adata.obs["day"], return_counts=True)
    plans = {
        (t0, t1): sparse.random(n, m, 0.5, random_state=0) + sparse.csr_matrix(np.full((n, m), 1e-3))
        for t0, t1, n, m in zip(days[:-1], days[1:], sizes[:-1], sizes[1:], strict=True)
    }
    sj.tl.fit_energy(adata, "day", 2, parametrization=LINEAR, coupling=plans, progress=False)
    with caplog.at_level(logging.INFO, "scjko"):
        sj.tl.validate(adata, **QUIET)
    assert seen[0][0].solver == sj.Auto()
    assert "ready-made couplings are those of all cells; parts of them are coupled by coupling='auto'" in caplog.text


@pytest.mark.parametrize("kind", ["h5ad", "zarr"])
@pytest.mark.filterwarnings("ignore:Writing zarr v2 data")
def test_protocols_stand_side_by_side_and_open_again(adata, tmp_path, kind):
    options = {"n_pcs": 2, "parametrization": LINEAR, **QUIET}
    frames = {name: sj.tl.validate(adata, "day", protocol=name, **options) for name in ("cells", "times", "last")}
    for name, frame in frames.items():
        assert set(frame["protocol"]) == {name}
    path = tmp_path / f"cells.{kind}"
    getattr(adata, f"write_{kind}")(path)
    read = getattr(anndata, f"read_{kind}")(path)
    for stored in (adata, read):
        assert dict(stored.uns["jko_validation_verdict"]) == {n: f.attrs["verdict"] for n, f in frames.items()}
        found = stored.uns["jko_validation"].reset_index(drop=True)
        pd.testing.assert_frame_equal(found, pd.concat(frames.values(), ignore_index=True), check_dtype=False)
    # Again, in what was read: the rows of this protocol are replaced, the others kept.
    again = sj.tl.validate(read, "day", protocol="cells", random_state=5, **options)
    held = read.uns["jko_validation"]
    np.testing.assert_array_equal(held[held["protocol"] == "cells"]["emd"], again["emd"])
    np.testing.assert_array_equal(held[held["protocol"] == "times"]["emd"], frames["times"]["emd"])
    assert len(held) == sum(map(len, frames.values()))
    assert read.uns["jko_validation_verdict"]["cells"] == again.attrs["verdict"]
    assert read.uns["jko_validation_verdict"]["last"] == frames["last"].attrs["verdict"]
    getattr(read, f"write_{kind}")(tmp_path / f"again.{kind}")


def test_the_last_time_point_is_forecast_by_a_fit_that_has_not_seen_it(adata):
    """Each error computed once more: from a fit without the last day, and from the definition of the baselines."""
    frame = sj.tl.validate(adata, "day", 2, protocol="last", parametrization=LINEAR, progress=False)
    day, x = adata.obs["day"].to_numpy(float), adata.obsm["X_pca"][:, :2].astype(float)
    before, last, hidden = np.unique(day)[-3:]
    known = adata[day < hidden].copy()
    sj.tl.fit_energy(known, "day", 2, parametrization=LINEAR, progress=False)
    cells, target = x[day == last], x[day == hidden]
    shift = (cells.mean(axis=0) - x[day == before].mean(axis=0)) * (hidden - last) / (last - before)
    expected = {
        "scjko": emd(sj.get.energy(known).step(cells, last, hidden), target),
        "persistence": emd(cells, target),
        "mean_shift": emd(cells + shift, target),
    }
    found = frame.set_index("method")["emd"]
    assert set(found.index) == {*expected, "floor"}
    for method, error in expected.items():
        assert found[method] == pytest.approx(error, rel=1e-5), method  # weights are stored in single precision
    assert set(frame["time"]) == {hidden}
    assert "the last time point" in frame.attrs["verdict"]
    assert "standard error from the sample of cells" in frame.attrs["verdict"]


def test_a_last_interval_that_is_too_long_is_said_before_anything_is_fitted(adata, monkeypatch):
    monkeypatch.setattr(_validate, "couple_snapshots", lambda *args, **kwargs: pytest.fail("it began to fit"))
    adata.obs["late"] = adata.obs["day"].replace(adata.obs["day"].max(), 1e4)
    with pytest.raises(ValueError, match="A forecast to 10000 repeats the last interval"):
        sj.tl.validate(adata, "late", protocol="last", progress=False)


def test_the_verdict_names_the_times_at_which_a_baseline_wins(adata):
    frame = sj.tl.validate(adata, "day", 2, parametrization=sj.Linear(degree=1, n_centers=0), **QUIET)
    errors = frame.pivot(index="time", columns="method", values="emd").drop(columns="floor")
    winners = errors.idxmin(axis=1)
    lost = winners[winners != "scjko"]
    assert len(lost) > 1, "a plane is too little for these cells"
    assert f"Baselines win at {len(lost)} of {len(winners)} times" in frame.attrs["verdict"]
    for method, times in lost.groupby(lost):
        assert f"{spoken(method)} at {', '.join(f'{t:g}' for t in times.index)}" in frame.attrs["verdict"]


def test_a_single_split_of_two_times_is_judged_by_its_cells(adata):
    """With neither splits nor times to repeat, the uncertainty is that of the sample of cells."""
    two = adata[adata.obs["day"].isin(adata.obs["day"].unique()[:2])].copy()
    frame = sj.tl.validate(two, "day", 2, parametrization=LINEAR, **QUIET)
    assert "standard error from the sample of cells" in frame.attrs["verdict"]


def test_predictions_that_are_no_numbers_or_far_away_are_not_silent(adata, monkeypatch, caplog):
    before = adata.copy()
    options = {"n_pcs": 2, "parametrization": LINEAR, **QUIET}
    move = folds.Energy.move
    monkeypatch.setattr(
        folds.Energy, "move", lambda *args, **kwargs: move(*args, **kwargs)._replace(positions=np.full((1, 2), np.nan))
    )
    with pytest.raises(FloatingPointError, match="The prediction of scjko at time 1 is not a number"):
        sj.tl.validate(adata, "day", **options)
    assert_same(adata, before)

    def distrusted(*args, **kwargs):
        step = move(*args, **kwargs)
        return step._replace(converged=np.zeros(len(step.converged), dtype=bool))

    monkeypatch.setattr(folds.Energy, "move", distrusted)
    with caplog.at_level(logging.WARNING, "scjko"):
        frame = sj.tl.validate(adata, "day", **options)
    n = frame[frame["method"] == "scjko"]["n_source"].sum()
    assert f"{n} of {n} predicted cells left the range of the data" in caplog.text


def test_the_density_prior_is_that_of_the_energy(adata, monkeypatch):
    """Without it, McCann's interpolation with and without the prior are the same."""
    options = {"n_pcs": 2, "parametrization": LINEAR, "protocol": "times", "progress": False}
    for strength, same in ((0.0, True), (0.5, False)):
        monkeypatch.setattr(
            "scjko.edge.validation.protocols.best_rule", lambda *args, strength=strength: Rule(strength)
        )
        means = sj.tl.validate(adata, "day", **options).groupby("method")["emd"].mean()
        assert (means["ot_midpoint"] == means["ot_midpoint_prior"]) == same
        assert means["ot_asynchronous"] == means["ot_midpoint_prior"], "synchronous cells are McCann's"


def test_folds_train_a_network_of_the_field_only_where_it_is_read(adata):
    """The maps are the same without it, which a test of stacked fits holds; forecasts read the field."""
    options = FitOptions.of(time_key="day", parametrization="auto", terms=("potential",), coupling="auto")
    fold = Fold(0, np.ones(adata.n_obs, dtype=bool), 5)
    assert options.parametrization.chance > 0
    for protocol, chance in ((Cells(0.4, 1), 0.0), (Times(), 0.0), (Last(), options.parametrization.chance)):
        used = protocol.fitted_with(options, fold)
        assert used.parametrization.chance == chance and used.random_state == 5
