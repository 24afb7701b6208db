"""Fates, descendants, ancestors and transition tables of simulated cells."""

from __future__ import annotations

import anndata as ad
import numpy as np
import pandas as pd
import pytest
from helpers import assert_same, simulate
from scipy import sparse

import scjko as sj

QUICK = {"parametrization": sj.Kantorovich(n_members=1), "progress": False}


@pytest.fixture(scope="module")
def _cells():
    adata = simulate(600, random_state=10)
    sj.tl.fit_energy(adata, "day", 5, **QUICK)
    return adata


@pytest.fixture
def cells(_cells):
    """Cells on their way to three known fates, with a fit."""
    return _cells.copy()


def test_fates_are_probabilities_and_mostly_the_true_ones(cells, tmp_path):
    sj.tl.fates(cells, "fate")
    table = cells.obsm["jko_fates"]
    assert list(table.columns) == ["fate 1", "fate 2", "fate 3"] and (table.index == cells.obs_names).all()
    np.testing.assert_allclose(table.sum(axis=1), 1)
    early = (cells.obs["day"] < 7).to_numpy()
    committed = early & (cells.obs["commitment"] > 0.6).to_numpy()
    right = cells.obs["jko_fate"].astype(str) == cells.obs["fate"].astype(str)
    assert right[committed].mean() > 0.9 and right[~early].all()
    assert cells.obs["jko_terminal"].notna().to_numpy().tolist() == (~early).tolist()
    p = np.clip(table.to_numpy(), 1e-300, 1)
    np.testing.assert_allclose(cells.obs["jko_commitment"], 1 + (p * np.log(p)).sum(axis=1) / np.log(3), atol=1e-6)
    np.testing.assert_allclose(cells.obs["jko_unassigned"], 0, atol=1e-9)
    assert len(cells.uns["jko_fate_colors"]) == 3
    cells.write_h5ad(tmp_path / "fates.h5ad")
    back = ad.read_h5ad(tmp_path / "fates.h5ad")
    pd.testing.assert_frame_equal(back.obsm["jko_fates"], table)
    assert list(back.uns["jko_fates"]["names"]) == list(table.columns)


def test_the_order_of_cells_changes_nothing(cells, rng):
    other = cells[rng.permutation(cells.n_obs)].copy()
    for adata in (cells, other):
        sj.tl.fates(adata, "fate", n_representatives=60)
    moved = other[cells.obs_names].obsm["jko_fates"]
    np.testing.assert_allclose(moved, cells.obsm["jko_fates"], atol=1e-9)


def test_small_tips_and_days_on_the_way_absorb(cells):
    late, x = cells.obs["day"] == 7, cells.obsm["X_latent"]
    tips = {}
    for name, centre in zip(("one", "two"), cells.uns["landscape"]["fates"][[0, 2]], strict=True):
        distance = np.where(late, np.linalg.norm(x - centre, axis=1), np.inf)
        tips[name] = distance <= np.sort(distance)[9]
    sj.tl.fates(cells, terminal=tips)
    found = cells.obsm["jko_fates"]
    ends = cells.obs["fate"].isin(["fate 1", "fate 3"]).to_numpy() & (cells.obs["commitment"] > 0.8).to_numpy()
    right = (cells.obs["jko_fate"] == "one") == (cells.obs["fate"] == "fate 1")
    assert right[ends].mean() > 0.9
    assert (cells.obs["jko_unassigned"][ends & ~late].mean()) < (cells.obs["jko_unassigned"][~ends & ~late].mean())
    # By name, and on an intermediate day.
    names = list(cells.obs_names[tips["one"]])
    middle = (cells.obs["day"] == 4) & (x[:, 1] < 0)
    sj.tl.fates(cells, terminal={"one": names, "low": middle})
    assert (cells.obsm["jko_fates"]["low"][middle] == 1).all()
    assert found.shape == (600, 2)


