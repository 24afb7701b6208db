"""Fits that choose between a network and a Kantorovich potential: stored, read, repeated and used like any other."""

from __future__ import annotations

from dataclasses import replace

import anndata
import numpy as np
import pytest
from helpers import simulate

import scjko as sj
from scjko.edge.validation.earlier import earlier_options

QUICK = sj.Neural(layers=(8,), epochs=20)
#: Long enough for halves of the cells.
LONGER = sj.Neural(layers=(8,), epochs=100)
ONE_PLAN = sj.Kantorovich(softness=0.05, n_members=1)
KINDS = [
    pytest.param(sj.Kantorovich(softness=0.05, n_members=2), id="kantorovich"),
    pytest.param(
        sj.Stacked(share=0.5, kantorovich=sj.Kantorovich(softness=0.05, n_members=2), network=QUICK), id="mean"
    ),
    pytest.param(sj.Stacked(share=0.0, network=QUICK), id="network"),
    pytest.param(sj.Stacked(share=1.0, kantorovich=sj.Kantorovich(softness=0.05, n_members=1)), id="one plan"),
]


def fitted(parametrization, **options):
    adata = simulate(200)
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=parametrization, progress=False, **options)
    return adata


@pytest.mark.parametrize("kind", KINDS)
def test_files_keep_the_energy_to_the_bit_and_the_call_that_repeats_it(kind, tmp_path):
    adata = fitted(kind)
    adata.write_h5ad(tmp_path / "fit.h5ad")
    energy, read = sj.get.energy(adata), sj.get.energy(anndata.read_h5ad(tmp_path / "fit.h5ad"))
    x, t = adata.obsm["X_latent"], adata.obs["day"].to_numpy()
    for name in ("potential", "velocity", "hessian"):
        np.testing.assert_array_equal(getattr(read, name)(x, t), getattr(energy, name)(x, t))
    assert repr(read) == repr(energy)
    again = fitted(**{k: v for k, v in sj.get.params(adata).items() if k in ("parametrization", "scheme")})
    np.testing.assert_array_equal(again.obsm["jko_predicted"], adata.obsm["jko_predicted"])


@pytest.mark.parametrize("kind", KINDS)
def test_steps_over_parts_of_an_interval_compose(kind):
    """An envelope with edges is a harder equation to solve than a network."""
    adata = fitted(kind)
    energy = sj.get.energy(adata)
    t0, t1 = energy.times[:2]
    x = adata.obsm["X_latent"][adata.obs["day"] == t0]
    half = energy.move(x, t0, (t0 + t1) / 2)
    whole, rest = energy.move(x, t0, t1), energy.move(half.positions, (t0 + t1) / 2, t1)
    assert rest.converged.mean() > 0.95
    size = np.ptp(x, axis=0).max()
    np.testing.assert_allclose(rest.positions[rest.converged], whole.positions[rest.converged], atol=1e-3 * size)


def test_cells_are_moved_by_what_was_chosen_and_the_field_is_that_of_the_network():
    envelopes = sj.Kantorovich(softness=0.05, n_members=1)
    energy = sj.get.energy(fitted(sj.Stacked(share=1.0, kantorovich=envelopes, network=QUICK, chance=0)))
    alone, adata = sj.get.energy(fitted(envelopes)), simulate(200)
    network = sj.get.energy(fitted(QUICK))
    x = adata.obsm["X_latent"][adata.obs["day"] == 1]
    np.testing.assert_allclose(energy.step(x, 1, 2), alone.step(x, 1, 2), atol=1e-5)
    # The same network, trained on the same plan.
    np.testing.assert_allclose(energy.velocity(x, 1), network.velocity(x, 1), atol=1e-5)
    np.testing.assert_allclose(energy.potential(x, 1), network.potential(x, 1), atol=1e-5)
    assert np.abs(energy.velocity(x, 1) - alone.velocity(x, 1)).max() > 0.1


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_field_has_a_network_of_its_own_and_maps_are_as_without(share, tmp_path):
    """Files keep it, as the options that were left open do not decide on it."""
    envelopes = sj.Kantorovich(softness=0.05, n_members=2)
    asked = sj.Stacked(share=share, kantorovich=envelopes, network=QUICK)
    adata, without = fitted(asked), fitted(replace(asked, chance=0))
    np.testing.assert_array_equal(adata.obsm["jko_predicted"][adata.obs["day"] < 7], _moved(without))
    assert np.abs(adata.obsm["jko_velocity"] - without.obsm["jko_velocity"]).max() > 0.05
    adata.write_h5ad(tmp_path / "fit.h5ad")
    read, x = sj.get.energy(anndata.read_h5ad(tmp_path / "fit.h5ad")), adata.obsm["X_latent"]
    np.testing.assert_array_equal(read.potential(x, 2), sj.get.energy(adata).potential(x, 2))
    np.testing.assert_array_equal(read.step(x, 1, 2), sj.get.energy(adata).step(x, 1, 2))
    assert sj.get.params(adata)["parametrization"].chance == asked.chance


def _moved(adata):
    return adata.obsm["jko_predicted"][adata.obs["day"] < 7]


