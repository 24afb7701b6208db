"""The error of a mean of members, from their spread."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.energy.models import EnsemblePotential, NeuralPotential, gradients, potentials
from scjko.core.energy.spread import Radii, deviation, members_of
from scjko.core.fitting.ensembles.calibration import calibrated
from scjko.core.fitting.ensembles.regions import quantiles


def halves_of(sample, n_pairs, statistic, rng):
    """A statistic of the halves of a sample, dealt out again and again."""
    found = []
    for _ in range(n_pairs):
        order = rng.permutation(len(sample))
        found += [statistic(sample[half]) for half in np.split(order, 2)]
    return np.array(found)


@pytest.mark.parametrize(
    ("statistic", "noise"),
    [
        pytest.param(np.mean, 0.0, id="mean"),
        pytest.param(np.max, 0.0, id="maximum"),
        pytest.param(np.mean, 0.3, id="mean of noisy fits"),
    ],
)
def test_the_variance_of_a_mean_over_halves_is_that_of_repeats_whatever_the_statistic(statistic, noise, rng):
    """A smooth statistic, one that is not, and one with noise of its own in every member: each against repeats."""

    def noisy(half):
        return statistic(half) + noise * rng.normal()

    repeats = np.array([halves_of(rng.normal(size=40), 4, noisy, rng) for _ in range(4000)])
    estimated = calibrated(repeats.T).ratio * np.mean(np.var(repeats, axis=1))
    assert estimated == pytest.approx(np.var(repeats.mean(axis=1)), rel=0.1)


def test_bands_of_few_members_are_wider_by_students_t():
    """Where members differ by what halves have apart, each pair has one degree of freedom."""
    pairs = np.random.default_rng(1).normal(size=(4, 2000))
    found = calibrated(np.stack([pairs, -pairs], axis=1).reshape(8, -1))
    assert found.ratio == pytest.approx(1) and found.freedom == pytest.approx(4)
    assert found.factor == pytest.approx(2.132 / 1.645, rel=1e-3)
    none = calibrated(np.ones((4, 3)))
    assert none.ratio == 1  # members that all agree


def test_members_are_the_parts_of_a_mean(rng):
    single = NeuralPotential((4,))
    model = EnsemblePotential(single)
    each = [_random(single.start(np.array([0, m], np.uint32), 2, 1), rng) for m in range(3)]
    weights = _stacked(each)
    z, c = rng.normal(size=(5, 2)).astype(np.float32), np.ones((5, 1), np.float32)
    for function in (potentials, gradients):
        mean = np.mean([function(single, own, z, c) for own in each], axis=0)
        np.testing.assert_allclose(function(model, weights, z, c), mean, rtol=1e-5, atol=1e-6)
    for (member, own), expected in zip(members_of(model, weights), each, strict=True):
        np.testing.assert_array_equal(potentials(member, own, z, c), potentials(single, expected, z, c))


def test_deviations_are_those_of_numpy(rng):
    values = rng.normal(size=(4, 3, 2))
    np.testing.assert_allclose(deviation(values), values.std(axis=0))


def test_quantiles_leave_room_for_the_next_cell(rng):
    """Split conformal prediction: with n equal weights the level-quantile is the ⌈(n + 1) level⌉-th smallest value."""
    values = rng.permutation(np.arange(1.0, 20.0))
    found = quantiles(values, np.ones(19), np.array([0.5, 0.9, 0.99]))
    np.testing.assert_array_equal(found, [10, 18, 19])


def test_radii_are_read_between_levels():
    radii = Radii(np.array([0.5, 0.9]), np.array([[1.0, 3.0], [2.0, 2.0]]), np.array([100.0, 80.0]))
    assert radii.at(0, 0.7, 3) == pytest.approx(2) and radii.at(1, 0.6, 3) == 2
    # Fewer cells are coupled with more noise: half as many in one or two dimensions with √2 of it.
    assert radii.at(1, 0.5, 1, 40) == pytest.approx(2 * np.sqrt(2))
    assert radii.at(1, 0.5, 5, 40) == pytest.approx(2 * 2**0.2)
    with pytest.raises(ValueError, match=r"level=0\.95 must be from 0\.5 to 0\.9"):
        radii.at(0, 0.95, 3)


def _random(tree, rng):
    return {
        k: _random(v, rng) if isinstance(v, dict) else rng.normal(size=v.shape).astype(np.float32)
        for k, v in tree.items()
    }


def _stacked(trees):
    first = trees[0]
    if isinstance(first, dict):
        return {name: _stacked([tree[name] for tree in trees]) for name in first}
    return np.stack(trees)
