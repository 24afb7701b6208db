"""Transition probabilities against loops over cells."""

from __future__ import annotations

import numpy as np

from scjko.core.motion.transitions import markov_chain, transitions


def kernel(y, cells, k):
    """The probabilities of becoming each of ``cells``, one after the other."""
    distance = np.array([np.linalg.norm(y - x) for x in cells])
    near = np.argsort(distance)[:k]
    p = np.zeros(len(cells))
    p[near] = np.exp(-2 * (distance[near] / distance[near].max()) ** 2)
    return p / p.sum()


def test_a_moved_cell_becomes_a_near_one_with_the_stated_probability(rng):
    moved, cells = rng.normal(size=(20, 3)), rng.normal(size=(30, 3))
    expected = [kernel(y, cells, 7) for y in moved]
    np.testing.assert_allclose(transitions(moved, cells, 7).toarray(), expected, atol=1e-12)


def test_the_chain_goes_on_or_stays_and_in_the_last_snapshot_always_stays(rng):
    cells, predicted = rng.normal(size=(24, 2)), rng.normal(size=(24, 2))
    snapshot = np.repeat([2, 0, 1], 8)  # in no order
    chain = markov_chain(predicted, cells, snapshot, 0.3, 5).toarray()
    for i, k in enumerate(snapshot):
        stay, go = snapshot == k, snapshot == k + 1
        expected = np.zeros(24)
        expected[stay] += (1.0 if k == 2 else 0.3) * kernel(cells[i], cells[stay], 5)
        if k < 2:
            expected[go] += 0.7 * kernel(predicted[i], cells[go], 5)
        np.testing.assert_allclose(chain[i], expected, atol=1e-12)


def test_cells_that_stand_in_one_place_share_the_probability():
    p = transitions(np.zeros((2, 2)), np.zeros((3, 2)), 30).toarray()
    np.testing.assert_allclose(p, 1 / 3)