def test_cells_that_reach_none_are_a_named_category(cells, caplog):
    sj.tl.fates(cells, terminal={"early": (cells.obs["day"] == 2) & (cells.obs["fate"] == "fate 1")})
    late = (cells.obs["day"] > 2).to_numpy()
    table = cells.obsm["jko_fates"]
    assert list(table.columns) == ["early", "unassigned"]
    np.testing.assert_allclose(table.sum(axis=1), 1)
    assert (cells.obs["jko_fate"][late] == "unassigned").all()
    assert (cells.obs["jko_commitment"][late] == 0).all() and (cells.obs["jko_unassigned"][late] == 1).all()
    assert "reach no fate" in caplog.text
    assert len(cells.uns["jko_fate_colors"]) == 2


def test_a_fate_that_nobody_reaches_is_said(cells, caplog):
    first = (cells.obs["day"] == 0).to_numpy()
    sj.tl.fates(cells, terminal={"start": first & (np.cumsum(first) < 5), "end": cells.obs["day"] == 7})
    assert "No cell outside of the terminal set 'start' becomes one of it" in caplog.text


def test_labels_choose_fates_and_colours(cells):
    cells.uns["fate_colors"] = np.array(["#111111", "#222222", "#333333"])
    cells.obs["some"] = cells.obs["fate"].where(cells.obs["fate"] != "fate 2")
    sj.tl.fates(cells, "fate", terminal=["fate 3", "fate 1"])
    one = cells.obsm["jko_fates"]
    assert list(one.columns) == ["fate 1", "fate 3"]
    assert list(cells.uns["jko_fate_colors"]) == ["#111111", "#333333"]
    sj.tl.fates(cells, "some")
    pd.testing.assert_frame_equal(cells.obsm["jko_fates"], one)


def test_wells_of_the_landscape_are_fates(cells, caplog):
    with pytest.raises(KeyError, match=r"run sj\.tl\.landscape\(adata, key='jko'\)"):
        sj.tl.fates(cells, terminal="wells")
    sj.tl.landscape(cells, 4, cluster_key="fate", paths=False)
    with pytest.raises(ValueError, match=r"no basins at the last time point, 7; run sj\.tl\.landscape"):
        sj.tl.fates(cells, terminal="wells")
    sj.tl.landscape(cells, 7, cluster_key="fate", paths=False)
    caplog.set_level("INFO")
    sj.tl.fates(cells, terminal="wells")
    assert "all wells are fates" in caplog.text  # cells are on their way still
    late = (cells.obs["day"] == 7).to_numpy()
    wells, basin = cells.uns["jko_landscape"]["wells"], cells.obs["jko_basin"].astype(str)
    assert list(cells.obsm["jko_fates"].columns) == list(wells["name"]) and len(wells["name"]) > 1
    terminal = cells.obs["jko_terminal"]
    assert (terminal.astype(str) == basin)[late].all() and terminal[~late].isna().all()
    by_wells, terminal = cells.obsm["jko_fates"].copy(), {name: basin == name for name in wells["name"]}
    sj.tl.fates(cells, terminal=terminal)
    pd.testing.assert_frame_equal(cells.obsm["jko_fates"], by_wells)
    # Of three wells two in which cells rest, and one that they pass.
    wells["resting"] = np.arange(len(wells["name"])) < 2
    sj.tl.fates(cells, terminal="wells")
    assert list(cells.obsm["jko_fates"].columns) == list(wells["name"])[:2]
    assert cells.obs["jko_terminal"][late & (basin == wells["name"][2])].isna().all()
    for column in wells:
        wells[column] = wells[column][:1]
    with pytest.raises(ValueError, match="has one well at the last time point, 7, and fates need two"):
        sj.tl.fates(cells, terminal="wells")


def test_growth_counts_descendants(rng):
    """Of cells between a fate that doubles and one that does not, more descendants have the first."""
    adata = simulate(600, growth=(0.4, -0.4), n_fates=2, random_state=11)
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", growth="true_growth", **QUICK)
    sj.tl.fates(adata, "fate")
    with_growth = adata.obsm["jko_fates"]["fate 1"]
    sj.tl.descendants(adata, adata.obs["fate"] == "fate 1", time=1)
    mass = adata.uns["jko_descendants"]["mass"]
    assert (np.diff(mass) > 0).all()
    last = adata.obs["fate"][adata.obs["day"] == 7]
    first = with_growth[adata.obs["day"] == 0].mean()
    assert abs(first - (last == "fate 1").mean()) < 0.1


