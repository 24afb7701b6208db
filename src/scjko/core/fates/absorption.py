"""Fates: the probability of each cell to end in each of several terminal sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .chain import Chain
from .transitions import Entropic, Planned, closeness, gathered

Array = NDArray[np.float64]

#: Probability that a cell of the last snapshot that is in no terminal set goes on for one more interval. Ten intervals
#: on average: 0.5 leaves small tips out of reach, and with 1 cells of other fates end in them.
BEYOND = 0.9


class Fates(NamedTuple):
    """What becomes of the cells of each snapshot."""

    probabilities: list[Array]
    """Of the fates (n, n_fates), given that one is reached; zero where none is."""
    reached: list[Array]
    """The share of the mass of descendants that reaches any fate (n,)."""


def fates(chain: Chain, terminal: Sequence[Array], *, beyond: float = BEYOND) -> Fates:
    """The fates of all cells: of the mass of their descendants, the share absorbed by each terminal set.

    Parameters
    ----------
    chain
        The chain of cells.
    terminal
        For each snapshot, whether a cell is in each set (n, n_fates), 1 or 0. Cells are absorbed where they first are
        in one.
    beyond
        Probability that a cell of the last snapshot in no set goes on for another interval, by the transitions of the
        last interval, until it is absorbed or stops. 0 counts only the cells of the last snapshot as they are.
    """
    found = absorbed_mass(chain, terminal, beyond)
    masses, whole = [f[:, :-1] for f in found], [f[:, -1] for f in found]
    sums = [mass.sum(axis=1) for mass in masses]
    shares = [
        np.divide(m, s[:, None], out=np.zeros_like(m), where=s[:, None] > 0) for m, s in zip(masses, sums, strict=True)
    ]
    reached = [np.divide(s, w, out=np.zeros_like(s), where=w > 0) for s, w in zip(sums, whole, strict=True)]
    return Fates(shares, [np.minimum(r, 1.0) for r in reached])


def absorbed_mass(chain: Chain, terminal: Sequence[Array], beyond: float) -> list[Array]:
    """For the cells of each snapshot the mass of their descendants in each set, and in the last column all of it."""
    found = [np.column_stack([_settled(chain, terminal[-1], beyond), np.ones(len(terminal[-1]))])]
    for k in range(len(terminal) - 2, -1, -1):
        absorbed = terminal[k].sum(axis=1, keepdims=True) > 0
        moved = chain.expected(k, found[0])
        found.insert(0, np.where(absorbed, np.column_stack([terminal[k], np.ones(len(moved))]), moved))
    return found


def _settled(chain: Chain, terminal: Array, beyond: float) -> Array:
    """The fates of cells of the last snapshot: their own, or those that they reach as the last interval goes on."""
    free = terminal.sum(axis=1) == 0
    last = chain.transitions[-1]
    if beyond == 0 or not free.any() or not terminal.any():
        return terminal
    if isinstance(last, Planned):
        return terminal
    assert isinstance(last, Entropic)
    # Among representatives, those of terminal cells in part, the fates solve H = L + s (1 − |L|) P H.
    n_centers = len(last.centers)
    labelled = gathered(last.share[:, None] * terminal, last.label, n_centers)
    onward = closeness(last.centers, last.centers, last.height, last.epsilon)
    left = beyond * np.maximum(1 - labelled.sum(axis=1), 0.0)
    reached = np.linalg.solve(np.eye(n_centers) - left[:, None] * onward, labelled)
    found = terminal.copy()
    going = Entropic(
        chain.points[-1][free], last.centers, last.height, last.epsilon, np.arange(n_centers), np.ones(n_centers)
    )
    found[free] = beyond * going.pull(reached)
    return found
