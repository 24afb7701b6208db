"""Envelopes of parabolas against numpy."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from scjko.core.energy.envelopes import AT_ONCE, KantorovichPotential, MeanPotential, partners
from scjko.core.energy.models import NeuralPotential, gradients, hessians, potentials

SOFTNESS, SCALE = 0.05, 1.7


@pytest.fixture
def envelope(rng):
    """Two places, of different numbers of parabolas, with two members each; points, and what marks the second place."""
    weights = {
        str(place): {
            "points": rng.normal(size=(2, n, 3)).astype(np.float32),
            "heights": rng.normal(size=(2, n)).astype(np.float32),
            "softness": np.float32(SOFTNESS),
            "scale": np.float32(SCALE),
        }
        for place, n in enumerate((7, 12))
    }
    z = rng.normal(size=(6, 3)).astype(np.float32)
    return weights, z, np.tile(np.float32([0, 1]), (6, 1))


def numpy_envelope(own, z):
    """The soft minimum of parabolas, written out one by one."""
    values = []
    for points, heights in zip(own["points"].astype(float), own["heights"].astype(float), strict=True):
        # ‖z − p‖² − g with g = heights + ‖p‖²
        parabolas = np.array(
            [[np.sum((q - p) ** 2) - (h + p @ p) for p, h in zip(points, heights, strict=True)] for q in z]
        )
        least = parabolas.min(axis=1, keepdims=True)
        values.append(least[:, 0] - SOFTNESS * np.log(np.exp(-(parabolas - least) / SOFTNESS).sum(axis=1)))
    return SCALE / 2 * np.mean(values, axis=0)


def test_value_is_the_soft_minimum_of_parabolas_at_the_place_that_is_marked(envelope):
    weights, z, c = envelope
    model = KantorovichPotential()
    found = potentials(model, model.at(weights, c[0]), z, c)
    # float32 of numbers of order ten
    np.testing.assert_allclose(found, numpy_envelope(weights["1"], z.astype(float)), atol=2e-5)


def test_gradient_and_hessian_are_those_of_the_value(envelope):
    weights, z, c = envelope
    model, h, unit = KantorovichPotential(), 1e-5, np.eye(3)
    own = model.at(weights, c[0])

    def slope(z):
        ahead, behind = ([numpy_envelope(weights["1"], z + sign * h * e) for e in unit] for sign in (1, -1))
        return (np.array(ahead) - np.array(behind)).T / (2 * h)

    z64 = z.astype(np.float64)
    np.testing.assert_allclose(gradients(model, own, z, c), slope(z64), atol=1e-4)
    h = 1e-4
    curvature = np.stack([(slope(z64 + h * e) - slope(z64 - h * e)) / (2 * h) for e in unit], axis=2)
    # The curvature of a soft minimum is of order 1 / softness, and its derivative of order 1 / softness².
    np.testing.assert_allclose(hessians(model, own, z, c), curvature, atol=2e-2)


def test_cells_go_to_their_partners_down_the_slope(envelope):
    weights, z, c = envelope
    model = KantorovichPotential()
    moved = z - np.asarray(gradients(model, model.at(weights, c[0]), z, c)) / SCALE
    np.testing.assert_allclose(partners(weights["1"], z.astype(np.float64)), moved, atol=1e-5)


def test_parabolas_that_fill_up_are_not_felt(envelope):
    """Places of different size share one program: the smaller one is filled up."""
    weights, z, _ = envelope
    model, first = KantorovichPotential(), np.float32([1, 0])
    own = model.at(weights, first)
    assert own["heights"].shape == model.at(weights, first[::-1])["heights"].shape
    found = potentials(model, own, z, np.tile(first, (6, 1)))
    np.testing.assert_allclose(found, numpy_envelope(weights["0"], z.astype(float)), atol=2e-5)


def test_a_mean_of_potentials_tells_each_part_its_own(envelope, rng):
    weights, z, c = envelope
    network, told = NeuralPotential((4,)), rng.normal(size=(6, 2)).astype(np.float32)
    own = network.start(jax.random.key(0), 3, 2)
    mean = MeanPotential((network, KantorovichPotential()), (0.25, 0.75), (2, 2))
    both, inputs = {"part0": own, "part1": weights}, np.concatenate([told, c], axis=1)
    found = potentials(mean, mean.at(both, inputs[0]), z, inputs)
    model = KantorovichPotential()
    expected = 0.25 * potentials(network, own, z, told) + 0.75 * potentials(model, model.at(weights, c[0]), z, c)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_many_points_are_evaluated_as_by_the_compiled_programs(envelope, rng):
    """Products of matrices, a block of points at a time: more points than a block, and parabolas that fill up."""
    weights, _, _ = envelope
    model, n = KantorovichPotential(), 2 * AT_ONCE + 5
    z, c = rng.normal(size=(n, 3)).astype(np.float32), np.tile(np.float32([1, 0]), (n, 1))
    own = model.at(weights, c[0])
    np.testing.assert_allclose(model.potentials(own, z, c), numpy_envelope(weights["0"], z.astype(float)), atol=2e-5)
    np.testing.assert_allclose(model.potentials(own, z, c), potentials(model, own, z, c), atol=2e-5)
    np.testing.assert_allclose(model.gradients(own, z, c), gradients(model, own, z, c), atol=2e-5)


def test_no_value_depends_on_the_other_points(envelope, rng):
    weights, _, _ = envelope
    model, n = KantorovichPotential(), 2 * AT_ONCE + 5
    z, c = rng.normal(size=(n, 3)).astype(np.float32), np.tile(np.float32([0, 1]), (n, 1))
    own, some = model.at(weights, c[0]), rng.permutation(n)[:50]
    np.testing.assert_array_equal(model.gradients(own, z, c)[some], model.gradients(own, z[some], c[some]))
    assert model.gradients(own, z[:0], c[:0]).shape == (0, 3) and model.potentials(own, z[:0], c[:0]).shape == (0,)


def test_a_mean_of_many_points_is_that_of_the_compiled_program(envelope, rng):
    weights, z, c = envelope
    network = NeuralPotential((4,))
    mean = MeanPotential((network, KantorovichPotential()), (0.25, 0.75), (2, 2))
    inputs = np.concatenate([rng.normal(size=(6, 2)).astype(np.float32), c], axis=1)
    own = mean.at({"part0": network.start(jax.random.key(0), 3, 2), "part1": weights}, inputs[0])
    np.testing.assert_allclose(mean.potentials(own, z, inputs), potentials(mean, own, z, inputs), atol=2e-5)
    np.testing.assert_allclose(mean.gradients(own, z, inputs), gradients(mean, own, z, inputs), atol=2e-5)
