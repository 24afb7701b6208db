"""``tl.fit_energy``: the contract with AnnData, and the truth of what it fits."""

from __future__ import annotations

import logging

import anndata
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from helpers import assert_same, simulate
from scipy import sparse

import scjko as sj
from scjko import _storage
from scjko.cli.demo import potential_correlation, velocity_cosines
from scjko.core.judging.metrics import emd
from scjko.tl import _fit_energy

QUICK = {"epochs": 3, "progress": False}


def test_fields_written_are_those_of_the_docstring(adata):
    before = adata.copy()
    assert sj.tl.fit_energy(adata, "day", n_pcs=5, **QUICK) is None
    assert set(adata.obs) - set(before.obs) == {"jko_potential", "jko_forecast"}
    assert set(adata.obsm) - set(before.obsm) == {"X_jko", "jko_velocity", "jko_predicted"}
    assert set(adata.uns) - set(before.uns) == {"jko"}
    np.testing.assert_array_equal(adata.obsm["X_jko"], before.obsm["X_pca"][:, :5])
    for name in ("jko_velocity", "jko_predicted"):
        assert adata.obsm[name].shape == (400, 5)
        assert adata.obsm[name].dtype == np.float32
        assert np.isfinite(adata.obsm[name]).all()
    pd.testing.assert_series_equal(adata.obs["jko_forecast"], adata.obs["day"] == 7, check_names=False)
    # nothing of the user's is touched
    for name in ("jko_potential", "jko_forecast"):
        del adata.obs[name]
    for name in ("X_jko", "jko_velocity", "jko_predicted"):
        del adata.obsm[name]
    del adata.uns["jko"]
    assert_same(adata, before)


def test_what_is_stored_in_uns(adata):
    sj.tl.fit_energy(adata, "day", n_pcs=5, whiten=True, **QUICK)
    stored = adata.uns["jko"]
    assert set(stored) == {
        *("params", "times", "weights", "scaling", "history", "couplings", "diagnostics", "version", "whitening"),
        "versions",
    }
    np.testing.assert_array_equal(stored["times"], [0, 1, 2, 4, 7])
    assert stored["history"]["loss"].shape == (3,)
    assert stored["version"] == stored["versions"]["scjko"] == sj.__version__
    assert stored["versions"]["numpy"] == np.__version__ and {"python", "jax", "POT"} <= set(stored["versions"])
    np.testing.assert_array_equal(
        stored["couplings"]["n_source"], adata.obs["day"].value_counts().sort_index().iloc[:-1]
    )
    assert (stored["couplings"]["cost"] > 0).all()
    assert stored["diagnostics"]["explained"].shape == (4,)
    np.testing.assert_array_equal(stored["diagnostics"]["unconverged"], 0)


def test_every_parameter_is_recorded(adata):
    import inspect

    sj.tl.fit_energy(adata, "day", **QUICK)
    params = adata.uns["jko"]["params"]
    signature = inspect.signature(sj.tl.fit_energy).parameters
    given_nothing = {"time_values", "weight_key", "couplings", "degree", "n_centers", "memory_limit", "n_devices"}
    # A cluster changes nothing of the result.
    assert set(params) == set(signature) - {"adata", "progress", "client", "copy", *given_nothing}
    assert params["use_rep"] == "X_pca"
    assert params["n_pcs"] == 10
    assert params["epochs"] == 3
    assert params["time_varying"] is True
    np.testing.assert_array_equal(params["layers"], [64, 64])
    np.testing.assert_array_equal(params["terms"], ["potential"])


def test_another_key_keeps_fits_apart(adata):
    sj.tl.fit_energy(adata, "day", 2, key_added="two", **QUICK)
    sj.tl.fit_energy(adata, "day", 3, **QUICK)
    assert (
        adata.obsm["X_two"].shape[1] == adata.obsm["two_velocity"].shape[1] == sj.get.energy(adata, "two").n_dims == 2
    )
    assert adata.obsm["X_jko"].shape[1] == sj.get.energy(adata).n_dims == 3


def test_copy_leaves_the_original_alone(adata):
    before = adata.copy()
    result = sj.tl.fit_energy(adata, "day", copy=True, **QUICK)
    assert_same(adata, before)
    assert "jko" in result.uns


