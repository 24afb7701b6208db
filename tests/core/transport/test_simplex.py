import numpy as np
import pytest
from scipy.spatial.distance import cdist

from scjko.core.transport.programs.simplex import simplex, simplex_near


@pytest.mark.parametrize("scale", [0.0, 1.0, 1e3])
def test_an_estimate_of_the_potentials_changes_neither_the_optimum_nor_the_potentials_that_prove_it(rng, scale):
    x, y, a = rng.normal(size=(60, 3)), rng.normal(size=(50, 3)), rng.random(60)
    b = np.full(50, a.sum() / 50)
    cost = cdist(x, y, "sqeuclidean")
    pairs = tuple(index.ravel() for index in np.indices(cost.shape))
    plan, u, v = simplex_near(a, b, cost.ravel(), pairs, scale * rng.normal(size=50))
    optimum = float((simplex(a, b, cost)[0] * cost).sum())
    assert (plan.toarray() * cost).sum() == pytest.approx(optimum, rel=1e-9)
    assert a @ u + b @ v == pytest.approx(optimum, rel=1e-9)
    assert (u[:, None] + v - cost).max() < 1e-9 * max(scale, 1.0)
