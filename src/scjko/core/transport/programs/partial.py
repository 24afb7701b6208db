"""Partial couplings: mass that would have to travel too far is left over.

Between two samples the proportions of fates differ by chance, or by growth, and a balanced coupling carries the
difference from one fate to the other. If instead a unit of mass may stay without a partner on both sides, at the price
κ, as if it went to a dummy cell, a coupling costs

    ∫ c dγ + κ (1 − ∫ dγ),        γ ≥ 0, with marginals below those of the snapshots.

Any such γ can be completed to a coupling of all mass in which what was left over pays κ. So this is balanced transport
at the cost min(c, κ), whose pairs with c ≥ κ are then dropped (Caffarelli and McCann 2010, Ann. Math. 171).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..coupling import Coupling
from ..duals import bound
from .plan import squared

Array = NDArray[np.float64]


def partial(
    x: Array,
    y: Array,
    a: Array | None = None,
    b: Array | None = None,
    *,
    price: float = 5.0,
    solve: Callable[..., Coupling],
    **options: Any,
) -> Coupling:
    """The coupling in which a unit of mass without partners costs ``price`` times the mean cost of the balanced one.

    ``solve``, with its ``options``, couples two snapshots with weights at a cost that may have a ``cap``:
    :func:`.exact`, or :func:`.multiscale`. If everything is left over, that is a ``ValueError``.
    """
    balanced = solve(x, y, a, b, **options)
    cap = price * balanced.cost
    if cap == 0:  # nothing has to move
        return balanced
    # If f_i + g_j ≤ κ for all pairs, the potentials are feasible for min(c, κ) too, and the balanced coupling is as
    # near to the optimum of that: nothing is left to solve.
    solved = balanced.duals is not None and sum(float(dual.max()) for dual in balanced.duals) <= cap
    try:
        return within(balanced if solved else solve(x, y, a, b, cap=cap, **options), x, y, cap)
    except NothingLeft:
        raise ValueError(
            f"price={price:g} leaves all mass of {len(x)} and {len(y)} cells uncoupled: no two of them have a squared "
            f"distance below {price:g} times the mean over a balanced coupling. Use a larger price; with one above 1 "
            "some mass is always coupled."
        ) from None


class NothingLeft(ValueError):
    """All pairs of a coupling are too far apart."""


def within(coupling: Coupling, x: Array, y: Array, cap: float) -> Coupling:
    """The pairs of a coupling at a smaller squared distance than ``cap``, with the same potentials.

    Potentials with f_i + g_j ≤ min(c_ij, κ) are feasible for c, whatever the marginals: by weak duality they bound the
    cost of any coupling that has those of the kept pairs. What the kept pairs cost above that bound is no more than
    what all pairs cost above theirs, since no pair costs less than its potentials.
    """
    kept = squared(x, y, coupling.source, coupling.target) < cap
    if not kept.any():
        raise NothingLeft
    if kept.all():
        return replace(coupling, cap=cap)
    entries = coupling.source[kept], coupling.target[kept], coupling.weight[kept]
    made = Coupling.of(*entries, x, y, duals=coupling.duals)
    proven = None if made.duals is None else bound(made, made.duals)
    return replace(made, bound=proven, cap=cap, dropped=float(coupling.weight[~kept].sum()))
