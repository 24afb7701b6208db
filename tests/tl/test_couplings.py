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
    "coupling",
    ["multiscale", "partial", sj.Batched(size=100), "sinkhorn"],
    ids=["multiscale", "partial", "batched", "sinkhorn"],
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


@pytest.fixture
def stray(adata):
    """Cells of which two of day 2 are far from all others: a partial coupling leaves them over on both sides."""
    lost = np.flatnonzero(adata.obs["day"] == 2)[:2]
    adata.obsm["X_latent"][lost] += np.array([[40.0, 0.0], [0.0, -40.0]])
    return adata, lost


@pytest.mark.parametrize("scheme", ["both", "explicit", "implicit"])
def test_cells_that_are_left_over_do_no_harm(stray, scheme, caplog):
    """They have no condition, but are moved as all others are; whatever is made of them is finite."""
    adata, lost = stray
    with caplog.at_level("INFO", "scjko"):
        sj.tl.fit_energy(adata, "day", use_rep="X_latent", coupling="partial", scheme=scheme, **QUICK)
    dropped = adata.uns["jko"]["couplings"]["dropped"]
    assert dropped.shape == (4,) and (dropped[1:3] > 0).all() and (dropped < 0.2).all()
    assert f"{100 * dropped[1]:.2g} % between 1 and 2" in caplog.text and "Mass left uncoupled: " in caplog.text
    assert "Partial couplings" not in caplog.text, "they are exact"
    for (start, stop), plan in sj.get.couplings(adata).items():
        assert plan.sum() == pytest.approx(1)
        sums = [np.asarray(plan.sum(axis=axis)).ravel() for axis in (1, 0)]
        for time, masses in zip((start, stop), sums, strict=True):
            if time == 2:
                assert (masses[:2] == 0).all()
    for field in ("jko_velocity", "jko_predicted"):
        assert np.isfinite(adata.obsm[field]).all()
    assert np.isfinite(adata.obs["jko_potential"]).all()
    sj.tl.transition_matrix(adata, 5)
    np.testing.assert_allclose(adata.obsp["jko_transition"].sum(axis=1), 1, rtol=1e-6)
    assert np.isfinite(sj.tl.predict(adata[lost].copy()).obsm["X_jko"]).all()
    if scheme == "both":
        between = sj.tl.interpolate(adata, 1.5)
        assert np.isfinite(between.obsm["X_jko"]).all()
        assert set(adata.obs_names[lost]) <= set(between.obs["jko_source"])


@pytest.mark.parametrize("parametrization", [sj.Neural(epochs=2), sj.Linear(degree=2, n_centers=0)], ids=["net", "lin"])
def test_all_terms_are_fitted_to_partial_couplings(stray, parametrization):
    adata, _ = stray
    terms = ("potential", "interaction", sj.Internal(n_components=2))
    options = {"terms": terms, "parametrization": parametrization, "progress": False, "time_varying": False}
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", coupling=sj.Partial(price=3), **options)
    assert np.isfinite(adata.obsm["jko_predicted"]).all()


def test_a_price_that_leaves_nothing_is_an_error_that_writes_nothing():
    points = np.zeros((8, 2))
    points[4:] += 1
    adata = AnnData(obs=pd.DataFrame({"day": np.repeat([0.0, 1.0], 4)}, index=map(str, range(8))))
    adata.obsm["X_pca"] = points
    before = adata.copy()
    with pytest.raises(ValueError, match=r"price=0.5 leaves all mass of 4 and 4 cells uncoupled.*larger price"):
        sj.tl.fit_energy(adata, "day", coupling=sj.Partial(price=0.5), **QUICK)
    assert_same(adata, before)


def test_wells_of_equal_depth_come_out_more_equal(rng):
    """Cells fall into two equal wells; their shares differ by chance from one time point to the next."""
    shares, points, days = (0.5, 0.56, 0.44), [], []
    for day, share in enumerate(shares):
        side = np.where(np.arange(200) < 200 * share, 1.0, -1.0)
        points.append(np.stack([side * (2 + day), np.zeros(200)], axis=1) + 0.3 * rng.normal(size=(200, 2)))
        days += [float(day)] * 200
    adata = AnnData(obs=pd.DataFrame({"day": days}, index=map(str, range(600))))
    adata.obsm["X_pca"] = np.concatenate(points)
    last, right = np.array(days) == 2, adata.obsm["X_pca"][:, 0] > 0

    def difference(coupling):
        options = {"parametrization": sj.Linear(degree=4, n_centers=0), "coupling": coupling, "progress": False}
        height = sj.tl.fit_energy(adata, "day", copy=True, **options).obs["jko_potential"].to_numpy()
        return abs(height[last & right].mean() - height[last & ~right].mean())

    assert difference("partial") < 0.3 * difference("exact")
