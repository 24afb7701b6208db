"""Lines: where the step of an interval takes a cell, from any point of it to any other.

A cell at z at the fraction f of an interval is on the line whose anchor m solves m + (p − f) Δ ∇J(m) = z
(:mod:`scjko.core.schemes`). If it stands at the anchor itself, m = z; otherwise m is the minimiser of
(p − f) Δ · J(m) + ½‖m − z‖²: the proximal step over the *remaining* time if the anchor lies ahead, and its inverse
if it lies behind.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.blocks import at_once, in_blocks
from ..compute.neighbours import nearest
from ..energy.interactions import Among
from ..energy.models import Model, Weights
from ..timeline import Segment
from .proximal import objectives, proximal

if TYPE_CHECKING:
    from ..energy.energy import Energy

logger = logging.getLogger("scjko")

Array = NDArray[np.float64]
Single = NDArray[np.float32]

#: Neighbours whose minimum is tried as that of a cell: where one is lower, the cell's own was only a local one.
RIVALS = 3
#: Of many cells this many, evenly chosen, lend their minima to all.
LENDERS = 2000
#: How often that is repeated, at most: a lower minimum spreads from neighbour to neighbour.
PASSES = 20
#: How much lower, in units of the population's spread squared: rounding of float32 is below.
LOWER = 1e-4


class Line(NamedTuple):
    """Where each cell went along its line, and whether the line was found."""

    positions: Array
    solved: NDArray[np.bool_]


def advance(energy: Energy, x: Array, segment: Segment, anchor: float) -> Line:
    """Cells moved over a segment along the lines with this anchor."""
    gap = energy.timeline.gaps[segment.interval]
    ahead, span = (anchor - segment.start) * gap, (segment.stop - segment.start) * gap
    if ahead == 0:
        interval, anchors = np.full(len(x), segment.interval), np.full(len(x), anchor)
        slope = energy.slope_at(x, interval, anchors, noise=span > 0)
        return Line(x - span * slope, np.ones(len(x), dtype=bool))
    found, solved = _anchors(energy, x, segment.interval, anchor, ahead, backward=span < 0)
    # ∇J(m) = (z − m) / ahead, by the equation that m solves.
    return Line(x - span / ahead * (x - found), solved)


def _anchors(
    energy: Energy, x: Array, interval: int, anchor: float, ahead: float, *, backward: bool
) -> tuple[Array, NDArray[np.bool_]]:
    """m for each cell, and whether it was found."""
    units = energy.units
    rate = np.float32(ahead * units.speed[interval] / units.length)
    places = np.full(len(x), interval), np.full(len(x), anchor)
    model, weights = _felt(energy, interval, anchor, backward)
    inputs, z = energy.potential_term.inputs(*places), units.inner(x)

    largest = at_once(model.size(weights) * x.shape[1]) if model.by_place else None

    def solve(start: NDArray[np.float32], rows: NDArray[Any]) -> tuple[Array, Array, Array]:
        found, value, converged = in_blocks(
            lambda *block: proximal(model, weights, *block, rate), z[rows], start, inputs[rows], largest=largest
        )
        return found, value, converged

    found, value, converged = solve(z, np.arange(len(z)))
    improved = np.zeros(len(z), dtype=bool)
    for _ in range(PASSES if rate > 0 and len(z) > 1 else 0):
        rows, start = _rivals(model, weights, z, inputs, found, value, rate)
        again, lower, solved = solve(start, rows) if len(rows) else (found[:0], value[:0], converged[:0])
        gained = lower < value[rows] - LOWER / 2
        if not gained.any():
            break
        rows = rows[gained]
        found[rows], value[rows], converged[rows] = again[gained], lower[gained], solved[gained]
        improved[rows] = True
    if improved.any():
        logger.info(
            "The proximal step of %d of %d cells has more than one minimum; the lowest that was found is used.",
            improved.sum(),
            len(z),
        )
    return found * units.length + units.center, converged.astype(bool)


def _felt(energy: Energy, interval: int, anchor: float, backward: bool) -> tuple[Model, Weights]:
    """The potential that a cell feels at a place as one model: V, ∫U dμ, and β log ρ for a step back."""
    potential, interaction, internal = energy.potential_term, energy.interaction_term, energy.internal_term
    if interaction is None and (internal is None or not backward):
        return potential.model, potential.placed(interval, anchor)
    weights: Weights = {"potential": potential.placed(interval, anchor)}
    speed = potential.units.speed[interval]
    kernel = None
    if interaction is not None:
        kernel, among = interaction.model, interaction.populations[interval + anchor].filled
        share = np.float32(interaction.speed / speed)
        weights |= {"interaction": interaction.weights, "population": among._asdict(), "share": share}
    if internal is not None and backward:
        beta = np.float32(internal.beta / (speed * potential.units.length))
        weights["density"] = {"beta": beta, **internal.mixtures[interval + anchor].single}
    return Among(potential.model, kernel), weights


def _rivals(
    model: Model, weights: Weights, z: Single, inputs: Single, found: Array, value: Array, rate: Any
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Cells whose objective is lower at the minimum of a neighbour than at their own, and where that is."""
    lenders = np.unique(np.linspace(0, len(z) - 1, LENDERS).astype(int))
    _, near = nearest(z[lenders].astype(np.float64), z.astype(np.float64), RIVALS + 1)
    candidates = found[lenders[near]].astype(np.float32)
    n, k, d = candidates.shape
    (values,) = in_blocks(
        lambda *block: (objectives(model, weights, *block, rate),),
        np.repeat(z, k, axis=0),
        candidates.reshape(n * k, d),
        np.repeat(inputs, k, axis=0),
        largest=at_once(model.size(weights)) if model.by_place else None,
    )
    values = values.reshape(n, k)
    best = np.argmin(values, axis=1)
    better = np.flatnonzero(values[np.arange(n), best] < value - LOWER)
    return better, candidates[better, best[better]]
