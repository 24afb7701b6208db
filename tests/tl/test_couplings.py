"""Couplings behind ``tl.fit_energy``: those of every solver, and ready-made ones of every kind."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from anndata import AnnData
from helpers import assert_same
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import scjko as sj
from scjko.cli.demo import velocity_cosines
from scjko.core.transport import exact

QUICK = {"parametrization": sj.Neural(epochs=2), "progress": False}


@pytest.mark.parametrize(
    "coupling", ["multiscale", sj.Batched(size=100), "sinkhorn"], ids=["multiscale", "batched", "sinkhorn"]
)
@pytest.mark.usefixtures("mixed_ranks")
def test_other_couplings_recover_the_motion_too(fitted, coupling):
    options = {"parametrization": sj.Neural(epochs=60), "progress": False}
    sj.tl.fit_energy(fitted, "day", use_rep="X_latent", coupling=coupling, **options)
    assert velocity_cosines(fitted).mean() > 0.85


def matrices(adata, kind):
    couplings = {}
    days = np.unique(adata.obs["day"])
    for t0, t1 in zip(days[:-1], days[1:], strict=True):
        here, there = adata[adata.obs["day"] == t0], adata[adata.obs["day"] == t1]
        coupling = exact(here.obsm["X_latent"], there.obsm["X_latent"])
        matrix = sparse.coo_matrix((coupling.weight, (coupling.source, coupling.target)), shape=coupling.shape)
        # Any scale will do.
        couplings[t0, t1] = kind(7 * matrix, here.obs_names, there.obs_names)
    return couplings


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(lambda m, a, b: m, id="coo"),
        pytest.param(lambda m, a, b: m.tocsr(), id="csr"),
        pytest.param(lambda m, a, b: m.toarray(), id="dense"),
        pytest.param(lambda m, a, b: pd.DataFrame(m.toarray(), a, b).sample(frac=1, random_state=0), id="names"),
        pytest.param(
            lambda m, a, b: AnnData(m.tocsr(), pd.DataFrame(index=a), pd.DataFrame(index=b))[::-1, ::-1], id="anndata"
        ),
        pytest.param(lambda m, a, b: aslinearoperator(m), id="operator"),
    ],
)
def test_ready_made_couplings_give_what_solved_ones_do(adata, rng, kind):
    adata = adata[rng.permutation(adata.n_obs)].copy()
    options = {"use_rep": "X_latent", **QUICK}
    solved = sj.tl.fit_energy(adata, "day", copy=True, **options)
    given = sj.tl.fit_energy(adata, "day", coupling=matrices(adata, kind), copy=True, **options)
    assert given.uns["jko"]["params"]["coupling"] == "ready-made"
    np.testing.assert_allclose(given.uns["jko"]["couplings"]["cost"], solved.uns["jko"]["couplings"]["cost"])
    # The order of summation differs.
    np.testing.assert_allclose(given.obsm["jko_velocity"], solved.obsm["jko_velocity"], atol=1e-3)


def spoiled(change):
    def kind(m, a, b):
        dense = m.toarray()
        change(dense)
        return dense

    return kind


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (lambda m, a, b: m.T, "has shape"),
        (spoiled(lambda m: m.__setitem__((0, 0), -1)), "negative, NaN"),
        (spoiled(lambda m: m.__setitem__((0, 0), np.nan)), "negative, NaN"),
        (spoiled(lambda m: m.fill(0)), "no mass"),
        (lambda m, a, b: pd.DataFrame(m.toarray(), a, b).rename(index={a[0]: "stranger"}), "'stranger'"),
    ],
)
def test_couplings_that_do_not_fit_are_named(adata, kind, said):
    before = adata.copy()
    with pytest.raises(ValueError) as error:
        sj.tl.fit_energy(adata, "day", coupling=matrices(adata, kind), **QUICK)
    assert said in str(error.value) and "(0, 1)" in str(error.value)
    assert_same(adata, before)


def test_missing_and_strange_intervals_are_named(adata):
    couplings = matrices(adata, lambda m, a, b: m)
    couplings[0, 7] = couplings.pop((1.0, 2.0))
    with pytest.raises(ValueError, match=r"missing: \(1, 2\); not consecutive time points: \(0, 7\)"):
        sj.tl.fit_energy(adata, "day", coupling=couplings, **QUICK)
    with pytest.raises(TypeError, match="coupling must be a solver"):
        sj.tl.fit_energy(adata, "day", coupling=[1, 2], **QUICK)
