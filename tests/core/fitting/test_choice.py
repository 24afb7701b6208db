"""What is fitted is what predicts held-out cells best."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.energy.specification import Terms
from scjko.core.fitting.fit import fit
from scjko.core.fitting.parametrizations import Kantorovich, Neural, Stacked
from scjko.core.fitting.stacked.choice import Choice, Setting, _best
from scjko.core.timeline import Timeline
from scjko.core.transport import Batched, couple

QUICK = Neural(layers=(16,), epochs=60, learning_rate=5e-3)


def fitted(points, **options):
    timeline = Timeline(np.arange(float(len(points))))
    solve = options.pop("solve", None)
    couplings = couple(points) if solve is None else couple(points, solve=solve)
    return fit(points, couplings, timeline, **options)


def torn(rng, n=120):
    """A population that is torn in two: every map that is smooth leaves cells in the gap."""
    x, y = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    return [x, y + np.where(y[:, :1] > 0, 4.0, -4.0) * [1, 0]]


def test_a_torn_population_has_a_kantorovich_potential(rng):
    found = fitted(torn(rng), parametrization=Stacked(network=QUICK))
    assert found.parametrization.share == 1
    errors = found.choice.error
    shares = np.array([setting.share for setting in found.choice.settings])
    assert errors[shares == 1].min() < errors[shares == 0].min()
    assert found.choice.settings[found.choice.chosen].share == 1


def test_what_a_network_knows_exactly_has_a_network(rng):
    """Two hundred cells in ten dimensions, moved alike: envelopes know single cells, a network knows the rule."""
    x = rng.normal(size=(200, 10))
    found = fitted([x, x + 3.0], parametrization=Stacked(network=Neural(layers=(16,), epochs=200)))
    assert found.parametrization.share < 1


def test_what_is_named_is_not_chosen_again(rng):
    points = torn(rng)
    named = Stacked(share=0.5, kantorovich=Kantorovich(softness=0.2, n_members=2), network=QUICK)
    found = fitted(points, parametrization=named)
    assert found.choice is None and found.parametrization == named
    found = fitted(points, parametrization=Stacked(kantorovich=Kantorovich(softness=0.2), network=QUICK))
    assert found.parametrization.kantorovich.softness == 0.2
    assert {setting.softness for setting in found.choice.settings} == {0.2}


def test_a_choice_can_be_repeated(rng):
    points = torn(rng, 60)
    one, again = (fitted(points, parametrization=Stacked(network=QUICK)) for _ in range(2))
    assert one.parametrization == again.parametrization
    np.testing.assert_array_equal(one.choice.error, again.choice.error)


def test_too_few_cells_to_hold_any_out(rng, caplog):
    caplog.set_level("INFO", logger="scjko")
    found = fitted([rng.normal(size=(5, 2)) for _ in range(3)], parametrization=Stacked())
    assert found.choice is None and found.parametrization.share == 1
    assert "5 cells, too few to hold some out" in caplog.text


@pytest.mark.parametrize(
    "options",
    [
        {"time_varying": False},
        {"scheme": "implicit"},
        {"terms": Terms.of(["potential", "internal"])},
        {"solve": Batched(size=10)},
    ],
    ids=["static", "implicit", "noise", "batched"],
)
def test_what_no_kantorovich_potential_can_be_is_a_network(rng, options):
    points = [rng.normal(size=(40, 2)) + 2.0 * k for k in range(3)]
    found = fitted(points, parametrization=Stacked(network=QUICK), **options)
    assert found.parametrization.share == 0 and found.choice is None
    with pytest.raises(ValueError, match="A Kantorovich potential .*use parametrization='neural' or 'linear'"):
        fitted(points, parametrization=Kantorovich(), **options)


def test_a_network_is_taken_beside_envelopes_unless_it_is_clearly_worse():
    """It is judged with half of the cells, in fewer folds, and gains more from the others than envelopes do."""
    plans, mean, network = (Setting(0.1, share, 8, updates) for share, updates in ((1.0, 0), (0.5, 500), (0.0, 500)))
    envelopes = np.array([1.0, 1.1, 0.5, 0.6])  # the first two folds, in which networks are judged, are harder
    assert _best({plans: envelopes, mean: np.array([1.01, 1.11]), network: np.array([1.2, 1.2])}) == mean
    assert _best({plans: envelopes, mean: np.array([1.05, 1.15]), network: np.array([1.2, 1.2])}) == plans
    assert _best({plans: envelopes, mean: np.array([1.05, 1.15]), network: np.array([0.9, 0.9])}) == network


def test_a_network_that_diverges_in_a_fold_is_not_chosen(rng):
    wild = Neural(layers=(16,), epochs=3, learning_rate=50.0)
    found = fitted(
        [x + 5.0 * k for k, x in enumerate(rng.normal(size=(3, 40, 2)))], parametrization=Stacked(network=wild)
    )
    assert isinstance(found.parametrization, Kantorovich)  # nothing smooth is left to read the field off
    assert all(setting.share == 1 for setting in found.choice.settings)


def test_a_longer_training_is_called_for_only_where_the_error_falls():
    settings = [Setting(0.1, 1.0, 8, 0), *(Setting(0.1, 0.5, 8, n) for n in (500, 1000, 2000))]
    falling = Choice(tuple(settings), np.array([1.0, 0.9, 0.8, 0.7]), 3, 0.5)
    assert falling.falling == pytest.approx(1 / 8)
    assert Choice(tuple(settings), np.array([1.0, 0.9, 0.8, 0.85]), 2, 0.5).falling == 0
    assert Choice(tuple(settings), np.array([0.5, 0.9, 0.8, 0.7]), 0, 0.5).falling == 0
