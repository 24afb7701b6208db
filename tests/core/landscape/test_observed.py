"""Observed velocities against potentials: how much of what neighbours agree on has curl."""

from __future__ import annotations

import numpy as np
import pytest

from scjko.core.landscape.observed import Observed, cosine, observed


def quadratic_flow(x, velocity):
    """The flow of the quadratic potential that is nearest, from the five forces of such potentials in the plane."""

    def forces(z):
        one, nil = np.ones(len(z)), np.zeros(len(z))
        pairs = [(one, nil), (nil, one), (z[:, 0], nil), (nil, z[:, 1]), (z[:, 1], z[:, 0])]
        return np.stack([np.stack(pair, axis=1).ravel() for pair in pairs], axis=1)

    solved = np.linalg.lstsq(forces(x), velocity.ravel(), rcond=None)[0]
    return lambda z: (forces(z) @ solved).reshape(z.shape)


@pytest.mark.parametrize(("turned", "low", "high"), [(0.0, 0.0, 0.1), (0.5, 0.4, 0.6), (1.0, 0.9, 1.0)])
def test_curl_is_the_part_that_turns_however_noisy_velocities_are(turned, low, high, rng):
    """Half of the square of −(1 − s) x + s Jx with equal parts turns; noise as strong as the field does not count."""
    x = rng.normal(size=(1000, 2))
    flow = -np.sqrt(1 - turned) * x + np.sqrt(turned) * x @ np.array([[0.0, 1.0], [-1.0, 0.0]])
    found = observed(x, flow, flow + rng.normal(size=x.shape), quadratic_flow)
    assert low <= found.curl <= high
    assert 0.35 < found.neighbours < 0.55  # half of the square is noise
    assert found.cosine > 0.5 and abs(found.shuffled) < 0.15


def test_velocities_without_a_common_direction_have_no_curl_to_speak_of(rng):
    x = rng.normal(size=(200, 2))
    assert np.isnan(observed(x, x, rng.normal(size=x.shape), quadratic_flow).curl)
    assert Observed(0.5, 0.0, 0.4, 0.6).curl == 0


def test_cells_that_stand_still_have_no_direction():
    one = np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 2.0]])
    assert cosine(one, np.array([[3.0, 0.0], [1.0, 1.0], [2.0, 0.0]])) == 0.5
    assert np.isnan(cosine(np.zeros((3, 2)), one))
