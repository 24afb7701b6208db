"""Generated particles: every step against the formula, and nothing that pairs them up."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import cKDTree

import scjko as sj
from scjko.benchmarks import functionals, generate
from scjko.benchmarks._generate import snapshots_of


def reordered(x, like):
    """``x`` in the order of its nearest points in ``like``, each used once."""
    order = cKDTree(x).query(like)[1]
    assert len(set(order)) == len(x)
    return x[order]


def test_a_step_follows_potential_and_interaction():
    adata = generate("oakley_ohagan", "watershed", n_particles=50, n_steps=1)
    (x, y) = (np.concatenate(part) for part in zip(*(snapshots_of(adata, s) for s in ("train", "test")), strict=True))
    push = np.array([functionals["watershed"].gradient(a - x).mean(axis=0) for a in x])
    expected = x - 0.01 * (functionals["oakley_ohagan"].gradient(x) + push)
    np.testing.assert_allclose(reordered(y, expected), expected, atol=1e-5)
    start = adata.obs["time"].to_numpy() == 0
    at = np.asarray(adata.obsm["X_latent"])[start]
    np.testing.assert_allclose(adata.obs["true_potential"][start], functionals["oakley_ohagan"](at), rtol=1e-4)
    velocity = np.concatenate([x, (expected - x) / 0.01], axis=1)
    found = np.concatenate([at, adata.obsm["true_velocity"][start]], axis=1)
    np.testing.assert_allclose(reordered(found, velocity), velocity, atol=1e-3)


def test_noise_has_the_variance_of_beta():
    adata = generate(beta=0.5, n_particles=5000, n_steps=1, tau=0.04, start=np.zeros((10000, 2)))
    # 2βτ, known to 1.4 % from 10000 numbers.
    assert np.var(snapshots_of(adata, "train")[1]) == pytest.approx(2 * 0.5 * 0.04, rel=0.06)


def test_a_potential_may_vary_in_time():
    adata = generate(lambda v, t: t * jnp.sum(v), n_particles=3, n_steps=3, tau=0.5, start=np.zeros((6, 2)))
    # Pushed by times 0, 0.5 and 1.
    for x, expected in zip(snapshots_of(adata, "test"), (0, 0, -0.25, -0.75), strict=True):
        np.testing.assert_allclose(x, expected, atol=1e-6)


def test_a_default_of_a_function_is_not_the_time():
    plain, other = (
        generate(f, n_particles=5, n_steps=1) for f in (lambda v: jnp.sum(v**2), lambda v, a=1.0: a * jnp.sum(v**2))
    )
    np.testing.assert_array_equal(plain.obsm["X_latent"], other.obsm["X_latent"])


def test_an_implicit_step_solves_its_equation():
    adata = generate("styblinski_tang", n_particles=100, n_steps=1, scheme="implicit")
    x, y = snapshots_of(adata, "test")
    back = y + 0.01 * functionals["styblinski_tang"].gradient(y)
    np.testing.assert_allclose(reordered(x, back), back, atol=2e-3)


def test_particles_are_unpaired_and_held_out():
    adata = generate("flat", n_particles=200, n_steps=2)
    train, test = snapshots_of(adata, "train"), snapshots_of(adata, "test")
    for snapshots in (train, test):
        for other in snapshots[1:]:
            assert (snapshots[0] == other).all(axis=1).mean() < 0.1
            np.testing.assert_array_equal(np.sort(snapshots[0], axis=0), np.sort(other, axis=0))
    assert not set(map(tuple, train[0])) & set(map(tuple, test[0]))


def test_the_same_seed_gives_the_same_particles():
    one, two, other = (generate("relu", beta=0.1, n_particles=20, random_state=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.obsm["X_latent"], two.obsm["X_latent"])
    assert (one.obsm["X_latent"] != other.obsm["X_latent"]).all()
    assert one.uns["truth"] == {
        **{"potential": "relu", "interaction": "none"},
        **{"beta": 0.1, "tau": 0.01, "scheme": "explicit"},
    }


def test_it_can_be_written_and_fitted(tmp_path):
    adata = generate("sphere", n_particles=100)
    train = adata[adata.obs["split"] == "train"].copy()
    options = {"parametrization": "linear", "scheme": "explicit", "time_varying": False, "progress": False}
    sj.tl.fit_energy(train, "time", use_rep="X_latent", **options)
    adata.write_h5ad(tmp_path / "a.h5ad")
    np.testing.assert_allclose(train.obsm["jko_velocity"], train.obsm["true_velocity"], atol=0.5)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"potential": "cube"}, KeyError, "'cube' is not a functional; choose one of styblinski_tang"),
        ({"potential": "ishigami", "n_dims": 1}, ValueError, "ishigami needs at least 2 dimensions"),
        ({"beta": -0.1}, ValueError, "beta=-0.1 must be a number of at least zero"),
        ({"beta": True}, ValueError, "beta=True must be a number"),
        ({"random_state": -1}, ValueError, "random_state=-1 is too small"),
        ({"start": np.full((20, 2), np.nan)}, ValueError, "start holds NaN"),
        ({"interaction": lambda v, t: t * v.sum()}, ValueError, "An interaction does not vary in time"),
        ({"tau": 0.0}, ValueError, "tau=0.0 must be finite and above zero"),
        ({"start": np.zeros((3, 2))}, ValueError, r"start has shape \(3, 2\)"),
        ({"scheme": "implicit", "beta": 0.1}, ValueError, "for a potential alone"),
        ({"potential": "styblinski_tang", "tau": 10.0}, FloatingPointError, "Step .* with potential styblinski_tang"),
        (
            {"potential": "sphere", "tau": 1.0, "scheme": "implicit"},
            FloatingPointError,
            "implicit step to time 1 with potential sphere has no solution",
        ),
    ],
)
def test_bad_input_is_named(options, error, words):
    with pytest.raises(error, match=words):
        generate(**{"n_particles": 10, **options})
