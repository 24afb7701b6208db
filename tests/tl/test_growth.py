"""Growth through the public functions: from a column or estimated, to velocities, predictions and files."""

from __future__ import annotations

import anndata
import numpy as np
import pytest
from helpers import assert_same

import scjko as sj
from scjko.core.transport import grown


@pytest.fixture(scope="module")
def _growing():
    return sj.datasets.simulated(1200, 5, 2, growth=(0.3, -0.3))


@pytest.fixture
def growing(_growing):
    """One fate that grows and one that dies, at known rates."""
    return _growing.copy()


def fit(adata, growth=None, **options):
    options = {"parametrization": sj.Linear(n_centers=60), "use_rep": "X_latent", "progress": False, **options}
    sj.tl.fit_energy(adata, "day", growth=growth, **options)
    return sj.get.energy(adata, options.get("key_added", "jko"))


def velocity_error(adata):
    true = adata.obsm["true_velocity"]
    return np.sqrt(np.sum((adata.obsm["jko_velocity"] - true) ** 2) / np.sum(true**2))


def test_growth_that_is_known_or_estimated_is_not_taken_for_motion(growing):
    errors = {}
    for growth in (None, "true_growth", "auto"):
        fit(growing, growth)
        errors[growth] = velocity_error(growing)
    assert errors["true_growth"] < 0.6 * errors[None]
    assert errors["auto"] < 0.7 * errors[None]
    assert np.corrcoef(growing.obs["jko_growth"], growing.obs["true_growth"])[0, 1] > 0.7


def test_without_growth_estimated_rates_are_near_zero():
    adata = sj.datasets.simulated(1200, 5)
    fit(adata, "auto")
    assert abs(adata.obs["jko_growth"].mean()) < 0.03 and adata.obs["jko_growth"].std() < 0.06


def test_predictions_carry_mass(growing):
    energy = fit(growing, "true_growth")
    predicted = sj.tl.predict(growing, 7)
    weight = predicted.obs["jko_weight"]
    assert weight.sum() == pytest.approx(1)
    up = predicted.obsm["X_jko"][:, 1] < 0
    there = growing[growing.obs["day"] == 7].obsm["X_latent"][:, 1] < 0
    assert abs(weight[up].sum() - there.mean()) < 0.03
    assert abs(up.mean() - there.mean()) > 0.03  # without their mass cells would be wrong
    x = growing.obsm["X_latent"][growing.obs["day"] == 4]
    mass = energy.mass(x, [4, 7, 8])
    np.testing.assert_array_equal(mass[0], 1)
    np.testing.assert_allclose(mass[1] / mass[1].sum(), weight)
    np.testing.assert_array_equal(energy.move(x, 4, 7).mass, mass[1])
    assert np.corrcoef(mass[2] / mass[1], x[:, 1])[0, 1] < -0.7  # a forecast goes on growing


def test_interpolations_and_transitions_carry_mass(growing):
    energy = fit(growing, "true_growth")
    between = sj.tl.interpolate(growing, [3.0, 9.0])
    for time, part in between.obs.groupby("day"):
        assert part["jko_weight"].sum() == pytest.approx(1), time
        assert part.groupby("jko_side", observed=True)["jko_weight"].nunique().max() > 1
    sj.tl.transition_matrix(growing)
    early = growing.obs["day"] == 4
    rate = energy.growth_field.over(growing.obsm["X_latent"][early], 3, 0.0)
    np.testing.assert_allclose(growing.obs["jko_weight"][early], np.exp(3 * rate))
    assert (growing.obs["jko_weight"][growing.obs["day"] == 7] == 1).all()


def test_an_energy_without_growth_has_rate_zero_and_mass_one(growing):
    energy = fit(growing)
    x = growing.obsm["X_latent"][:5]
    np.testing.assert_array_equal(energy.growth(x, 1), 0)
    np.testing.assert_array_equal(energy.mass(x, [0, 3]), 1)
    assert "jko_growth" not in growing.obs and "growth" not in growing.uns["jko"]


@pytest.mark.parametrize("growth", ["true_growth", "auto"])
def test_growth_is_rebuilt_from_a_file_bit_for_bit(growing, tmp_path, growth):
    energy = fit(growing, growth)
    growing.write_h5ad(tmp_path / "fit.h5ad")
    read = anndata.read_h5ad(tmp_path / "fit.h5ad")
    again, x = sj.get.energy(read), growing.obsm["X_latent"]
    np.testing.assert_array_equal(again.growth(x, 2.5), energy.growth(x, 2.5))
    np.testing.assert_array_equal(growing.obs["jko_growth"], energy.growth(x, growing.obs["day"]))
    assert sj.get.params(read)["growth"] == growth
    once = growing.obs["jko_growth"].copy()
    sj.tl.fit_energy(growing, **sj.get.params(growing), progress=False)
    np.testing.assert_array_equal(once, growing.obs["jko_growth"])


