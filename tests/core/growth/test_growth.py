"""Growth: what transport whose marginals may change finds, how it is smoothed, and what a field says between cells."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.growth.estimate import estimated_growth, known_growth, read_growth
from scjko.core.growth.field import GrowthField, Rate
from scjko.core.growth.regression import Sample, smooth
from scjko.core.growth.relaxed import MAX_POINTS, condensed, relaxed
from scjko.core.timeline import Timeline
from scjko.core.transport import Batched, Exact, Multiscale, Partial, Sinkhorn, couple, exact, grown, uniform


def fates(rng, n_left, n_right, at=10.0):
    """Cells of two fates far from each other."""
    return np.concatenate([rng.normal(-at, 1, (n_left, 2)), rng.normal(at, 1, (n_right, 2))])


def test_grown_weights_sum_to_one_and_keep_their_ratios(rng):
    made = grown(np.array([0.25, 0.5, 0.25]), np.array([900.0, 901.0, 899.0]))
    assert made.sum() == pytest.approx(1)
    np.testing.assert_allclose(made / made[0], [1, 2 * np.e, 1 / np.e])


@pytest.mark.parametrize("solver", [Exact(), Multiscale(), Partial(price=1e6), Batched(size=60), Sinkhorn(epsilon=0.1)])
def test_every_solver_takes_sources_that_have_grown(rng, solver, mixed_ranks):
    x, y = rng.normal(size=(60, 2)), rng.normal(size=(60, 2))
    gain = rng.normal(size=60)
    (coupling,) = couple([x, y], None, solver, gains=[gain])
    np.testing.assert_allclose(coupling.source_weight, grown(uniform(x), gain), rtol=5e-3, atol=1e-6)
    np.testing.assert_allclose(coupling.target_weight, 1 / 60, rtol=5e-3)


def test_proportions_that_change_are_growth(rng):
    x, y = fates(rng, 100, 100), fates(rng, 150, 50)
    found = relaxed(x, y, uniform(x), uniform(y), price=10.0)
    gain = found.gain(x)
    np.testing.assert_allclose([np.exp(gain[:100]).mean(), np.exp(gain[100:]).mean()], [1.5, 0.5], atol=0.05)
    np.testing.assert_allclose(found.plan().sum(axis=0), 1 / 200, atol=1e-4)
    assert (uniform(x) * np.exp(gain)).sum() == pytest.approx(1)


@pytest.mark.parametrize(("scale", "shift", "most"), [(1.0, 0.0, 0.02), (1.5, 0.0, 0.1), (1.0, 4.0, 0.2)])
def test_motion_that_all_cells_share_is_not_growth(rng, scale, shift, most):
    x = rng.normal(size=(200, 2))
    found = relaxed(x, scale * x + shift, uniform(x), uniform(x), price=2.0)
    assert np.std(found.gain(x)) < most


def test_many_cells_are_clusters_that_keep_the_mass_and_the_mean(rng):
    x, weight = rng.normal(size=(1000, 3)), rng.random(1000)
    points, mass = condensed(x, weight)
    assert len(points) <= MAX_POINTS and mass.sum() == pytest.approx(1)
    np.testing.assert_allclose(mass @ points, weight @ x / weight.sum())


def test_a_rate_is_as_smooth_as_the_other_half_says(rng):
    def sample(rates):
        return Sample(x, rates, uniform(x))

    x, noise = rng.normal(size=(300, 2)), rng.normal(size=(3, 300))
    truth = np.sin(x[:, 0])
    one, other = sample(truth + 0.1 * noise[0]), sample(truth + 0.1 * noise[1])
    rate = smooth(sample(truth + 0.1 * noise[2]), [(one, other)])
    assert np.std(rate(x) - truth) < 0.06
    chance = smooth(sample(noise[0]), [(sample(noise[1]), sample(noise[2]))])
    assert np.ptp(chance(x)) < 0.5 * noise[0].std()
    assert rate(np.full((1, 2), 1e3)) == pytest.approx(rate.mean)


def test_the_field_at_a_snapshot_is_the_mean_of_both_intervals():
    none = np.zeros((0, 1)), np.zeros(0), 1.0
    field = GrowthField(Timeline(np.array([0.0, 1.0, 3.0])), tuple(Rate(*none, mean) for mean in (1.0, 2.0, 5.0, 7.0)))
    x = np.zeros((4, 1))
    interval, fraction = field.timeline.locate([0, 1, 3, 2])
    at_one = 2 * 2 / 3 + 5 / 3  # each weighted by the length of the other interval
    np.testing.assert_allclose(field.at(x, interval, fraction), [1, at_one, 7, (at_one + 7) / 2])
    np.testing.assert_allclose(field.over(x[:1], 1, 0.25), 0.75 * 5 + 0.25 * 7)


def test_known_rates_are_gains_over_each_gap(rng):
    points = [rng.normal(size=(50, 2)) for _ in range(3)]
    rates = [x[:, 0] / 10 for x in points]
    growth = known_growth(points, [uniform(x) for x in points], Timeline(np.array([0.0, 1.0, 3.0])), rates)
    np.testing.assert_array_equal(growth.gains[0], rates[0])
    np.testing.assert_array_equal(growth.gains[1], 2 * rates[1])
    assert np.corrcoef(growth.field.rates[2](points[1]), rates[1])[0, 1] > 0.98


def test_estimated_rates_are_those_of_fates_and_go_on_from_interval_to_interval(rng):
    points = [fates(rng, n, 400 - n) for n in (200, 293, 352)]  # odds grow by e a day
    growth = estimated_growth(points, [uniform(x) for x in points], Timeline(np.array([0.0, 1.0, 2.0])))
    ends = np.array([[-10.0, -10.0], [10.0, 10.0]])
    for rate in growth.field.rates:
        left, right = rate(ends)
        assert left - right == pytest.approx(1, abs=0.15)
    levels = [rate(ends[:1])[0] for rate in growth.field.rates]
    assert np.ptp(levels) < 0.2  # the constants of intervals are tied


def test_rates_that_are_expected_are_the_centre(rng):
    points, weights = [fates(rng, 200, 200), fates(rng, 293, 107)], [np.full(400, 1 / 400)] * 2
    expected = [np.repeat([0.5, -0.5], 200), np.zeros(400)]
    gain = estimated_growth(points, weights, Timeline(np.array([0.0, 1.0])), expected).gains[0]
    # What was expected explains everything: nothing is added to it but a constant.
    np.testing.assert_allclose(gain - gain.mean() - expected[0], 0, atol=0.06)


def test_couplings_that_are_given_say_how_cells_grew(rng):
    x, y, gain = rng.normal(size=(60, 2)), rng.normal(size=(50, 2)), rng.normal(size=60)
    coupling = exact(x, y, grown(uniform(x), gain), uniform(y))
    growth = read_growth([x, y], [uniform(x), uniform(y)], [coupling], Timeline(np.array([0.0, 2.0])))
    expected = np.log(grown(uniform(x), gain) * 60)
    np.testing.assert_allclose(growth.gains[0], expected, atol=1e-6)


def test_cells_in_one_place_have_one_rate():
    points = [np.zeros((10, 2)), np.zeros((10, 2))]
    growth = estimated_growth(points, [uniform(x) for x in points], Timeline(np.array([0.0, 1.0])))
    np.testing.assert_array_equal(growth.gains[0], 0)
