"""Heights against the dual potentials of couplings."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from helpers import simulate

from scjko.core.fitting.fit import fit
from scjko.core.fitting.heights import dual_difference
from scjko.core.fitting.parametrizations import Kantorovich, Linear
from scjko.core.timeline import Timeline
from scjko.core.transport import Batched, Exact, couple


@pytest.fixture(scope="module")
def points():
    adata = simulate(300)
    return [adata.obsm["X_latent"][adata.obs["day"] == day] for day in (0, 1, 2)]


def fitted(points, solver, **options):
    couplings = couple(points, None, [solver] * 2)
    return fit(points, couplings, Timeline(np.array([0.0, 1.0, 2.0])), **options)


def test_potentials_made_of_the_duals_have_their_heights(points):
    sharp, blurred = (
        fitted(points, Exact(), parametrization=Kantorovich(n_members=1, softness=softness))
        for softness in (0.003, 3.0)
    )
    close, far = (dual_difference(found.energy, found.course) for found in (sharp, blurred))
    assert (close < 0.1).all() and (far > 2 * close).all()


def test_constants_do_not_count_and_a_flat_energy_lacks_all(points):
    found = fitted(points, Exact(), parametrization=Linear(degree=2, n_centers=5, ridge=1e-3))
    term, before = found.energy.potential_term, dual_difference(found.energy, found.course)
    raised = replace(found.energy, potential_term=replace(term, offsets=term.offsets + 7))
    np.testing.assert_allclose(dual_difference(raised, found.course), before, rtol=1e-6)
    flat = replace(term, weights={**term.weights, "theta": 0 * term.weights["theta"]})
    np.testing.assert_allclose(dual_difference(replace(found.energy, potential_term=flat), found.course), 1, rtol=1e-4)


def test_couplings_without_duals_say_nothing(points):
    found = fitted(points, Batched(size=20), parametrization=Linear(degree=2, n_centers=5, ridge=1e-3))
    assert dual_difference(found.energy, found.course) is None
