"""Fits with members: standard deviations and prediction regions, stored, read and checked."""

from __future__ import annotations

from dataclasses import replace

import anndata
import numpy as np
import pytest
from helpers import simulate

import scjko as sj
from scjko.core.fitting.ensembles.resampling import resampled
from scjko.core.fitting.problem import Course
from scjko.core.timeline import Timeline
from scjko.core.transport import couple

QUICK = sj.Neural(layers=(8,), epochs=20, n_members=4)
KINDS = [
    pytest.param(QUICK, id="networks"),
    pytest.param(sj.Kantorovich(softness=0.05, n_members=4), id="kantorovich"),
    pytest.param(sj.Linear(n_members=4, degree=2, n_centers=5, ridge=1e-3), id="linear"),
    pytest.param(
        sj.Stacked(share=0.5, kantorovich=sj.Kantorovich(softness=0.05), network=QUICK), id="both, with members"
    ),
]


def fitted(parametrization, n_cells=200, **options):
    adata = simulate(n_cells)
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", parametrization=parametrization, progress=False, **options)
    return adata


@pytest.mark.parametrize(
    ("kind", "form"), [(kind.values[0], "zarr" if k % 2 else "h5ad") for k, kind in enumerate(KINDS)]
)
def test_members_are_read_back_to_the_bit_and_average_to_the_energy(kind, form, tmp_path):
    adata = fitted(kind)
    energy, file = sj.get.energy(adata), tmp_path / f"fit.{form}"
    getattr(adata, f"write_{form}")(file)
    read = sj.get.energy(getattr(anndata, f"read_{form}")(file))
    x, t = adata.obsm["X_latent"], adata.obs["day"].to_numpy()
    std = energy.std(x, t)
    for one, other in zip(std, read.std(x, t), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(adata.obs["jko_potential_std"], std.potential)
    np.testing.assert_allclose(adata.obsm["jko_velocity_std"], std.velocity, rtol=1e-6)
    assert len(energy.members) == len(read.members) == 4
    mean = np.mean([member.velocity(x, t) for member in energy.members], axis=0)
    np.testing.assert_allclose(energy.velocity(x, t), mean, atol=1e-4)
    region, again = (each.region(x[t == 1], 1, 2, level=0.8) for each in (energy, read))
    np.testing.assert_array_equal(region.center, energy.step(x[t == 1], 1, 2))
    assert region.radius[0] == again.radius[0] > 0


def test_members_beside_one_network_have_regions_and_no_standard_deviations():
    """The field is that of the network alone, and its members are the same."""
    envelopes = sj.Kantorovich(softness=0.05, n_members=4)
    adata = fitted(sj.Stacked(share=0.5, kantorovich=envelopes, network=sj.Neural(layers=(8,), epochs=20)))
    energy, x = sj.get.energy(adata), adata.obsm["X_latent"]
    assert "jko_potential_std" not in adata.obs and energy.region(x, 0, 1).radius[0] > 0
    with pytest.raises(ValueError, match=r"Stacked\(network=sj.Neural\(n_members=8\)\)"):
        energy.std(x, 0)


def test_heights_of_members_follow_the_same_convention():
    """The mean of each is zero over its own cells of the first snapshot, and about zero over all of them."""
    adata = fitted(KINDS[1].values[0], 400)
    energy = sj.get.energy(adata)
    first = adata.obs["day"].to_numpy() == 0
    x = adata.obsm["X_latent"][first]
    means = [member.potential(x, 0).mean() for member in energy.members]
    assert np.abs(means).max() < 0.2 * energy.potential(x, 0).std()


def test_errors_fall_with_the_number_of_cells():
    few, many = (fitted(KINDS[1].values[0], n) for n in (200, 1600))
    for field in ("jko_potential_std",):
        assert many.obs[field].mean() < 0.7 * few.obs[field].mean()
    assert np.median(many.obsm["jko_velocity_std"]) < 0.7 * np.median(few.obsm["jko_velocity_std"])


@pytest.mark.parametrize("solver", [sj.Sinkhorn(epsilon=0.05), sj.Batched(size=5)])
def test_members_are_coupled_as_the_whole_was(solver, mixed_ranks, rng):
    """Blurred plans shrink velocities; members coupled otherwise would not average to such an energy."""
    points = list(rng.normal(size=(2, 16, 2)))
    weights = [np.full(16, 1 / 16)] * 2
    course = Course(points, weights, couple(points, weights, [solver]), Timeline(np.array([0.0, 1.0])))
    for part in resampled(course, 2, 0, solver):
        expected = replace(solver, size=5) if isinstance(solver, sj.Batched) else solver
        own = expected.solve(part.points[0], part.points[1], part.weights[0], part.weights[1])
        np.testing.assert_array_equal(part.couplings[0].weight, own.weight)


def test_other_terms_have_members_too():
    adata = fitted(sj.Linear(n_members=2, degree=2, n_centers=0, ridge=1e-3), terms=("potential", "interaction"))
    energy = sj.get.energy(adata)
    x = adata.obsm["X_latent"]
    kernels = np.stack([member.interaction(x) for member in energy.members])
    np.testing.assert_allclose(kernels.mean(axis=0), energy.interaction(x), atol=1e-4)
    assert (energy.std(x, 1.5).velocity > 0).all()


def test_one_fit_has_no_standard_deviation_and_says_what_has():
    energy = sj.get.energy(fitted(sj.Kantorovich(softness=0.05, n_members=1)))
    assert energy.members == ()
    for call in (lambda: energy.std(np.zeros((1, 2)), 0), lambda: energy.region(np.zeros((1, 2)), 0, 1)):
        with pytest.raises(ValueError, match=r"fitted once.*n_members=8"):
            call()


@pytest.mark.parametrize("kind", [sj.Neural, sj.Linear])
def test_odd_numbers_of_members_are_refused(kind):
    with pytest.raises(ValueError, match=r"n_members=1 must be even"):
        kind(n_members=1)
    with pytest.raises(ValueError, match="must be the same"):
        sj.Stacked(kantorovich=sj.Kantorovich(n_members=2), network=sj.Neural(n_members=4))


def test_too_few_cells_to_resample_are_an_error_or_leave_no_errors(caplog):
    adata = simulate(200)
    days = adata.obs["day"].to_numpy()
    kept = np.sort(np.concatenate([np.flatnonzero(days == d)[: 2 if d == 0 else None] for d in np.unique(days)]))
    few = adata[kept].copy()
    with pytest.raises(ValueError, match="the smallest snapshot has 2"):
        sj.tl.fit_energy(few, "day", use_rep="X_latent", parametrization=QUICK, progress=False)
    with caplog.at_level("INFO", logger="scjko"):
        sj.tl.fit_energy(few, "day", use_rep="X_latent", parametrization=KINDS[1].values[0], progress=False)
    assert "jko_potential_std" not in few.obs and "too few to resample" in caplog.text


def test_ready_made_couplings_cannot_be_coupled_anew():
    adata = simulate(200)
    with pytest.raises(ValueError, match="n_members=4 couples resampled cells anew"):
        sj.tl.fit_energy(adata, "day", parametrization=QUICK, coupling={(0, 1): np.ones((2, 2))}, progress=False)


def test_members_that_do_not_fit_into_memory_are_refused(monkeypatch):
    monkeypatch.setattr("scjko.core.fitting.ensembles.training.machine_memory", lambda: 10_000)
    with pytest.raises(ValueError, match="use fewer members"):
        fitted(QUICK)


def test_members_that_diverge_are_counted():
    with pytest.raises(FloatingPointError, match="of 4 members"):
        fitted(sj.Neural(layers=(8,), epochs=20, n_members=4, learning_rate=1e6))


def test_regions_lead_from_a_time_point_to_the_next():
    energy = sj.get.energy(fitted(KINDS[1].values[0]))
    with pytest.raises(ValueError, match="from a time point to the next, of 0, 1, 2, 4, 7; not from 0 to 2"):
        energy.region(np.zeros((1, 2)), 0, 2)


def test_a_validation_says_how_many_cells_regions_hold():
    adata = simulate(600, times=(0, 2, 4))
    options = {"use_rep": "X_latent", "parametrization": KINDS[1].values[0], "progress": False, "n_splits": 3}
    frame = sj.tl.validate(adata, "day", **options)
    ours = frame[frame["method"] == "scjko"]
    assert 0.8 < ours["coverage"].mean() < 0.98 and (ours["sharpness"] > 0).all()
    assert frame.loc[frame["method"] != "scjko", "coverage"].isna().all()
    assert "90 % prediction regions hold" in frame.attrs["verdict"]
    times = sj.tl.validate(adata, "day", protocol="times", **options)
    assert "coverage" not in times and "regions" not in times.attrs["verdict"]


@pytest.mark.parametrize("entry", ["offsets", "potential", "radii"])
def test_a_damaged_spread_is_refused(entry):
    adata = fitted(KINDS[1].values[0])
    spread = adata.uns["jko"]["spread"]
    damaged = {"offsets": spread["offsets"][:1], "potential": -1.0, "radii": {**spread["radii"], "levels": np.ones(3)}}
    spread[entry] = damaged[entry]
    with pytest.raises(ValueError, match=f"spread/{entry}"):
        sj.get.energy(adata)