def test_descendants_and_ancestors_are_shares_of_mass(cells):
    middle = (cells.obs["fate"] == "fate 2") & (cells.obs["commitment"] > 0.6)
    sj.tl.descendants(cells, middle, time=2)
    sj.tl.ancestors(cells, list(cells.obs_names[middle & (cells.obs["day"] == 4)]))
    for name, zero in (("jko_descendants", [0, 1]), ("jko_ancestors", [7])):
        sums = cells.obs.groupby("day")[name].sum()
        expected = [0.0 if day in zero else 1.0 for day in sums.index]
        np.testing.assert_allclose(sums, expected, atol=1e-9)
        assert cells.obs[name].isna().to_numpy().tolist() == cells.obs["day"].isin(zero).to_numpy().tolist()
    later = cells.obs[cells.obs["day"] == 7]
    shares = later.groupby("fate", observed=True)["jko_descendants"].sum()
    assert shares["fate 2"] > shares["fate 1"] + shares["fate 3"]
    assert (np.diff(cells.uns["jko_ancestors"]["n_effective"]) != 0).all()


def dense_plans(cells, rng):
    """Couplings of all intervals as full matrices."""
    sizes = cells.obs["day"].value_counts().sort_index()
    days = list(sizes.index)
    return {(t0, t1): rng.random((sizes[t0], sizes[t1])) for t0, t1 in zip(days[:-1], days[1:], strict=True)}


def test_push_and_pull_of_ready_made_couplings_are_products_with_them(cells, rng):
    """As moscot's push, and as its pull scaled by marginals; as Waddington-OT's trajectories forward."""
    plans = dense_plans(cells, rng)
    here = ((cells.obs["day"] == 1) & (cells.obs["fate"] == "fate 1")).to_numpy()
    sj.tl.descendants(cells, here, couplings=plans)
    at = {day: (cells.obs["day"] == day).to_numpy() for day in (0, 1, 2, 4, 7)}
    mass = here[at[1]].astype(float)
    for pair in ((1.0, 2.0), (2.0, 4.0), (4.0, 7.0)):
        mass = plans[pair].T @ mass
        np.testing.assert_allclose(cells.obs["jko_descendants"][at[pair[1]]], mass / mass.sum(), rtol=1e-9)
    there = ((cells.obs["day"] == 4) & (cells.obs["fate"] == "fate 1")).to_numpy()
    sj.tl.ancestors(cells, there, couplings={pair: sparse.csr_matrix(plan) for pair, plan in plans.items()})
    mass = there[at[4]].astype(float)
    for pair in ((2.0, 4.0), (1.0, 2.0), (0.0, 1.0)):
        mass = plans[pair] @ (mass / plans[pair].sum(axis=0))
        np.testing.assert_allclose(cells.obs["jko_ancestors"][at[pair[0]]], mass / mass.sum(), rtol=1e-9)


