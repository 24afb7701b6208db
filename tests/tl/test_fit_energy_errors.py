"""``tl.fit_energy``: what is wrong is named, and whatever stops a fit, nothing is written."""

from __future__ import annotations

import numpy as np
import pytest
from helpers import assert_same

import scjko as sj
from scjko.edge.storage import fields as storage
from scjko.tl import _fit_energy

QUICK = {"parametrization": sj.Neural(epochs=3), "progress": False}


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
    "couplings of one interval": ({"coupling": {(0, 1): None}}, None, ValueError, ["missing: (1, 2), (2, 4), (4, 7)"]),
    "number as coupling": ({"coupling": 3}, None, TypeError, ["coupling must be a solver", "'exact'", "3"]),
    "class for an object": ({"coupling": sj.Exact}, None, TypeError, ["coupling must be a solver", "Exact"]),
    "ready-made by name": ({"coupling": "ready-made"}, None, ValueError, ["coupling={(t0, t1): matrix}"]),
    "unknown coupling": (
        {"coupling": "closest"},
        None,
        ValueError,
        ["'closest'", "'exact', 'multiscale', 'partial', 'batched', 'sinkhorn'"],
    ),
    "label that nothing reads": (
        {"parametrization": sj.Neural(time_label="target"), "time_varying": False},
        None,
        ValueError,
        ["time_label='target' has no effect with time_varying=False"],
    ),
    "unknown term": ({"terms": ("gravity",)}, None, ValueError, ["'gravity'", "'potential'"]),
    "unknown parametrization": ({"parametrization": "cubic"}, None, ValueError, ["'cubic'", "'neural', 'linear'"]),
    "class for a parametrization": ({"parametrization": sj.Neural}, None, ValueError, ["Neural", "'neural', 'linear'"]),
    "no potential": ({"terms": ("internal",)}, None, ValueError, ["('internal',)", "must contain 'potential'"]),
    "a term twice": ({"terms": ("potential", "potential")}, None, ValueError, ["every term once"]),
    "number as term": ({"terms": ("potential", 3)}, None, ValueError, ["terms=3", "'internal'"]),
    "one term as text": ({"terms": "potential"}, None, TypeError, ["terms", "'potential'"]),
    "whiten as text": ({"whiten": "no"}, None, TypeError, ["whiten", "'no'"]),
    "time varying as text": ({"time_varying": "no"}, None, ValueError, ["time_varying='no'"]),
    "smooth network": ({"time_varying": "smooth"}, None, ValueError, ["time_varying='smooth'"]),
    "large batch": ({"coupling": "batched"}, None, ValueError, ["size=1000 of sj.Batched", "cells at 0"]),
    "no such weights": ({"weight_key": "mass"}, None, KeyError, ["weight_key='mass'"]),
    "key of the data": ({"key_added": "pca"}, None, ValueError, ["key_added='pca'", "uns['pca']"]),
    "list as key": ({"time_key": ["day"]}, None, TypeError, ["time_key", "['day']"]),
    "almost equal times": ({}, with_day(lambda day: day.replace(1, 2 + 1e-9)), ValueError, ["too close", "'day'"]),
    "list of time values": ({"time_values": [1, 2]}, None, TypeError, ["time_values", "list"]),
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

    write = storage.write_fields
    monkeypatch.setattr(
        _fit_energy, "write_fields", lambda *args, obsm, **rest: write(*args, obsm=Interrupted(obsm), **rest)
    )
    with pytest.raises(KeyboardInterrupt):
        sj.tl.fit_energy(adata, "day", 3, **QUICK)
    assert_same(adata, before)


def test_devices_that_are_not_there_are_missed_before_anything_is_coupled(adata, monkeypatch):
    monkeypatch.setattr(_fit_energy, "couple_snapshots", lambda *args: pytest.fail("it began to couple"))
    with pytest.raises(ValueError, match="n_devices=99, but JAX has"):
        sj.tl.fit_energy(adata, "day", parametrization=sj.Neural(n_devices=99), progress=False)
