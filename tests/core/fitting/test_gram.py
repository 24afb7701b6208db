"""Products of forces against forces that are written out."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.energy.features import exponents, linear_potential
from scjko.core.energy.models import LinearPotential
from scjko.core.fitting.gram import gram, partial_derivatives


def forces(potential, weights, z):
    """∇φ of every feature at every point (n, n_features, d), one by one."""
    n, d = z.shape
    monomials = np.zeros((n, len(potential.exponents), d))
    for m, powers in enumerate(np.array(potential.exponents).reshape(-1, d)):
        for i in np.flatnonzero(powers):
            monomials[:, m, i] = powers[i] * np.prod(z ** (powers - np.eye(d, dtype=int)[i]), axis=1)
    away = z[:, None] - weights["centers"].astype(float)
    bumps = np.exp(-np.sum(away**2, axis=2) / float(weights["width"]))
    return np.concatenate([monomials, -2 / float(weights["width"]) * bumps[..., None] * away], axis=1)


CASES = {
    "one dimension": (1, {"degree": 4, "n_centers": 5}),
    "all products": (3, {"degree": 4, "n_centers": 7}),
    "powers alone": (12, {"degree": None, "n_centers": 7}),
    "no centres": (3, {"degree": 3, "n_centers": 0}),
}


@pytest.mark.parametrize("n_written_out", [1, 4])
@pytest.mark.parametrize(("n_dims", "options"), CASES.values(), ids=CASES)
def test_products_are_those_of_the_forces(rng, n_dims, options, n_written_out):
    z, weight = rng.normal(size=(40, n_dims)), rng.uniform(0, 1, 40)
    potential, weights = linear_potential(z, random_state=0, **options)
    written_out = rng.normal(size=(40, n_written_out, n_dims))
    every = np.concatenate([forces(potential, weights, z), written_out], axis=1)
    expected = np.einsum("n,nid,njd->ij", weight, every, every)
    size = np.sqrt(np.diag(expected))
    found = gram(potential, weights, z, weight, written_out)
    # Rounding of float64, relative to the size of both forces.
    np.testing.assert_allclose(found / np.outer(size, size), expected / np.outer(size, size), atol=1e-11)


def test_radial_functions_alone(rng):
    z, written_out = rng.normal(size=(30, 4)), np.zeros((30, 1, 4))
    weights = {"centers": rng.normal(size=(6, 4)).astype(np.float32), "width": np.float32(2.0)}
    y = forces(LinearPotential(()), weights, z)
    found = gram(LinearPotential(()), weights, z, np.ones(30), written_out)
    np.testing.assert_allclose(found[:6, :6], np.einsum("nid,njd->ij", y, y), rtol=1e-10)


def test_derivatives_have_one_factor_less():
    found = partial_derivatives(LinearPotential(((2, 1), (0, 3), (1, 0))), 2)
    assert found.feature.tolist() == [0, 0, 1, 2]
    assert found.coordinate.tolist() == [0, 1, 1, 0]
    assert found.power.tolist() == [2, 1, 3, 1]
    assert [sorted(row) for row in found.factors.tolist()] == [[0, 1], [0, 0], [1, 1], [2, 2]]


def test_what_overflows_in_float32_is_not_finite_and_no_warning(rng):
    z = np.append(rng.normal(size=(9, 1)), [[1e10]], axis=0)
    potential, weights = LinearPotential(exponents(1, 5)), {"centers": np.empty((0, 1)), "width": 1.0}
    assert np.isfinite(gram(potential, weights, z[:9], np.ones(9), np.zeros((9, 1, 1)))).all()
    assert not np.isfinite(gram(potential, weights, z, np.ones(10), np.zeros((10, 1, 1)))).all()