def test_couplings_of_a_fit_have_the_growth_of_the_fit(growing):
    fit(growing, "true_growth")
    plan = sj.get.couplings(growing)[4.0, 7.0]
    rate = growing.obs["true_growth"][growing.obs["day"] == 4].to_numpy()
    np.testing.assert_allclose(np.asarray(plan.sum(axis=1)).ravel(), grown(np.full(len(rate), 1 / len(rate)), 3 * rate))
    np.testing.assert_array_equal(growing.obs["jko_growth_coupled"][growing.obs["day"] < 7].isna(), False)


def test_ready_made_couplings_say_how_cells_grew(growing):
    fit(growing, "true_growth")
    plans = sj.get.couplings(growing)
    coupled = growing.obs["jko_growth_coupled"].copy()
    fit(growing, "auto", coupling=plans)
    for day in (0, 1, 2, 4):
        here = growing.obs["day"] == day
        one, other = coupled[here], growing.obs["jko_growth_coupled"][here]
        np.testing.assert_allclose(one - one.mean(), other - other.mean(), atol=1e-6)


@pytest.mark.parametrize("parametrization", ["kantorovich", sj.Neural(epochs=2)])
def test_every_parametrization_takes_growth(growing, parametrization):
    small = growing[::3].copy()
    energy = fit(small, "auto", parametrization=parametrization)
    assert np.isfinite(energy.growth(small.obsm["X_latent"], 3)).all()


def test_the_order_of_cells_does_not_matter(growing):
    small = growing[::3].copy()
    mixed = small[np.random.default_rng(0).permutation(small.n_obs)].copy()
    for adata in (small, mixed):
        fit(adata, "auto")
    np.testing.assert_allclose(mixed.obs["jko_growth"], small.obs["jko_growth"][mixed.obs_names], atol=1e-9)


@pytest.mark.parametrize(
    ("rates", "said"),
    [
        (np.nan, "NaN or infinite rates for 1 of 1200 cells, the first is row 3"),
        (np.inf, "NaN or infinite"),
        (1e5, "check the units"),
    ],
)
def test_rates_that_cannot_be_are_named_and_nothing_is_written(growing, rates, said):
    growing.obs["rate"] = growing.obs["true_growth"]
    growing.obs.iloc[3, growing.obs.columns.get_loc("rate")] = rates
    before = growing.copy()
    with pytest.raises(ValueError, match=said):
        fit(growing, "rate")
    assert_same(before, growing)


def test_growth_that_a_fit_cannot_take_is_an_error(growing):
    with pytest.raises(KeyError, match="No growth='speed' in adata.obs"):
        fit(growing, "speed")
    with pytest.raises(TypeError, match="growth must be the name of a column"):
        fit(growing, 0.3)
    with pytest.raises(ValueError, match="growth rates must be numbers"):
        fit(growing, "fate")
    with pytest.raises(ValueError, match="no effect on ready-made couplings"):
        fit(growing, "true_growth", coupling={(0, 1): np.eye(2)})


def test_a_damaged_growth_field_is_refused(growing):
    fit(growing, "auto")
    growing.uns["jko"]["growth"]["field"]["0"]["width"] = 0.0
    with pytest.raises(ValueError, match="growth/field/0/width is not above zero"):
        sj.get.energy(growing)
    del growing.uns["jko"]["growth"]["field"]["1"]
    with pytest.raises(ValueError, match="growth/field lacks 1"):
        sj.get.energy(growing)


def test_validation_compares_weighted_populations_and_shares(growing):
    small = growing[::2].copy()
    options = {"use_rep": "X_latent", "parametrization": sj.Linear(n_centers=40), "progress": False, "key": None}
    frames = {
        growth: sj.tl.validate(small, "day", protocol="times", growth=growth, cluster_key="fate", **options)
        for growth in (None, "true_growth")
    }
    errors = {growth: frame.groupby("method")["share_error"].max() for growth, frame in frames.items()}
    assert errors["true_growth"]["scjko"] < 0.1 and errors[None]["scjko"] >= 0
    one, other = (frame[frame["method"] == "ot_midpoint"]["emd"] for frame in frames.values())
    np.testing.assert_allclose(one, other)  # baselines know of no growth
    assert "share_error" not in sj.tl.validate(small, "day", protocol="last", **options)
    with pytest.raises(KeyError, match="No cluster_key='kind'"):
        sj.tl.validate(small, "day", cluster_key="kind", **options)
