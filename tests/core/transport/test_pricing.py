"""Prices of all pairs against those of a dense matrix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from scjko.core.transport.programs import pricing
from scjko.core.transport.programs.pricing import allowance, even_cuts, price, price_side_by_side


@pytest.fixture(params=[(300, 500, 2), (129, 40, 30), (1, 3, 1)], ids=str)
def problem(request, rng):
    n, m, d = request.param
    return rng.normal(size=(n, d)), rng.normal(size=(m, d)) + 0.3, rng.normal(size=m)


def test_the_cheapest_of_each_part_is_found(problem, monkeypatch):
    monkeypatch.setattr(pricing, "ROWS", 64)  # several tiles
    monkeypatch.setattr(pricing, "COLUMNS", 100)
    x, y, g = problem
    dense = cdist(x, y, "sqeuclidean") - g
    cuts = even_cuts(len(y), 3)
    found = price(x, y, g, cuts)
    for part in range(len(cuts) - 1):
        inside = dense[:, cuts[part] : cuts[part + 1]]
        np.testing.assert_array_equal(found.target[:, part], inside.argmin(axis=1) + cuts[part])
        np.testing.assert_allclose(found.value[:, part], inside.min(axis=1), atol=1e-12)
    np.testing.assert_allclose(found.least, dense.min(axis=1), atol=1e-12)


def test_values_are_lower_bounds_that_are_close(problem):
    x, y, g = problem
    x, y = 100 * x + 1000, 100 * y + 1000  # where digits cancel
    x[0], y[0] = 1e6, 1e6  # and an outlier in the same place
    dense = cdist(x, y, "sqeuclidean") - g
    found = price(x, y, g, [0, len(y)], single=True)
    assert (found.least <= dense.min(axis=1)).all()
    assert (found.least >= dense.min(axis=1) - 2 * allowance(x, y, g)).all()
    assert (price(x, y, g, [0, len(y)]).least <= dense.min(axis=1)).all()


def test_side_by_side_is_the_same_to_the_bit(problem, monkeypatch):
    monkeypatch.setattr(pricing, "SHARE", pricing.ROWS)
    x, y, g = problem
    for one, other in zip(price(x, y, g, [0, len(y)]), price_side_by_side(x, y, g, [0, len(y)]), strict=True):
        np.testing.assert_array_equal(one, other)