def test_fields_agree_with_the_energy(fitted):
    energy = sj.get.energy(fitted)
    x, t = fitted.obsm["X_jko"], fitted.obs["day"].to_numpy()
    np.testing.assert_array_equal(fitted.obs["jko_potential"], energy.potential(x, t))
    np.testing.assert_array_equal(fitted.obsm["jko_velocity"], -energy.gradient(x, t))
    for t0, t1 in ((0, 1), (1, 2), (2, 4), (4, 7), (7, 10)):
        rows = t == t0
        np.testing.assert_allclose(fitted.obsm["jko_predicted"][rows], energy.step(x[rows], t0, t1), rtol=1e-6)


@pytest.mark.parametrize("scheme", ["both", "explicit", "implicit"])
def test_the_truth_is_recovered(fitted, scheme):
    """A wrong sign gives −0.9 for both; shifted time labels are tested below."""
    if scheme != "both":
        sj.tl.fit_energy(fitted, "day", use_rep="X_latent", scheme=scheme, progress=False)
    # Measured: 0.94 to 0.96 and 0.92 to 0.94 over schemes and seeds.
    assert potential_correlation(fitted) > 0.9
    cosines = velocity_cosines(fitted)
    assert cosines.mean() > 0.88
    # In the wells, at the last time, cells hardly move and directions are noise; everywhere else none may be off.
    for day in (0, 1, 2, 4):
        assert cosines[fitted.obs["day"] == day].mean() > 0.85
    energy = sj.get.energy(fitted)
    errors = []
    for t0, t1 in ((0, 1), (1, 2), (2, 4), (4, 7)):
        here, there = (fitted.obsm["X_latent"][fitted.obs["day"] == t] for t in (t0, t1))
        errors.append([emd(energy.step(here, t0, t1), there), emd(here, there)])
    moved, still = np.mean(errors, axis=0)
    assert moved < 0.2 * still


def test_a_shifted_time_label_would_be_noticed(fitted):
    """The velocity at a day, read off the interval before or after, is measurably worse: the check above has teeth."""
    energy = sj.get.energy(fitted)
    x, t = fitted.obsm["X_jko"], fitted.obs["day"].to_numpy()
    true = fitted.obsm["true_velocity"]
    rows = t == 1
    errors = [np.linalg.norm(-energy.gradient(x[rows], at) - true[rows], axis=1).mean() for at in (0, 1, 2)]
    assert errors[1] < 0.8 * min(errors[0], errors[2])


def test_the_truth_is_recovered_from_counts_through_pca():
    adata = simulate(1500)
    sj.tl.fit_energy(adata, "day", n_pcs=5, progress=False)
    # Measured 0.94 and 0.86; noise of the counts is what is lost against the latent space.
    assert potential_correlation(adata) > 0.88
    assert velocity_cosines(adata).mean() > 0.8


def test_same_seed_same_result_and_another_seed_another(adata):
    one, two, other = (sj.tl.fit_energy(adata, "day", copy=True, random_state=s, **QUICK) for s in (0, 0, 1))
    assert_same(one, two)
    assert not np.array_equal(one.obsm["jko_velocity"], other.obsm["jko_velocity"])


def test_shuffled_cells_give_the_same_result_in_shuffled_order(adata, rng):
    order = rng.permutation(adata.n_obs)
    for options in ({}, {"whiten": True}):
        plain = sj.tl.fit_energy(adata, "day", copy=True, **options, **QUICK)
        shuffled = sj.tl.fit_energy(adata[order].copy(), "day", copy=True, **options, **QUICK)
        assert_same(shuffled[np.argsort(order)].copy(), plain)


def test_whitening_is_that_of_the_components(adata):
    sj.tl.fit_energy(adata, "day", n_pcs=3, whiten=True, **QUICK)
    np.testing.assert_allclose(adata.obsm["X_jko"].mean(axis=0), 0, atol=1e-5)
    np.testing.assert_allclose(adata.obsm["X_jko"].std(axis=0), 1, atol=1e-5)


