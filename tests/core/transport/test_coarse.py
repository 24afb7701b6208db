"""The plan of clusters, shared out among their cells."""

from __future__ import annotations

import numpy as np

from scjko.core.transport.programs import coarse
from scjko.core.transport.programs.coarse import coarse_start, shared_out
from scjko.core.transport.programs.plan import Plan, quanta


def test_clusters_are_numbered_without_gaps_and_are_near(rng):
    x = np.repeat(10 * rng.normal(size=(12, 3)), 40, axis=0) + 0.1 * rng.normal(size=(480, 3))
    label = coarse.clusters(x, rng)
    assert set(label) == set(range(label.max() + 1))
    within = sum(np.sum((x[label == k] - x[label == k].mean(axis=0)) ** 2) for k in range(label.max() + 1))
    assert within < 0.01 * np.sum((x - x.mean(axis=0)) ** 2)


def test_sharing_out_keeps_the_mass_of_every_cell_and_of_every_pair_of_clusters(rng):
    one, other = rng.integers(3, size=50), rng.integers(4, size=30)
    one, other = (np.unique(label, return_inverse=True)[1] for label in (one, other))
    a, b = quanta(rng.uniform(size=50), rng.uniform(size=30))
    left, entered = np.cumsum(np.bincount(one, a)), np.cumsum(np.bincount(other, b))
    ends = np.union1d(left, entered)
    between = Plan(np.searchsorted(left, ends), np.searchsorted(entered, ends), np.diff(ends, prepend=0))
    plan = shared_out(between, one, other, a, b)
    np.testing.assert_array_equal(np.bincount(plan.source, plan.mass), a)
    np.testing.assert_array_equal(np.bincount(plan.target, plan.mass), b)
    again = np.bincount(one[plan.source] * 4 + other[plan.target], plan.mass, 12)
    np.testing.assert_array_equal(again, np.bincount(between.source * 4 + between.target, between.mass, 12))
    assert (plan.mass > 0).all()


def test_separate_groups_are_sent_where_they_belong(rng):
    places = np.array([[0, 0], [100, 0], [0, 100]])
    group, other = rng.integers(3, size=300), rng.integers(3, size=300)
    other[:] = rng.permutation(group)  # as many in each, so that no mass has to cross
    x, y = places[group] + rng.normal(size=(300, 2)), places[other] + rng.normal(size=(300, 2)) + 3
    plan, (f, g), clusters = coarse_start(x, y, *quanta(np.ones(300), np.ones(300)), rng)
    np.testing.assert_array_equal(group[plan.source], other[plan.target])
    assert f.shape == g.shape == clusters.shape == (300,)
