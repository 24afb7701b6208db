from __future__ import annotations

import logging
from types import SimpleNamespace

import anndata
import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from helpers import assert_same, simulate
from scipy import sparse

import scjko as sj
from scjko.core.landscape.chart import chart
from scjko.core.landscape.tracks import tracked
from scjko.edge.landscape import Charted, relief_of

FIXED = {"parametrization": sj.Kantorovich(n_members=2, softness=0.03), "use_rep": "X_latent", "progress": False}


@pytest.fixture(scope="module")
def _charted():
    adata = simulate(800)
    sj.tl.fit_energy(adata, "day", coupling="partial", **FIXED)
    sj.tl.landscape(adata, cluster_key="fate")
    return adata


@pytest.fixture
def charted(_charted):
    return _charted.copy()


def styblinski_tang(n=1000, tau=0.005):
    """Particles before and after one step down a known potential, as pairs that are known."""
    x = np.random.default_rng(0).uniform(-4, 4, (n, 2))
    y = x - tau * (2 * x**3 - 16 * x + 2.5)
    obs = pd.DataFrame({"time": np.repeat([0.0, tau], n)}, index=np.arange(2 * n).astype(str))
    adata = AnnData(obs=obs, obsm={"X_latent": np.concatenate([x, y])})
    known = {"coupling": {(0, tau): sparse.eye_array(n, format="csr")}, "time_varying": False, "scheme": "explicit"}
    sj.tl.fit_energy(adata, "time", use_rep="X_latent", parametrization="linear", progress=False, **known)
    return adata


def ordered(points):
    """Points in an order that does not depend on rounding."""
    points = np.asarray(points)
    return points[np.lexsort(np.round(points).T)]


def test_wells_saddles_and_barriers_of_a_known_potential():
    adata = styblinski_tang()
    sj.tl.landscape(adata, 0, min_barrier=0.01, paths=False)
    found = adata.uns["jko_landscape"]
    at = np.sort(np.roots([2, 0, -16, 2.5]).real)
    value = (at**4 - 16 * at**2 + 5 * at) / 2
    wells = found["wells"]
    expected = [(a, b) for a in at[[0, 2]] for b in at[[0, 2]]]
    np.testing.assert_allclose(ordered(wells["position"]), ordered(expected), atol=0.1)
    assert wells["solved"].all() and wells["resting"].all() and (wells["curvature"] > 0).all()
    passes = [(at[1], b) for b in at[[0, 2]]] + [(a, at[1]) for a in at[[0, 2]]]
    np.testing.assert_allclose(ordered(found["saddles"]["position"]), ordered(passes), atol=0.1)
    barriers = found["barriers"]
    right = wells["position"][barriers["from"], 0] > 0, wells["position"][barriers["to"], 0] > 0
    level = np.isclose(*(wells["position"][barriers[end], 1] for end in ("from", "to")), atol=0.2)
    for one, rise in ((True, value[1] - value[2]), (False, value[1] - value[0])):
        here = level & (right[0] == one) & (right[1] != one)
        np.testing.assert_allclose(barriers["height"][here], rise, rtol=0.1)
    basin = adata.obs["jko_basin"][:1000]
    assert basin.notna().all() and adata.obs["jko_basin"][1000:].isna().all()
    sides = pd.crosstab(basin, np.sum((adata.obsm["X_latent"][:1000] > 0.16) * [1, 2], axis=1))
    assert (sides.max(axis=1) / sides.sum(axis=1)).min() > 0.9


def test_fates_are_wells(charted):
    found, wells = charted.uns["jko_landscape"], charted.uns["jko_landscape"]["wells"]
    last = wells["time"] == 7
    assert last.sum() == 3
    fates = charted.uns["landscape"]["fates"]
    np.testing.assert_allclose(ordered(wells["position"][last][:, ::-1]), ordered(fates[:, ::-1]), atol=1.0)
    rows = (charted.obs["day"] == 7).to_numpy()
    own = charted.obs["jko_basin"][rows].astype(str).str.replace(r" \(\d\)", "", regex=True)
    assert np.mean(own == charted.obs["fate"][rows].astype(str)) > 0.95
    assert sorted(name[:6] for name in wells["name"][last]) == ["fate 1", "fate 2", "fate 3"]
    assert found["times"].tolist() == [0, 1, 2, 4, 7]
    actions = found["actions"]
    assert actions["well"].tolist() == np.flatnonzero(last).tolist() and (actions["action"] >= 0).all()
    np.testing.assert_allclose(actions["path"][:, -1], wells["position"][last])
    assert actions["time"][[0, -1]].tolist() == [0, 7]
    assert (wells["error"] > 0).all()


