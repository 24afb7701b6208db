"""``get.params``: what is recorded suffices to repeat a fit, to the bit."""

from __future__ import annotations

import anndata
import numpy as np
import pytest
from helpers import assert_same
from scipy import sparse

import scjko as sj
from scjko.core.energy.specification import TERMS
from scjko.core.transport import budget

QUICK = {"parametrization": sj.Neural(epochs=2), "progress": False}
STAGES = {0: "a/b", 1: "b", 2: "c", 4: "d", 7: "e"}
LINE = {"parametrization": sj.Linear(degree=1, n_centers=0), "n_pcs": 2, "time_varying": False}
FITS = {
    "defaults": (
        {},
        {
            **{"coupling": sj.Exact(), "use_rep": "X_pca", "n_pcs": 10, "time_varying": True, "terms": ("potential",)},
            "parametrization": sj.Neural(epochs=2),
        },
    ),
    "network": (
        {
            **{"parametrization": sj.Neural(layers=(8,), epochs=20), "n_pcs": 2, "whiten": True, "scheme": "implicit"},
            **{"random_state": 7, "terms": TERMS[::2]},
        },
        {
            **{"parametrization": sj.Neural(layers=(8,), epochs=20), "n_pcs": 2, "whiten": True, "scheme": "implicit"},
            **{"random_state": 7, "terms": TERMS[::2]},
        },
    ),
    "linear": (
        {"parametrization": sj.Linear(degree=2, n_centers=4), "time_varying": "smooth", "n_pcs": 2},
        {"parametrization": sj.Linear(degree=2, n_centers=4, ridge="auto"), "time_varying": "smooth"},
    ),
    "terms with options": (
        {"terms": ("potential", sj.Interaction(even=True), sj.Internal(n_components=2)), **LINE},
        {"terms": ("potential", sj.Interaction(even=True), sj.Internal(n_components=2)), **LINE},
    ),
    "partial": (
        {"coupling": sj.Partial(price=3, memory_limit=2)},
        {"coupling": sj.Partial(price=3.0, tolerance=0.01, memory_limit=2.0)},
    ),
    "batches": ({"coupling": sj.Batched(size=20)}, {"coupling": sj.Batched(size=20)}),
    "labels": (
        {"time_key": "stage", "time_values": {name: day for day, name in STAGES.items()}, "coupling": "multiscale"},
        {"time_values": {name: float(day) for day, name in STAGES.items()}, "coupling": sj.Multiscale()},
    ),
}


@pytest.mark.parametrize(("options", "expected"), FITS.values(), ids=FITS.keys())
def test_a_fit_is_repeated_to_the_bit_from_memory_and_from_a_file(adata, tmp_path, options, expected):
    adata.obs["stage"] = adata.obs["day"].map(STAGES).astype("category")
    bare = adata.copy()
    sj.tl.fit_energy(adata, **{"time_key": "day", **QUICK, **options})
    params = sj.get.params(adata)
    assert expected.items() <= params.items()
    adata.write_h5ad(tmp_path / "fit.h5ad")
    read = sj.get.params(anndata.read_h5ad(tmp_path / "fit.h5ad"))
    assert read == params
    assert {name: type(value) for name, value in read.items()} == {n: type(v) for n, v in params.items()}
    again = sj.tl.fit_energy(bare, **read, progress=False, copy=True)
    # "auto" is recorded by what it chose.
    again.uns["jko"]["params"]["coupling"] = adata.uns["jko"]["params"]["coupling"]
    assert_same(again, adata)


def test_what_was_left_to_the_fit_is_said_as_it_was_chosen(fitted, adata):
    chosen, table = sj.get.params(fitted)["parametrization"], fitted.uns["jko"]["choice"]
    assert isinstance(chosen, sj.Stacked) and not chosen.left_open
    assert chosen.share == table["share"][table["chosen"]].item()
    sj.tl.fit_energy(adata, "day", 2, parametrization="neural", progress=False)
    assert sj.get.params(adata)["parametrization"] == sj.Neural(epochs=len(adata.uns["jko"]["history"]["loss"]))


def test_another_key_has_its_own(adata):
    sj.tl.fit_energy(adata, "day", 2, key_added="two", **QUICK)
    assert sj.get.params(adata, "two")["n_pcs"] == 2 and sj.get.params(adata, "two")["key_added"] == "two"
    with pytest.raises(KeyError, match="fit_energy"):
        sj.get.params(adata)


def test_couplings_that_were_handed_in_are_asked_for_again(adata):
    days = sorted(adata.obs["day"].unique())
    sizes = adata.obs["day"].value_counts()
    plans = {pair: sparse.random(*sizes[list(pair)], 0.2, random_state=0) for pair in zip(days, days[1:], strict=False)}
    sj.tl.fit_energy(adata, "day", coupling=plans, **QUICK)
    params = sj.get.params(adata)
    assert params["coupling"] == "ready-made"
    with pytest.raises(ValueError, match=r"pass them again as coupling=\{\(t0, t1\): matrix\}"):
        sj.tl.fit_energy(adata, **params)
    assert_same(sj.tl.fit_energy(adata, **{**params, "coupling": plans}, progress=False, copy=True), adata)


def test_what_auto_chose_by_size_is_said_unless_it_chose_both(adata, monkeypatch):
    sizes = adata.obs["day"].value_counts()
    monkeypatch.setattr(budget, "LARGEST_EXACT", int(sizes.min() * sizes.max()))
    sj.tl.fit_energy(adata, "day", 2, coupling=sj.Auto(memory_limit=0.5), **QUICK)
    assert set(adata.uns["jko"]["couplings"]["solver"]) == {"exact", "multiscale"}
    assert sj.get.params(adata)["coupling"] == sj.Auto(memory_limit=0.5)
    monkeypatch.setattr(budget, "LARGEST_EXACT", 0)
    sj.tl.fit_energy(adata, "day", 2, **QUICK)
    assert sj.get.params(adata)["coupling"] == sj.Multiscale()
    sj.tl.fit_energy(adata, "day", 2, coupling=sj.Auto(tolerance=0.2), **QUICK)
    assert sj.get.params(adata)["coupling"] == sj.Multiscale(tolerance=0.2)
    assert sj.get.couplings(adata)
    # A solver of version 0.1: the fit opens, and its couplings are solved by what took its place.
    stored = adata.uns["jko"]
    stored["couplings"]["solver"] = np.array(["decomposed"] * len(stored["couplings"]["solver"]))
    assert sj.get.params(adata)["coupling"] == sj.Multiscale(tolerance=0.2)
    assert sj.get.couplings(adata)
