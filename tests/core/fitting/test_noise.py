"""The strength of the noise, on an Ornstein-Uhlenbeck process from a narrow start, where the data determine it."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.energy.specification import Internal, Terms
from scjko.core.fitting import noise
from scjko.core.fitting.fit import fit
from scjko.core.fitting.noise import estimate_noise, halved_scores
from scjko.core.fitting.parametrizations import Linear
from scjko.core.fitting.problem import Course, Formulation
from scjko.core.schemes import MIDPOINT
from scjko.core.timeline import Timeline
from scjko.core.transport import couple
from scjko.core.variation import Static

#: dX = −a X dt + √(2β) dW from variance 0.05.
PULL, BETA, TIMES = 1.0, 0.5, 0.15 * np.arange(5)
SEEDS = range(4)


def process(seed, n=300, scale=1.0):
    rng = np.random.default_rng(seed)
    variance = BETA / PULL + (0.05 - BETA / PULL) * np.exp(-2 * PULL * TIMES)
    return [scale * np.sqrt(v) * rng.normal(size=(n, 2)) for v in variance]


def course_of(points, times=TIMES):
    return Course(points, [np.full(len(x), 1 / len(x)) for x in points], couple(points), Timeline(times))


def units_for(course):
    return Formulation.of(course, MIDPOINT, Static()).units


@pytest.fixture(scope="module")
def estimates():
    """β of independent samples of the process."""
    found = []
    for seed in SEEDS:
        course = course_of(process(seed))
        found.append(estimate_noise(course, units_for(course), False, 3, seed))
    return found


def test_noise_is_estimated_and_its_error_is_of_the_right_order(estimates):
    beta, error = (np.array([getattr(e, name) for e in estimates]) for name in ("beta", "error"))
    assert beta.mean() == pytest.approx(BETA, rel=0.15)
    # Each within three of its errors, and these as large as the estimates scatter, up to what four of them tell.
    assert (np.abs(beta - BETA) < 3 * error + 0.05 * BETA).all()
    scatter = np.sqrt(np.mean((beta - BETA) ** 2))
    assert 0.4 < np.median(error) / scatter < 2.5


def test_noise_is_in_the_units_of_the_user(estimates, monkeypatch):
    """Coordinates ten times as large, and times in units of a tenth: β a thousand times as large."""
    monkeypatch.setattr(noise, "N_HALVES", 2)
    course = course_of(process(0, scale=10.0), TIMES / 10)
    found = estimate_noise(course, units_for(course), False, 3, 0)
    assert found.beta == pytest.approx(1000 * estimates[0].beta, rel=1e-3)


def test_the_scheme_does_not_change_the_estimate_and_the_potential_is_left_what_remains(estimates, monkeypatch):
    """β is estimated apart; what each scheme fits besides is the pull a = 1, up to the length of its step."""
    monkeypatch.setattr(noise, "N_HALVES", 2)
    points, terms = process(0), Terms.of(["potential", Internal(n_components=3)])
    couplings, pull = couple(points), {}
    for scheme in ("both", "explicit", "implicit"):
        quadratic = Linear(degree=2, n_centers=0, ridge=1e-6)
        options = {"parametrization": quadratic, "terms": terms, "scheme": scheme, "time_varying": False}
        fitted = fit(points, couplings, Timeline(TIMES), **options)
        assert fitted.energy.beta == fitted.noise.beta == pytest.approx(estimates[0].beta, rel=1e-6)
        pull[scheme] = np.trace(fitted.energy.hessian(np.zeros((1, 2)), 0)[0]) / 2
    assert pull["both"] == pytest.approx(PULL, abs=0.35)
    assert pull["implicit"] < pull["both"] < pull["explicit"]


def test_two_snapshots_say_nothing_of_the_error():
    course = course_of(process(0)[:2], TIMES[:2])
    found = estimate_noise(course, units_for(course), False, 3, 0)
    assert found.error == np.inf and np.isfinite(found.beta) and found.beta >= 0


def test_without_noise_the_estimate_is_not_above_its_error():
    """Cells that contract and do not spread: β is zero up to its error, and never negative."""
    rng = np.random.default_rng(0)
    points = [np.exp(-t) * rng.normal(size=(300, 2)) + [t, 0] for t in TIMES]
    course = course_of(points)
    found = estimate_noise(course, units_for(course), False, 3, 0)
    assert 0 <= found.beta < 3 * found.error


def test_scores_of_either_half_agree_in_the_population_and_differ_in_their_errors():
    course = course_of(process(0))
    formulation = Formulation.of(course, MIDPOINT, Static())
    problem = formulation.problem(formulation.conditions(course))
    one, other = np.moveaxis(halved_scores(problem, 3, 0), 1, 0)
    assert one.shape == problem.z.shape
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.95
    assert not np.allclose(one, other, rtol=1e-3)
    # −z / variance of each middle, of a Gaussian population in the units of the fit.
    place = problem.place
    for k in np.unique(place):
        z = problem.z[place == k].astype(np.float64)
        expected = -(z - z.mean(axis=0)) / z.var()
        error = (one[place == k] + other[place == k]) / 2 - expected
        assert np.sqrt(np.mean(error**2) / np.mean(expected**2)) < 0.2
