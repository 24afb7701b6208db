"""Column generation against POT's linear program of all pairs."""

from __future__ import annotations

import numpy as np
import ot
import pytest
from scipy.spatial.distance import cdist

from scjko.core.transport.programs import simplex as module
from scjko.core.transport.programs.column_generation import generate_columns
from scjko.core.transport.programs.plan import Plan, quanta


def first_plan(a, b):
    """Mass filled in from the corner: far from optimal."""
    ends = np.union1d(np.cumsum(a), np.cumsum(b))
    source, target = np.searchsorted(np.cumsum(a), ends), np.searchsorted(np.cumsum(b), ends)
    return Plan(source, target, np.diff(ends, prepend=0))


def clouds(rng, weighted, n_dims):
    x, y = rng.normal(size=(90, n_dims)), rng.normal(size=(70, n_dims)) @ np.diag(np.linspace(0.5, 2, n_dims)) + 1
    weights = (rng.uniform(0.1, 1, size=90), rng.uniform(0.1, 1, size=70)) if weighted else (np.ones(90), np.ones(70))
    return x, y, *quanta(*weights)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("n_dims", [1, 2, 12])
def test_nothing_is_left_to_gain(rng, weighted, n_dims):
    x, y, a, b = clouds(rng, weighted, n_dims)
    solved = generate_columns(x, y, first_plan(a, b), (np.zeros(90), np.zeros(70)), tolerance=1e-12)
    cost = cdist(x, y, "sqeuclidean")
    assert solved.plan.cost(x, y) == pytest.approx(ot.emd2(a / a.sum(), b / b.sum(), cost), rel=1e-9)
    assert (solved.f[:, None] + solved.g - cost).max() < 1e-12 * cost.max()
    assert solved.gap < 1e-9
    np.testing.assert_array_equal(np.bincount(solved.plan.source, solved.plan.mass), a)
    np.testing.assert_array_equal(np.bincount(solved.plan.target, solved.plan.mass), b)
    assert len(solved.plan.mass) < len(x) + len(y)


def test_a_tolerance_is_kept_and_proven(rng):
    x, y, a, b = clouds(rng, True, 12)
    guess = np.zeros(90), np.zeros(70)
    first = generate_columns(x, y, first_plan(a, b), guess, tolerance=1.0, max_rounds=1)
    rough = generate_columns(x, y, first_plan(a, b), guess, tolerance=0.05)
    optimum = ot.emd2(a / a.sum(), b / b.sum(), cdist(x, y, "sqeuclidean"))
    assert rough.gap <= 0.05 and first.gap > rough.gap
    for solved in (first, rough):
        assert solved.plan.cost(x, y) * (1 - solved.gap) <= optimum * (1 + 1e-12)


def test_a_program_that_is_not_solved_is_an_error(rng, monkeypatch):
    monkeypatch.setattr(module, "MAX_ITERATIONS", 3)
    x, y, a, b = clouds(rng, False, 2)
    with pytest.warns(UserWarning, match="numItermax"), pytest.raises(RuntimeError, match="90 and 70 cells"):
        generate_columns(x, y, first_plan(a, b), (np.zeros(90), np.zeros(70)), tolerance=1e-9)