def test_time_varying_by_default_where_it_can_tell_intervals_apart(adata):
    two = adata[adata.obs["day"] <= 1].copy()
    for data, scheme, expected in (
        (adata, "both", True),
        (adata, "explicit", True),
        (two, "explicit", False),
        (two, "both", True),
    ):
        sj.tl.fit_energy(data, "day", scheme=scheme, **QUICK)
        assert data.uns["jko"]["params"]["time_varying"] is expected


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(lambda day: day.astype(int), id="int"),
        pytest.param(lambda day: day.astype(int).astype(str), id="str"),
        pytest.param(lambda day: "day " + day.astype(int).astype(str), id="label"),
        pytest.param(lambda day: pd.Categorical(day, categories=[7, 5, 4, 3, 2, 1, 0]), id="unused categories"),
        pytest.param(lambda day: pd.to_timedelta(day, unit="D"), id="timedelta"),
    ],
)
def test_kinds_of_time_columns_give_the_same_fit(adata, convert):
    plain = sj.tl.fit_energy(adata, "day", copy=True, **QUICK)
    adata.obs["when"] = convert(adata.obs["day"])
    before = adata.obs["when"].copy()
    sj.tl.fit_energy(adata, "when", **QUICK)
    pd.testing.assert_series_equal(adata.obs["when"], before)
    np.testing.assert_array_equal(adata.obsm["jko_velocity"], plain.obsm["jko_velocity"])


def test_time_values_say_it_outright(adata):
    plain = sj.tl.fit_energy(adata, "day", copy=True, **QUICK)
    names = {0: "a/b", 1: "b", 2: "c", 4: "d", 7: "e"}
    adata.obs["stage"] = adata.obs["day"].map(names)
    sj.tl.fit_energy(adata, "stage", time_values={name: day for day, name in names.items()}, **QUICK)
    np.testing.assert_array_equal(adata.obsm["jko_velocity"], plain.obsm["jko_velocity"])


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_coordinates_of_every_type_work(adata, dtype):
    adata.obsm["X_pca"] = (100 * adata.obsm["X_pca"]).astype(dtype)
    sj.tl.fit_energy(adata, "day", n_pcs=2, **QUICK)
    np.testing.assert_array_equal(adata.obsm["X_jko"], adata.obsm["X_pca"][:, :2])
    assert np.isfinite(adata.obsm["jko_velocity"]).all()


def test_x_may_be_sparse_dense_or_absent(adata):
    sj.tl.fit_energy(adata, "day", **QUICK)
    velocity = adata.obsm["jko_velocity"]
    bare = AnnData(obs=adata.obs[["day"]], obsm={"X_pca": adata.obsm["X_pca"]})
    dense = adata.copy()
    dense.X = dense.X.toarray()
    assert sparse.issparse(adata.X)
    for other in (bare, dense):
        sj.tl.fit_energy(other, "day", **QUICK)
        np.testing.assert_array_equal(other.obsm["jko_velocity"], velocity)


def test_a_view_becomes_data_of_its_own(adata):
    view = adata[adata.obs["day"] > 0]
    before = adata.copy()
    sj.tl.fit_energy(view, "day", **QUICK)
    assert "jko" in view.uns and not view.is_view
    assert_same(adata, before)


def test_backed_data_can_be_fitted(adata, tmp_path):
    adata.write_h5ad(tmp_path / "data.h5ad")
    backed = anndata.read_h5ad(tmp_path / "data.h5ad", backed="r")
    sj.tl.fit_energy(backed, "day", **QUICK)
    assert backed.isbacked and np.isfinite(backed.obs["jko_potential"]).all()
    in_memory = sj.tl.fit_energy(backed, "day", copy=True, **QUICK)
    assert not in_memory.isbacked and "jko" in in_memory.uns
    with pytest.raises(ValueError, match="to_memory"):
        sj.tl.fit_energy(backed[:200], "day", **QUICK)
    backed.file.close()


def test_smallest_data_that_can_be_fitted():
    adata = AnnData(obs=pd.DataFrame({"day": [0, 0, 1, 1]}, index=list("abcd")), obsm={"X_pca": np.eye(4)[:, :1]})
    sj.tl.fit_energy(adata, "day", **QUICK)
    assert np.isfinite(adata.obsm["jko_predicted"]).all()


def with_pca(values):
    def change(adata):
        adata.obsm["X_pca"] = values(adata.obsm["X_pca"])

    return change


def with_day(values):
    def change(adata):
        adata.obs["day"] = values(adata.obs["day"])

    return change