def test_columns_have_one_length_and_point_to_wells(charted):
    found = charted.uns["jko_landscape"]
    for group in ("wells", "saddles", "barriers", "events"):
        assert len({len(column) for column in found[group].values()}) == 1, group
    wells, saddles, barriers = (found[name] for name in ("wells", "saddles", "barriers"))
    assert (wells["time"][saddles["wells"]] == saddles["time"][:, None]).all()
    assert (wells["time"][barriers["from"]] == barriers["time"]).all()
    assert (barriers["height"] >= 0).all()
    np.testing.assert_allclose(saddles["path"][:, 0], wells["position"][saddles["wells"][:, 0]])
    np.testing.assert_allclose(saddles["path"][:, -1], wells["position"][saddles["wells"][:, 1]])
    low = wells["height"][saddles["wells"]].max(axis=1)
    assert (saddles["height"] >= low).all()


def test_it_is_read_back_from_files_and_the_same_again(charted, tmp_path):
    for name, read in (("a.h5ad", anndata.read_h5ad), ("a.zarr", anndata.read_zarr)):
        getattr(charted, f"write_{name[2:]}")(tmp_path / name)
        back = read(tmp_path / name)
        assert back.obs["jko_basin"].astype(str).equals(charted.obs["jko_basin"].astype(str))
        for group, columns in charted.uns["jko_landscape"].items():
            stored = back.uns["jko_landscape"][group]
            pairs = [(stored, columns)] if group == "times" else [(stored[c], columns[c]) for c in columns]
            for one, other in pairs:
                np.testing.assert_array_equal(one, other)
    again = sj.tl.landscape(charted, cluster_key="fate", copy=True)
    assert_same(again, charted)


def test_one_time_between_two_takes_the_cells_of_both(charted):
    sj.tl.landscape(charted, 5.5, paths=False)
    assert charted.uns["jko_landscape"]["wells"]["n_cells"].sum() > (charted.obs["day"] == 7).sum()
    assert charted.obs["jko_basin"].isna().all()


def test_errors_are_those_of_the_members():
    """Heights of the members of an energy at a well differ by a constant: barriers do not."""
    energy = sj.get.energy(styblinski_tang(400))
    cells = np.random.default_rng(0).uniform(-4, 4, (400, 2))
    one = chart(relief_of(energy, 0.0, cells), cells, shallow=0.01)

    class Raised:
        def __init__(self, shift, factor):
            self.shift, self.factor = shift, factor

        def potential(self, x, t):
            return self.factor * energy.potential(x, t) + self.shift

    def stored(members):
        spread = SimpleNamespace(potential=np.sqrt(2))  # of two members that have nothing in common
        several = SimpleNamespace(members=members, spread=spread, has_std=True, potential=energy.potential, n_dims=2)
        return Charted(several, np.zeros(1), [one], [np.arange(400)], tracked([one])).to_uns(list("abcd"))

    shifted = stored((Raised(0.0, 1.0), Raised(2.0, 1.0)))
    np.testing.assert_allclose(shifted["wells"]["error"], np.sqrt(2))
    np.testing.assert_allclose(shifted["barriers"]["error"], 0, atol=1e-9)
    scaled = stored((Raised(0.0, 0.9), Raised(0.0, 1.1)))["barriers"]
    np.testing.assert_allclose(scaled["error"], np.sqrt(0.02) * scaled["height"], rtol=1e-3)


def test_equal_wells_have_one_height_where_growth_takes_up_chance():
    """Seeds 0 to 5: they differ by 0.1 to 0.8 of the drop with balanced couplings, by up to 0.05 with growth."""
    adata = sj.datasets.simulated(800, random_state=10)
    spread = {}
    for growth in (None, "auto"):
        sj.tl.fit_energy(adata, "day", growth=growth, **FIXED)
        truth = adata.uns["landscape"]
        heights = sj.get.energy(adata).potential(truth["fates"], 7.0)
        spread[growth] = np.ptp(heights) / truth["depth"].mean()
    assert spread["auto"] < 0.2 < spread[None]


