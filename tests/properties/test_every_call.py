"""Whatever the data are: finite results, or an error of ours that leaves the data as they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from anndata import AnnData
from generated import Course, assert_finite, case, cases, courses, far, heard, nightly, outcome
from helpers import assert_same
from hypothesis import event, given
from hypothesis import strategies as st
from scipy import sparse

import scjko as sj
from scjko.edge.times import read_times

pytestmark = [
    pytest.mark.properties,
    pytest.mark.usefixtures("mixed_ranks"),  # for Sinkhorn
    pytest.mark.filterwarnings("ignore:Observation names are not unique"),
]

#: Infinite by definition where they say so: β from one interval, normal equations without a solution of their own, and
#: the ratio by which forecasts were judged where there were none. The gap of a coupling without a bound is NaN, and the
#: difference from duals that are flat.
MAY_BE_INFINITE = ("beta_error", "condition_number", "dual_difference", "gap", "ratio")
QUICK = {"parametrization": sj.Neural(layers=(8,), epochs=3), "progress": False}
LINEAR = sj.Linear(degree=1, n_centers=4)


def fitted(course: Course, **options: Any) -> AnnData | None:
    """The course with its fit, checked; None if there was an error, checked too."""
    adata = course.anndata()
    before = adata.copy()
    options = {**QUICK, "weight_key": "weight" if course.weighted else None, **options}
    error = outcome(sj.tl.fit_energy, adata, "time", **options)
    if error is not None:
        event(f"{type(error).__name__}: {str(error)[:40]}")
        return None
    assert_finite({"obs": adata.obs, "obsm": adata.obsm, "uns": adata.uns["jko"]}, but=MAY_BE_INFINITE)
    theirs = adata.copy()
    theirs.obs = theirs.obs[before.obs.columns]
    for name in set(theirs.obsm) - set(before.obsm):
        del theirs.obsm[name]
    del theirs.uns["jko"]
    assert_same(theirs, before)
    return adata


def follow(adata: AnnData, draw: Any) -> None:
    """Every call that reads a fit."""
    before = adata.copy()
    energy = sj.get.energy(adata)
    x, first, last = adata.obsm["X_jko"], *energy.times[[0, -1]]
    t = draw(st.floats(first, last))
    for asked in ("potential", "gradient", "velocity", "hessian"):
        assert_finite(getattr(energy, asked)(x[:5], t), asked)
    weighty = x[np.asarray(adata.obs["weight"] > 0)] if energy_weighted(adata) else x
    assert not (far(adata.obsm["jko_predicted"], weighty) & adata.obs["jko_converged"]).any()
    later = last + np.array([0.5, 1.0, 3.0, 10.0]) * energy.timeline.gaps[-1]
    with heard() as said:
        path = energy.simulate(x[:5], [*energy.times, *later])
    assert_finite(path, "simulate")
    warned = any("left the range of the data" in text for text in said)
    assert warned or not far(path.reshape(-1, x.shape[1]), weighty).any(), "cells ran away in silence"
    calls: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
        "predict": (sj.tl.predict, (), {"scheme": draw(st.sampled_from([None, "explicit", "implicit"]))}),
        "interpolate": (sj.tl.interpolate, (t,), {"density_prior": draw(st.sampled_from(["auto", None, 0.5]))}),
        "forecast": (sj.tl.predict, (later[-1],), {}),
        "forecast of a population": (sj.tl.interpolate, (later[1],), {"density_prior": None}),
        "couplings": (sj.get.couplings, (), {}),
        "transition_matrix": (sj.tl.transition_matrix, (3,), {"copy": True}),
    }
    for name, (call, arguments, options) in calls.items():
        found = outcome(call, adata, *arguments, **options)
        if isinstance(found, Exception):
            event(f"{name}: {found}"[:60])
            assert name == "interpolate" and energy.scheme.name == "explicit", found
        elif isinstance(found, AnnData):
            assert_finite({"obs": found.obs, "obsm": found.obsm, "obsp": found.obsp}, name)
            if "jko_source" in found.obs:
                flagged = ~found.obs["jko_converged"].to_numpy()
                assert flagged[far(found.obsm["X_jko"], weighty)].all(), f"{name}: cells ran away in silence"
        else:
            assert_finite({str(times): plan for times, plan in found.items()}, name)
    assert_same(adata.copy(), before)
    adata.obsm["X_flat"] = np.asarray(x[:, [0, -1]])
    adata.obsp["connectivities"] = neighbours(adata.n_obs)
    assert outcome(sj.tl.velocity_embedding, adata, "flat") is None
    assert_finite(adata.obsm["jko_velocity_flat"], "velocity_embedding")


def energy_weighted(adata: AnnData) -> bool:
    """Whether the fit was one of weighted cells."""
    return "weight_key" in adata.uns["jko"]["params"]


def neighbours(n_cells: int) -> sparse.csr_matrix:
    """A ring: every cell has the next two as neighbours."""
    return sparse.csr_matrix(sparse.diags_array([1.0, 1.0, 1.0, 1.0], offsets=[-2, -1, 1, 2], shape=(n_cells, n_cells)))


@cases(10, 110)
@given(course=courses(), data=st.data())
def test_neural_fits_and_what_follows(course, data):
    with case():
        options = {
            "scheme": data.draw(st.sampled_from(["both", "explicit", "implicit"])),
            "whiten": data.draw(st.booleans()),
            "time_varying": data.draw(st.sampled_from([None, False])),
        }
        adata = fitted(course, **options)
        if adata is not None:
            follow(adata, data.draw)


@cases(10, 100)
@given(course=courses(), data=st.data())
def test_linear_fits_and_what_follows(course, data):
    with case():
        options = {
            "scheme": data.draw(st.sampled_from(["both", "explicit", "implicit"])),
            "whiten": data.draw(st.booleans()),
            "time_varying": data.draw(st.sampled_from([False, "smooth", None] if nightly() else [False, "smooth"])),
            "parametrization": sj.Linear(
                ridge=data.draw(st.sampled_from(["auto", 1e-6])),
                n_centers=data.draw(st.sampled_from([4, 0, None] if nightly() else [4])),
                degree=data.draw(st.sampled_from([1, None] if course.n_dims > 5 else [1, 2])),
            ),
        }
        adata = fitted(course, **options)
        if adata is not None:
            follow(adata, data.draw)


@cases(8, 50)
@given(course=courses(smallest=3, most_dims=17), data=st.data())
def test_fits_of_all_terms_and_what_follows(course, data):
    with case():
        terms = ["potential", *data.draw(st.sampled_from([["interaction"], ["internal"], ["internal", "interaction"]]))]
        even = data.draw(st.booleans())
        kinds = [sj.Neural(layers=(8,), epochs=2), LINEAR] if nightly() else [LINEAR]
        options = {
            "terms": [sj.Interaction(even=even) if term == "interaction" else term for term in terms],
            "parametrization": data.draw(st.sampled_from(kinds)),
            "time_varying": data.draw(st.sampled_from([False, "smooth"])) if kinds == [LINEAR] else None,
            "scheme": data.draw(st.sampled_from(["both", "explicit", "implicit"])),
        }
        adata = fitted(course, **options)
        if adata is not None:
            follow(adata, data.draw)


@cases(12, 500)
@given(course=courses(smallest=5, most_dims=5), data=st.data())
def test_cells_that_were_held_out_do_not_run_away_in_silence(course, data):
    """A linear fit to 60 % of the cells, which may fall without end beyond them, predicts the other 40 %: whatever goes
    further than three times the diameter of the data is flagged, counted in a warning, and finite."""
    with case():
        adata = course.anndata()
        rng, held_out = np.random.default_rng(course.seed + 2), np.zeros(adata.n_obs, dtype=bool)
        times = read_times(adata.obs["time"])
        for time in np.unique(times):
            rows = rng.permutation(np.flatnonzero(times == time))
            held_out[rows[: round(0.4 * len(rows))]] = True
        train, test = adata[~held_out].copy(), adata[held_out].copy()
        options = {
            "parametrization": sj.Linear(degree=4, n_centers=9, ridge=data.draw(st.sampled_from(["auto", 1e-6]))),
            "time_varying": data.draw(st.sampled_from([None, False, "smooth"])),
            "scheme": data.draw(st.sampled_from(["both", "explicit", "implicit"])),
            "weight_key": "weight" if course.weighted else None,
            "progress": False,
        }
        if outcome(sj.tl.fit_energy, train, "time", **options) is not None:
            return
        test.uns["jko"] = train.uns["jko"]
        with heard() as said:
            predicted = outcome(sj.tl.predict, test)
        if isinstance(predicted, Exception):
            return
        assert_finite(predicted.obsm, "predicted")
        known = train.obsm["X_jko"][np.asarray(train.obs["weight"] > 0)] if course.weighted else train.obsm["X_jko"]
        gone = far(predicted.obsm["X_jko"], known)
        event(f"cells ran away: {gone.any()}")
        assert not predicted.obs["jko_converged"][gone].any()
        assert not gone.any() or any("left the range of the data" in text for text in said)


@pytest.mark.nightly
@pytest.mark.parametrize("sizes", [(3, 3000), (3000, 3), (3, 3000, 3)])
@pytest.mark.parametrize("options", [{}, {"parametrization": sj.Linear(degree=2, n_centers=4)}])
def test_three_cells_against_three_thousand(sizes, options):
    adata = fitted(Course(sizes, n_dims=2, seed=0, gaps=(1.0,) * (len(sizes) - 1)), **options)
    assert adata is not None
    found = outcome(sj.tl.interpolate, adata, 0.5)
    assert_finite(found.obsm)
    assert_finite(outcome(sj.tl.predict, adata).obsm)


@cases(14, 200)
@given(course=courses(), data=st.data())
def test_every_coupling(course, data):
    """The plans of every solver have the marginals of the snapshots, or less of them by what they leave over."""
    with case():
        # Sinkhorn's program is compiled for each size of the snapshots.
        coupling = data.draw(
            st.sampled_from(["auto", "multiscale", "partial", "batched"] + ["exact", "sinkhorn"] * nightly())
        )
        options = {"parametrization": sj.Linear(degree=1, n_centers=0), "time_varying": False}
        size = data.draw(st.integers(2, 8))
        adata = fitted(course, coupling=sj.Batched(size=size) if coupling == "batched" else coupling, **options)
        if adata is None:
            return
        weight = adata.obs["weight"].to_numpy() if course.weighted else np.ones(adata.n_obs)
        times = read_times(adata.obs["time"])
        left = 1 - adata.uns["jko"]["couplings"]["dropped"]
        for kept, ((start, stop), plan) in zip(left, sj.get.couplings(adata).items(), strict=True):
            # Sinkhorn's iterations stop at a thousandth; batches give their mass to as many cells of the other side.
            rough = {"sinkhorn": 5e-3, "batched": np.inf}.get(coupling, 1e-9)
            for time, axis in ((start, 1), (stop, 0)):
                mass = kept * np.asarray(plan.sum(axis=axis)).ravel()
                mean = weight[times == time] / weight[times == time].sum()
                assert np.abs(mass - mean).sum() <= rough + (1 - kept)
                assert kept == 1 or (mass <= mean + rough).all()


@cases(10, 60)
@given(course=courses(smallest=4), data=st.data())
def test_validation(course, data):
    with case():
        adata = course.anndata()
        options = {
            **QUICK,
            "protocol": data.draw(st.sampled_from(["cells", "times"])),
            "whiten": data.draw(st.sampled_from([False, True, "all"])),
            "weight_key": "weight" if course.weighted else None,
            "parametrization": data.draw(st.sampled_from([QUICK["parametrization"], LINEAR])),
            "time_varying": False,
            "n_splits": 1,
        }
        frame = outcome(sj.tl.validate, adata, "time", **options)
        if isinstance(frame, Exception):
            event(f"{type(frame).__name__}: {str(frame)[:40]}")
            return
        assert_finite(frame)
        assert (frame["emd"] >= 0).all() and len(frame)