def test_members_of_networks_are_those_of_the_field_too():
    network = sj.Neural(layers=(8,), epochs=20, n_members=2)
    kept = sj.Kantorovich(softness=0.05, n_members=2)
    adata = fitted(sj.Stacked(share=1.0, kantorovich=kept, network=network))
    energy = sj.get.energy(adata)
    assert energy.has_std and len(energy.members) == 2
    assert (energy.std(adata.obsm["X_latent"], 2).velocity > 0).all()


@pytest.mark.parametrize("options", [{"growth": "auto"}, {"coupling": "partial"}, {"time_varying": False}])
def test_masses_that_change_already_are_not_freed_again(options):
    asked = sj.Stacked(network=QUICK, **({} if "time_varying" in options else {"share": 1.0, "kantorovich": ONE_PLAN}))
    assert sj.get.params(fitted(asked, **options))["parametrization"].chance == 0


@pytest.mark.parametrize(("value", "error"), [(-1, ValueError), (np.inf, ValueError), ("much", TypeError)])
def test_what_counts_as_chance_is_a_number_from_zero(value, error):
    with pytest.raises(error, match="chance"):
        sj.Stacked(chance=value)


def test_wells_of_one_depth_come_out_as_deep_although_proportions_differ():
    """Seed 12 has the most unequal proportions of seeds 10 to 13."""
    adata = sj.datasets.simulated(1500, 20, random_state=12)
    wells, drop = adata.uns["landscape"]["fates"], adata.uns["landscape"]["depth"].mean()
    spread = {}
    for chance in (0.0, 3.0):
        asked = sj.Stacked(share=1.0, kantorovich=ONE_PLAN, network=sj.Neural(epochs=40), chance=chance)
        sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=asked, progress=False)
        spread[chance] = np.ptp(sj.get.energy(adata).potential(wells, 7)) / drop
    assert spread[3.0] < 0.12 < 0.25 < spread[0.0]


def test_everything_that_reads_a_fit_reads_this_one():
    adata = fitted(KINDS[1].values[0])
    between = sj.tl.interpolate(adata, 1.5)
    assert np.isfinite(between.obsm["X_jko"]).all()
    assert np.isfinite(sj.tl.predict(adata).obsm["X_jko"]).all()
    matrix = sj.tl.transition_matrix(adata, 5, copy=True)
    assert matrix is not None
    sj.pl.history(adata, show=False)


def test_what_was_chosen_and_why_is_stored():
    adata = fitted(sj.Stacked(network=LONGER))
    table = adata.uns["jko"]["choice"]
    assert {"softness", "share", "n_members", "updates", "error", "chosen", "left_open"} == set(table)
    assert table["chosen"].sum() == 1 and np.isfinite(table["error"]).all()
    chosen = sj.get.params(adata)["parametrization"]
    assert chosen.share == table["share"][table["chosen"]][0]


def test_a_validation_leaves_open_again_what_held_out_cells_chose():
    """Its cells must have no say in settings; options that were named stay."""
    adata = fitted(sj.Stacked(network=LONGER, kantorovich=sj.Kantorovich(n_members=2)))
    assert list(adata.uns["jko"]["choice"]["left_open"]) == ["share", "softness"]
    taken = earlier_options(adata, "jko", None).parametrization
    assert taken.share is None and taken.kantorovich == sj.Kantorovich(n_members=2) and taken.network.epochs == 100
    alone = fitted(sj.Kantorovich(softness=0.05, n_members=2))
    assert earlier_options(alone, "jko", None).parametrization == sj.Kantorovich(softness=0.05, n_members=2)


def test_the_history_shows_what_was_chosen_and_by_which_errors():
    adata = fitted(sj.Stacked(network=sj.Neural(layers=(8,))))
    drawn = sj.pl.history(adata, show=False)
    axes = drawn[-1] if isinstance(drawn, list) else drawn
    table = adata.uns["jko"]["choice"]
    own = (table["share"] == 0) & (table["n_members"] == 8)
    curve = next(line for line in axes.lines if line.get_label() == "network")
    np.testing.assert_array_equal(curve.get_xdata(), table["updates"][own])
    np.testing.assert_array_equal(curve.get_ydata(), table["error"][own])


def test_a_potential_without_training_has_no_history():
    with pytest.raises(ValueError, match="no network was trained"):
        sj.pl.history(fitted(KINDS[0].values[0]), show=False)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda own: own.pop("heights"), "lacks heights"),
        (lambda own: own.update(points=own["points"][:, :-1]), "points has the shape"),
        (lambda own: own.update(softness=np.float32(0)), "softness is not above zero"),
    ],
    ids=["missing", "shape", "softness"],
)
def test_damaged_envelopes_are_refused_by_name(change, message):
    adata = fitted(KINDS[0].values[0])
    change(adata.uns["jko"]["weights"]["potential"]["0"])
    with pytest.raises(ValueError, match=message):
        sj.get.energy(adata)


@pytest.mark.parametrize(
    ("options", "culprit"),
    [
        ({"share": 1.5}, "share=1.5"),
        ({"network": "small"}, "network must be sj.Neural"),
        ({"kantorovich": sj.Neural()}, "kantorovich must be sj.Kantorovich"),
    ],
    ids=["share", "network", "kantorovich"],
)
def test_options_that_make_no_sense_are_refused(options, culprit):
    with pytest.raises((TypeError, ValueError), match=culprit):
        sj.Stacked(**options)
