"""Embryoid bodies, on cells never seen: the published protocols, through the public functions."""

from __future__ import annotations

import pytest

import scjko as sj


@pytest.fixture
def embryoid_body(shared_data):
    path = shared_data / "embryoid_body" / "eb_pca5.npz"
    if not path.exists():
        pytest.skip(f"{path} is missing")
    return sj.datasets.embryoid_body(path)


def validate(adata, **options):
    frame = sj.tl.validate(adata, "day", whiten="all", progress=False, **options)
    print(frame.attrs["verdict"])
    return frame.groupby("method")["emd"].mean()


def test_default_fit_predicts_unseen_cells(embryoid_body):
    """0.617 is the reference implementation's error, and 0.516 the best without training (shared evidence).

    The mean of five splits is measured by ``scjko bench embryoid --full``; this one is within 0.003 of it.
    """
    means = validate(embryoid_body, n_splits=1)
    assert means["scjko"] <= 0.520
    assert means["floor"] < means["scjko"] < means["ot_neighbours"] < means["ot_nearest"] < means["persistence"]


@pytest.mark.nightly
def test_the_papers_own_setting_with_a_solved_proximal_step(embryoid_body):
    means = validate(embryoid_body, n_splits=1, scheme="implicit", parametrization=sj.Neural(time_label="target"))
    assert means["scjko"] <= 0.61