def first(value):
    def change(array):
        array = np.array(array, dtype=object if isinstance(value, str) else None)
        array[(5,) + (0,) * (array.ndim - 1)] = value
        return array

    return change


BAD = {
    "no such time": ({"time_key": "week"}, None, KeyError, ["time_key='week'", "'day'"]),
    "one time": ({}, with_day(lambda day: 0 * day + 3), ValueError, ["'day'", "one time point (3)"]),
    "NaN in coordinates": ({}, with_pca(first(np.nan)), ValueError, ["X_pca", "1 of 400", "row 5"]),
    "inf in coordinates": ({}, with_pca(first(np.inf)), ValueError, ["X_pca", "infinite"]),
    "NaN in time": ({}, with_day(first(np.nan)), ValueError, ["'day'", "1 of 400", "row 5"]),
    "inf in time": ({}, with_day(first(np.inf)), ValueError, ["'day'", "infinite", "row 5"]),
    "lonely cell": ({}, with_day(first(99.0)), ValueError, ["Time point 99", "'day'", "one cell"]),
    "too many components": ({"n_pcs": 11}, None, ValueError, ["n_pcs=11", "10 components"]),
    "no components": ({"n_pcs": 0}, None, ValueError, ["n_pcs=0", "at least 1"]),
    "half components": ({"n_pcs": 2.5}, None, TypeError, ["n_pcs", "2.5"]),
    "no PCA": ({}, lambda adata: adata.obsm.pop("X_pca"), KeyError, ["sc.pp.pca", "'X_latent'"]),
    "no such representation": ({"use_rep": "X_umap"}, None, KeyError, ["use_rep='X_umap'", "'X_pca'"]),
    "unreadable time": ({"time_key": "fate2"}, lambda a: a.obs.insert(0, "fate2", "stem"), ValueError, ["'stem'"]),
    "unknown scheme": ({"scheme": "leapfrog"}, None, ValueError, ["'leapfrog'", "'both', 'explicit', 'implicit'"]),
    "couplings as coupling": ({"coupling": {(0, 1): None}}, None, TypeError, ["couplings={(t0, t1): matrix}"]),
    "unknown coupling": (
        {"coupling": "closest"},
        None,
        ValueError,
        ["'closest'", "'exact', 'decomposed', 'batched', 'sinkhorn'"],
    ),
    "unknown label": ({"time_label": "source"}, None, ValueError, ["'source'", "'interval', 'target'"]),
    "unknown term": ({"terms": ("gravity",)}, None, ValueError, ["'gravity'", "'potential'"]),
    "unknown parametrization": ({"parametrization": "cubic"}, None, ValueError, ["'cubic'", "'neural', 'linear'"]),
    "no potential": ({"terms": ("internal",)}, None, ValueError, ["('internal',)", "must have 'potential'"]),
    "one term as text": ({"terms": "potential"}, None, TypeError, ["terms", "'potential'"]),
    "layers as a number": ({"layers": 64}, None, TypeError, ["layers", "64"]),
    "whiten as text": ({"whiten": "no"}, None, TypeError, ["whiten", "'no'"]),
    "time varying as text": ({"time_varying": "no"}, None, ValueError, ["time_varying='no'"]),
    "smooth network": ({"time_varying": "smooth"}, None, ValueError, ["time_varying='smooth'"]),
    "negative epsilon": ({"epsilon": -0.1}, None, ValueError, ["epsilon=-0.1"]),
    "negative ridge": ({"ridge": -1.0}, None, ValueError, ["ridge=-1.0"]),
    "large batch": ({"coupling": "batched"}, None, ValueError, ["coupling_batch=1000", "cells at 0"]),
    "no such weights": ({"weight_key": "mass"}, None, KeyError, ["weight_key='mass'"]),
    "key of the data": ({"key_added": "pca"}, None, ValueError, ["key_added='pca'", "uns['pca']"]),
    "list as key": ({"time_key": ["day"]}, None, TypeError, ["time_key", "['day']"]),
    "almost equal times": ({}, with_day(lambda day: day.replace(1, 2 + 1e-9)), ValueError, ["too close", "'day'"]),
    "list of time values": ({"time_values": [1, 2]}, None, TypeError, ["time_values", "list"]),
    "no epochs": ({"epochs": 0}, None, ValueError, ["epochs=0"]),
    "no layer": ({"layers": (64, 0)}, None, ValueError, ["layers=0"]),
    "negative rate": ({"learning_rate": -1.0}, None, ValueError, ["learning_rate=-1.0"]),
    "fractional batch": ({"batch_size": 0.5}, None, TypeError, ["batch_size", "0.5"]),
    "negative seed": ({"random_state": -1}, None, ValueError, ["random_state=-1"]),
    "slash in the key": ({"key_added": "a/b"}, None, ValueError, ["key_added='a/b'"]),
}