def test_one_potential_explains_a_flow(adata, caplog):
    sj.tl.fit_energy(adata, "day", **FIXED)
    with caplog.at_level(logging.INFO, logger="scjko"):
        sj.tl.landscape(adata, 7, paths=False, test_gradient=True)
    test = adata.uns["jko_landscape"]["gradient"]
    assert test["follows"] and test["expected"].shape == (19,)
    assert "move down one landscape" in caplog.text


def test_observed_velocities_are_compared_and_what_turns_is_said(charted, caplog):
    """The true velocity is a gradient. Nothing of a turn along the ellipse of the cells of a day is one.

    The force (c y, c x) that is nearest to (−y σ_x / σ_y, x σ_y / σ_x) has c = 0; to a circular turn it has not.
    """
    day, x, turned = charted.obs["day"].to_numpy(), charted.obsm["X_latent"], np.zeros((800, 2))
    for own in np.unique(day):
        z = x[day == own] - x[day == own].mean(axis=0)
        z = z @ np.linalg.cholesky(np.linalg.inv(np.cov(z.T)))
        turned[day == own] = z @ np.array([[0.0, 1.0], [-1.0, 0.0]]) @ np.linalg.cholesky(np.cov(x[day == own].T)).T
    charted.obsm["turned"] = np.concatenate([turned, turned], axis=1)  # more components than were fitted
    with caplog.at_level(logging.INFO, logger="scjko"):
        sj.tl.landscape(charted, 1, paths=False, velocity_key="true_velocity")
    follows = charted.uns["jko_landscape"]["velocity"]
    assert "of that" in caplog.text and "dual potentials" in caplog.text
    sj.tl.landscape(charted, 1, paths=False, velocity_key="turned")
    turns = charted.uns["jko_landscape"]["velocity"]
    assert charted.uns["jko_landscape"]["params"]["velocity_key"] == "turned"
    np.testing.assert_array_equal(turns["time"], [1])
    assert (follows["cosine"] > 0.8).all() and (follows["cosine"] > follows["shuffled"]).all()
    assert (follows["cosine"] > turns["cosine"] + 0.3).all()
    assert (follows["curl"] < 0.15).all() and (turns["curl"] > 0.5).all()


def test_velocities_that_cannot_be_compared_are_named(charted):
    before = charted.copy()
    charted.obsm["few"] = charted.obsm["X_latent"][:, :1]
    charted.obsm["gaps"] = np.where(np.arange(800)[:, None] == 5, np.nan, charted.obsm["X_latent"])
    for options, error, message in (
        ({"velocity_key": "nothing"}, KeyError, "velocity_key='nothing'"),
        ({"velocity_key": "few"}, ValueError, "1 components and the fit 2"),
        ({"velocity_key": "gaps"}, ValueError, "NaN or infinite values for 1 of 800"),
        ({"velocity_key": 3}, TypeError, "velocity_key"),
        ({"velocity_key": "true_velocity", "time": 0.5}, ValueError, "40 cells"),
    ):
        with pytest.raises(error, match=message):
            sj.tl.landscape(charted, **options)
    del charted.obsm["few"], charted.obsm["gaps"]
    assert_same(charted, before)


def test_an_energy_with_interaction_is_said_to_have_no_fixed_landscape(adata, caplog):
    adata = adata[adata.obs["day"] > 2].copy()
    options = {"parametrization": sj.Linear(degree=2, n_centers=10, ridge=1e-3), "terms": ("potential", "interaction")}
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", progress=False, **options)
    with caplog.at_level(logging.WARNING, logger="scjko"):
        sj.tl.landscape(adata, 7, paths=False)
    assert "the potential V alone" in caplog.text


def test_bad_input_is_named(charted):
    before = charted.copy()
    for options, message in (
        ({"time": 9}, "covers 0 to 7"),
        ({"support": 1.0}, "support"),
        ({"min_barrier": -1}, "min_barrier"),
        ({"cluster_key": "nothing"}, "nothing"),
        ({"key": "other"}, "other"),
    ):
        with pytest.raises((ValueError, KeyError), match=message):
            sj.tl.landscape(charted, **options)
    with pytest.raises(ValueError, match="fewer cells than dimensions"):
        sj.tl.landscape(charted[charted.obs["day"] == 7][:2].copy(), 7)
    assert_same(before, charted)


def test_two_time_points_cannot_be_tested(adata):
    two = adata[adata.obs["day"] < 2].copy()
    sj.tl.fit_energy(two, "day", **FIXED)
    with pytest.raises(ValueError, match="three time points"):
        sj.tl.landscape(two, test_gradient=True)
