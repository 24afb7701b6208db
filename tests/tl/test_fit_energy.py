"""``tl.fit_energy``: the contract with AnnData."""

from __future__ import annotations

import logging
from dataclasses import fields

import anndata
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from helpers import assert_same
from scipy import sparse

import scjko as sj
from scjko.edge.storage.serialized import FORMAT

QUICK = {"parametrization": sj.Neural(epochs=3), "progress": False}
LINE = {"parametrization": sj.Linear(degree=1, n_centers=0), "n_pcs": 2}


def test_fields_written_are_those_of_the_docstring(adata):
    before = adata.copy()
    assert sj.tl.fit_energy(adata, "day", n_pcs=5, **QUICK) is None
    assert set(adata.obs) - set(before.obs) == {"jko_potential", "jko_forecast", "jko_converged"}
    assert set(adata.obsm) - set(before.obsm) == {"X_jko", "jko_velocity", "jko_predicted"}
    assert set(adata.uns) - set(before.uns) == {"jko"}
    np.testing.assert_array_equal(adata.obsm["X_jko"], before.obsm["X_pca"][:, :5])
    for name in ("jko_velocity", "jko_predicted"):
        assert adata.obsm[name].shape == (400, 5)
        assert adata.obsm[name].dtype == np.float32
        assert np.isfinite(adata.obsm[name]).all()
    pd.testing.assert_series_equal(adata.obs["jko_forecast"], adata.obs["day"] == 7, check_names=False)
    # nothing of the user's is touched
    for name in ("jko_potential", "jko_forecast", "jko_converged"):
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
        *("versions", "format", "forecast"),
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
    assert adata.obs["jko_converged"].all() and adata.obs["jko_converged"].dtype == bool
    # What the files of this format have, and those of 0.1 had not.
    assert stored["format"] == FORMAT == 2
    assert stored["scaling"]["speed"].shape == (4,) and stored["scaling"]["offsets"].shape == (4, 2)
    x = adata.obsm["X_jko"].astype(np.float64)
    reach = np.linalg.norm(x - stored["scaling"]["center"], axis=1).max()
    assert stored["scaling"]["reach"] == pytest.approx(reach, rel=1e-6)


def test_every_parameter_is_recorded(adata):
    import inspect

    sj.tl.fit_energy(adata, "day", **QUICK)
    params = adata.uns["jko"]["params"]
    signature = inspect.signature(sj.tl.fit_energy).parameters
    given_nothing = {"time_values", "weight_key", "growth"}
    # A cluster changes nothing of the result.
    assert set(params) - {"neural"} == set(signature) - {"adata", "progress", "client", "copy", *given_nothing}
    assert params["use_rep"] == "X_pca"
    assert params["n_pcs"] == 10
    assert params["time_varying"] is True
    np.testing.assert_array_equal(params["terms"], ["potential"])
    # An object is its name, and a group of all its options but those that are None.
    assert params["parametrization"] == "neural" and params["coupling"] == "auto"
    assert set(params["neural"]) == {field.name for field in fields(sj.Neural)} - {"n_devices", "n_members"}
    assert params["neural"]["epochs"] == 3
    np.testing.assert_array_equal(params["neural"]["layers"], [64, 64])


@pytest.mark.parametrize(
    ("options", "group", "expected"),
    [
        (
            {"parametrization": sj.Linear(degree=1, n_centers=0, ridge=0.1)},
            "linear",
            {"degree": 1, "n_centers": 0, "ridge": 0.1},
        ),
        ({"coupling": sj.Batched(size=20)}, "batched", {"size": 20}),
        ({"coupling": sj.Exact(memory_limit=1.0)}, "exact", {"memory_limit": 1.0}),
        ({"terms": ("potential", sj.Interaction(even=True)), **LINE}, "interaction", {"even": True}),
        ({"terms": ("potential", sj.Internal(n_components=2)), **LINE}, "internal", {"n_components": 2}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_options_of_objects_are_recorded_in_groups(adata, options, group, expected):
    sj.tl.fit_energy(adata, "day", **{**QUICK, **options})
    assert adata.uns["jko"]["params"][group] == expected


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
    np.testing.assert_array_equal(fitted.obsm["jko_velocity"], energy.velocity(x, t))
    np.testing.assert_array_equal(fitted.obsm["jko_velocity"], -energy.gradient(x, t))
    for t0, t1 in ((0, 1), (1, 2), (2, 4), (4, 7), (7, 10)):
        rows = t == t0
        np.testing.assert_allclose(fitted.obsm["jko_predicted"][rows], energy.step(x[rows], t0, t1), rtol=1e-6)
        np.testing.assert_array_equal(fitted.obs["jko_converged"][rows], energy.move(x[rows], t0, t1).converged)


def test_velocities_are_slopes_at_a_time_and_predictions_moves_over_an_interval(fitted):
    """At an inner snapshot the field is the mean of what led there and what leads on, each weighted by the length of
    the other interval; the step reads what leads on alone."""
    energy = sj.get.energy(fitted)
    x = fitted.obsm["X_jko"][fitted.obs["day"] == 2]
    places = [(np.full(len(x), k), np.full(len(x), end)) for k, end in ((1, 1.0), (2, 0.0))]
    before, after = (energy.field.gradient_at(x, *place) for place in places)
    # The interval before takes one day, the one after two.
    np.testing.assert_allclose(energy.velocity(x, 2), -(2 * before + after) / 3, rtol=1e-6)
    np.testing.assert_allclose(energy.step(x, 2, 4), x - 2 * energy.gradient_at(x, *places[1]), rtol=1e-6)
    # Not the same at all: a test that takes one for the other fails.
    assert np.linalg.norm(before - after) > 0.1 * np.linalg.norm(after)


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


def test_progress_is_shown_unless_silenced(adata, capsys):
    def shown(**options):
        sj.tl.fit_energy(adata, "day", parametrization=sj.Neural(epochs=2), **options)
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
        sj.tl.fit_energy(still, "day", parametrization=sj.Neural(epochs=2), progress=False)
    assert "No cell moves" in caplog.text
    caplog.clear()
    sj.tl.fit_energy(adata, "day", parametrization=sj.Neural(epochs=2), progress=False)
    assert "No cell moves" not in caplog.text
