"""Two snapshots as linear programs take them, and the conversion back to a coupling."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..coupling import Coupling
from ..duals import bound
from .plan import QUANTA, QUANTA_WITH_DUMMIES, Plan, quanta
from .pricing import price_side_by_side

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Problem(NamedTuple):
    """Two snapshots as they are solved: centred, in random order, without cells that have no mass."""

    x: Array
    y: Array
    a: Array
    b: Array
    rows: Index
    """Where in the snapshot of the user each source is."""
    columns: Index
    shift: Array
    """What was taken from the coordinates of the sources, less what was taken from those of the targets."""
    cap: float
    """What a pair costs at most."""

    @classmethod
    def of(cls, x: Array, y: Array, a: Array, b: Array, rng: np.random.Generator, cap: float = np.inf) -> Problem:
        """The problem of snapshots with these weights."""
        one, other = quanta(a, b, QUANTA if cap == np.inf else QUANTA_WITH_DUMMIES)
        rows, columns = (rng.permutation(np.flatnonzero(mass)) for mass in (one, other))
        # Every plan pays for the shift of the mean: without it, the cost is what a plan can change. Not so if pairs
        # that are far apart pay less: then both have to be moved alike.
        here, there = a @ x / a.sum(), b @ y / b.sum()
        if cap < np.inf:
            here = there = (here + there) / 2
        return cls(x[rows] - here, y[columns] - there, one[rows], other[columns], rows, columns, here - there, cap)

    def coupling(self, x: Array, y: Array, plan: Plan, f: Array, g: Array) -> Coupling:
        """The coupling of the user's snapshots, with the bound that the potentials set."""
        # From the cost of centred coordinates to that of others: ‖x − y + s‖² = ‖x − y‖² + 2s·x − 2s·y + ‖s‖².
        f = f + 2 * self.x @ self.shift + self.shift @ self.shift
        g = g - 2 * self.y @ self.shift
        duals = self._with_massless(x, y, f, g)
        source, target = self.rows[plan.source], self.columns[plan.target]
        coupling = Coupling.of(source, target, plan.mass, x, y, duals=duals)
        return replace(coupling, bound=bound(coupling, duals))

    def _with_massless(self, x: Array, y: Array, f: Array, g: Array) -> tuple[Array, Array]:
        """The potentials of all cells: of those without mass the largest that are feasible."""
        centre, rows, columns = x.mean(axis=0), self.rows, self.columns
        x, y = x - centre, y - centre
        all_f, all_g = np.empty(len(x)), np.empty(len(y))
        all_f[rows], all_g[columns] = f, g
        others = np.setdiff1d(np.arange(len(x)), rows)
        if len(others):
            all_f[others] = price_side_by_side(x[others], y[columns], g, [0, len(columns)], cap=self.cap).least
        others = np.setdiff1d(np.arange(len(y)), columns)
        if len(others):
            all_g[others] = price_side_by_side(y[others], x, all_f, [0, len(x)], cap=self.cap).least
        return all_f, all_g