@pytest.mark.parametrize(("options", "change", "kind", "said"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_named_and_nothing_is_written(adata, options, change, kind, said):
    if change is not None:
        change(adata)
    before = adata.copy()
    with pytest.raises(kind) as error:
        sj.tl.fit_energy(adata, **{"time_key": "day", **QUICK, **options})
    for words in said:
        assert words in str(error.value)
    assert_same(adata, before)


def test_an_empty_anndata_is_named(adata):
    with pytest.raises(ValueError, match="no cells"):
        sj.tl.fit_energy(adata[:0].copy(), "day", **QUICK)


def test_something_else_than_anndata_is_named(adata):
    with pytest.raises(TypeError, match="DataFrame"):
        sj.tl.fit_energy(adata.obs, "day")


PHASES = ("representation", "couple_snapshots", "fit_snapshots", "_cell_fields", "write_fields")


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("fault", [KeyboardInterrupt, MemoryError])
def test_an_interrupt_in_any_phase_leaves_the_data_as_they_were(adata, monkeypatch, phase, fault):
    sj.tl.fit_energy(adata, "day", **QUICK)
    before = adata.copy()

    def fail(*args, **kwargs):
        raise fault

    monkeypatch.setattr(_fit_energy, phase, fail)
    with pytest.raises(fault):
        sj.tl.fit_energy(adata, "day", 3, **QUICK)
    assert_same(adata, before)


@pytest.mark.parametrize("again", [False, True])
def test_an_interrupt_while_writing_takes_everything_back(adata, monkeypatch, again):
    if again:
        sj.tl.fit_energy(adata, "day", **QUICK)
    before = adata.copy()

    class Interrupted(dict):
        def items(self):
            yield next(iter(super().items()))
            raise KeyboardInterrupt

    write = _storage.write_fields
    monkeypatch.setattr(
        _fit_energy, "write_fields", lambda *args, obsm, **rest: write(*args, obsm=Interrupted(obsm), **rest)
    )
    with pytest.raises(KeyboardInterrupt):
        sj.tl.fit_energy(adata, "day", 3, **QUICK)
    assert_same(adata, before)


def test_progress_is_shown_unless_silenced(adata, capsys):
    def shown(**options):
        sj.tl.fit_energy(adata, "day", epochs=2, **options)
        return capsys.readouterr().err

    logger = logging.getLogger("scjko")
    assert "training" in shown() and "couplings" in shown()
    assert shown(progress=False) == ""
    logger.setLevel(logging.WARNING)
    try:
        assert shown() == ""
    finally:
        logger.setLevel(logging.NOTSET)


@pytest.mark.parametrize("same", ["place", "snapshots"])
def test_cells_that_do_not_move_are_said(adata, caplog, same):
    x = np.random.default_rng(0).normal(size=(20, 2)) if same == "snapshots" else np.ones((20, 2))
    obs = pd.DataFrame({"day": np.repeat([0, 1, 2], 20)}, index=np.arange(60).astype(str))
    still = AnnData(obs=obs, obsm={"X_pca": np.tile(x, (3, 1))})
    with caplog.at_level(logging.WARNING, "scjko"):
        sj.tl.fit_energy(still, "day", epochs=2, progress=False)
    assert "No cell moves" in caplog.text
    caplog.clear()
    sj.tl.fit_energy(adata, "day", epochs=2, progress=False)
    assert "No cell moves" not in caplog.text


def test_devices_that_are_not_there_are_missed_before_anything_is_coupled(adata, monkeypatch):
    monkeypatch.setattr(_fit_energy, "couple_snapshots", lambda *args: pytest.fail("it began to couple"))
    with pytest.raises(ValueError, match="n_devices=99, but JAX has"):
        sj.tl.fit_energy(adata, "day", n_devices=99, progress=False)