def test_transition_tables_are_sums_of_couplings(cells, rng):
    plans = dense_plans(cells, rng)
    table = sj.tl.transition_table(cells, "fate", times=(2, 4), couplings=plans)
    groups = [pd.get_dummies(cells.obs["fate"][cells.obs["day"] == day]).to_numpy(dtype=float) for day in (2, 4)]
    mass = groups[0].T @ plans[2.0, 4.0] @ groups[1]
    np.testing.assert_allclose(table, mass / mass.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(table.attrs["mass"], mass / mass.sum())
    back = sj.tl.transition_table(cells, "fate", times=(2, 4), forward=False, couplings=plans)
    np.testing.assert_allclose(back, mass / mass.sum(axis=0))
    whole = sj.tl.transition_table(cells, "fate")
    assert list(whole.index) == list(whole.columns) and np.diag(whole).min() > 1 / 3
    assert whole.index.name == "fate at 0"


def test_noise_that_was_fitted_decides_how_soft_couplings_are(cells):
    with pytest.raises((ValueError, AttributeError), match="no beta"):
        sj.tl.fates(cells, "fate", epsilon="noise")
    terms = ("potential", "internal")
    sj.tl.fit_energy(cells, "day", use_rep="X_latent", terms=terms, parametrization="linear", progress=False)
    sj.tl.fates(cells, "fate", epsilon="noise")
    assert cells.uns["jko_fates"]["params"]["epsilon"] == "noise"


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, ValueError, "Fates need terminal sets"),
        ({"cluster_key": "type"}, KeyError, "No cluster_key='type'"),
        ({"cluster_key": "none"}, ValueError, "has no labels at the last time point, 7"),
        ({"cluster_key": "fate", "terminal": ["fate 9"]}, ValueError, "no cells at the last time point, 7; there are"),
        ({"cluster_key": "fate", "terminal": {"a": ["cell 1"]}}, ValueError, "leave cluster_key out"),
        ({"terminal": ["fate 1"]}, TypeError, "must be a mapping"),
        ({"terminal": "well"}, TypeError, "or 'wells'"),
        ({"terminal": {"a": ["cell -1"]}}, KeyError, "does not have: 'cell -1'"),
        ({"terminal": {"a": np.zeros(600, bool)}}, ValueError, r"terminal\['a'\] is empty"),
        ({"terminal": {"a": np.zeros(5, bool)}}, TypeError, "for each of the 600 cells"),
        ({"terminal": {"a": ["cell 1"], "b": ["cell 1"]}}, ValueError, "make the sets disjoint"),
        ({"cluster_key": "fate", "epsilon": -1.0}, ValueError, "epsilon=-1"),
        ({"cluster_key": "fate", "beyond": 2}, ValueError, "beyond=2"),
        ({"cluster_key": "fate", "n_representatives": 1}, ValueError, "n_representatives=1"),
        ({"cluster_key": "fate", "couplings": {}, "epsilon": 0.1}, ValueError, "no effect on ready-made"),
        ({"cluster_key": "fate", "key": "other"}, KeyError, "No fitted energy"),
    ],
)
def test_bad_input_is_named_and_changes_nothing(cells, options, error, words):
    cells.obs["none"] = cells.obs["fate"].where(cells.obs["day"] < 7)
    before = cells.copy()
    with pytest.raises(error, match=words):
        sj.tl.fates(cells, **options)
    assert_same(cells, before)


def test_bad_sets_and_times_are_named(cells):
    with pytest.raises(ValueError, match="cells of several times, 0, 1, 2, 4, 7; choose one with time"):
        sj.tl.descendants(cells, cells.obs["fate"] == "fate 1")
    with pytest.raises(ValueError, match="cells has no cells at time=7; it has some at 0"):
        sj.tl.ancestors(cells, cells.obs["day"] == 0, time=7)
    with pytest.raises(ValueError, match="must be two time points, the earlier first"):
        sj.tl.transition_table(cells, "fate", times=(4, 2))
    with pytest.raises(ValueError, match="no cells of time 7"):
        sj.tl.fates(cells[cells.obs["day"] < 7].copy(), "fate")


def test_a_copy_is_returned_and_the_original_kept(cells):
    before = cells.copy()
    made = sj.tl.fates(cells, "fate", copy=True)
    assert "jko_fates" in made.obsm
    assert_same(cells, before)


def test_members_of_an_energy_say_how_sure_fates_are(cells, monkeypatch):
    sj.tl.fates(cells, "fate")
    assert "jko_fates_std" not in cells.obsm
    energy = sj.get.energy(cells)
    other = sj.tl.fit_energy(cells, "day", 5, parametrization="linear", progress=False, copy=True)
    monkeypatch.setattr(type(energy), "members", (energy, sj.get.energy(other)), raising=False)
    sj.tl.fates(cells, "fate")
    spread = cells.obsm["jko_fates_std"]
    assert list(spread.columns) == ["fate 1", "fate 2", "fate 3"] and np.isfinite(spread).all(axis=None)
    late, early = (spread[cells.obs["day"] == day].to_numpy().mean() for day in (7, 1))
    assert late == 0 < early < 0.5
    monkeypatch.setattr(type(energy), "members", (energy, energy), raising=False)
    sj.tl.fates(cells, "fate")
    assert (cells.obsm["jko_fates_std"] == 0).all(axis=None)
