"""Predictors without training, against loops."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.judging.baselines import Cloud, midpoint, mixture, transport
from scjko.core.transport.couplings import exact


def test_transport_is_the_mean_displacement_of_the_nearest_cells(rng):
    source, target, x = rng.normal(size=(20, 3)), rng.normal(size=(30, 3)), rng.normal(size=(7, 3))
    coupling = exact(source, target)
    plan = np.zeros((20, 30))
    plan[coupling.source, coupling.target] = coupling.weight
    for n_neighbours in (1, 5):
        for here, moved in zip(x, transport(x, source, target, coupling, n_neighbours), strict=True):
            nearest = np.argsort(np.linalg.norm(source - here, axis=1))[:n_neighbours]
            steps = [plan[i] @ target / plan[i].sum() - source[i] for i in nearest]
            np.testing.assert_allclose(moved, here + np.mean(steps, axis=0))


def test_few_cells_are_all_the_nearest(rng):
    source, target = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    moved = transport(np.zeros((1, 2)), source, target, exact(source, target), 5)
    np.testing.assert_allclose(moved[0], (target - source).mean(axis=0))


def test_the_midpoint_of_a_shift_is_half_a_shift(rng):
    source = rng.normal(size=(10, 2))
    target = source + [4.0, 0.0]
    cloud = midpoint(source, target, exact(source, target), 0.25)
    np.testing.assert_allclose(np.sort(cloud.points, axis=0), np.sort(source + [1.0, 0.0], axis=0))
    assert cloud.weight.sum() == pytest.approx(1)


def test_a_mixture_weighs_by_nearness():
    one, two = Cloud(np.zeros((2, 1)), np.full(2, 0.5)), Cloud(np.ones((1, 1)), np.ones(1))
    mixed = mixture(one, two, 0.25)
    np.testing.assert_allclose(mixed.weight, [0.375, 0.375, 0.25])
    np.testing.assert_allclose(mixed.points[:, 0], [0, 0, 1])
