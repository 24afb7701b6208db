"""Tools that write into a view make data of their own of it, without a warning, and leave the whole alone."""

from __future__ import annotations

import pytest
import scanpy as sc

import scjko as sj

QUICK = {"n_splits": 1, "parametrization": sj.Linear(degree=1, n_centers=0), "progress": False}


@pytest.mark.parametrize(
    ("call", "slot", "name"),
    [
        (lambda view: sj.tl.validate(view, "day", use_rep="X_latent", **QUICK), "uns", "jko_validation"),
        (lambda view: sj.tl.transition_matrix(view, 5), "obsp", "jko_transition"),
        (lambda view: sj.tl.velocity_embedding(view, "latent"), "obsm", "jko_velocity_latent"),
    ],
    ids=["validate", "transition_matrix", "velocity_embedding"],
)
def test_a_view_becomes_data_of_its_own(fitted, call, slot, name):
    sc.pp.neighbors(fitted, use_rep="X_latent")
    view = fitted[::2]
    call(view)
    assert name in getattr(view, slot) and not view.is_view
    assert name not in getattr(fitted, slot)
