"""How far snapshots determine each term, on cases where this is known."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.energy.specification import Terms
from scjko.core.fitting import noise
from scjko.core.fitting.fit import fit
from scjko.core.fitting.parametrizations import Linear
from scjko.core.judging.diagnostics import UNDETERMINED, identifiability
from scjko.core.timeline import Timeline
from scjko.core.transport import couple

#: A Gaussian population that drifts and spreads, from the paper's appendix on failure modes.
TIMES = np.array([0.0, 0.4, 0.8])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The error of β is not looked at here."""
    monkeypatch.setattr(noise, "N_HALVES", 2)


def fitted(rng, n_times, names, *, time_varying=False, drift=4.0):
    points = [np.sqrt(0.2 + 2 * t) * rng.normal(size=(300, 2)) + [drift * t, drift * t] for t in TIMES[:n_times]]
    quadratic = Linear(degree=2, n_centers=0)
    terms, timeline = Terms.of(["potential", *names]), Timeline(TIMES[:n_times])
    return fit(points, couple(points), timeline, parametrization=quadratic, terms=terms, time_varying=time_varying)


def test_a_potential_alone_has_nothing_to_be_confused_with(rng):
    assert identifiability(fitted(rng, 2, [])) == {}


@pytest.mark.parametrize("term", ["interaction", "internal"])
def test_two_snapshots_do_not_determine_a_term_and_three_do(rng, term):
    """From one interval a potential imitates any of their forces; what serves two intervals cannot."""
    two, three = (identifiability(fitted(rng, n, [term]))[term] for n in (2, 3))
    assert two < UNDETERMINED < three
    assert 0 <= two and three <= 1


def test_a_potential_that_varies_in_time_imitates_everything(rng):
    found = identifiability(fitted(rng, 3, ["interaction", "internal"], time_varying=True))
    assert set(found) == {"interaction", "internal"}
    assert max(found.values()) < UNDETERMINED


def test_an_interaction_is_not_determined_by_cells_whose_mean_stays(rng):
    still = identifiability(fitted(rng, 3, ["interaction"], drift=0.0))["interaction"]
    moving = identifiability(fitted(rng, 3, ["interaction"], drift=4.0))["interaction"]
    assert still < UNDETERMINED < moving
