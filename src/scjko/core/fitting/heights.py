"""Heights: the constants that make potentials of different intervals comparable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..energy.energy import Energy
from ..transport import Coupling
from .problem import Course

Array = NDArray[np.float64]


class _Means(NamedTuple):
    potential: float
    descent: float


def offsets(
    energy: Energy, points: Sequence[Array], point_weights: Sequence[Array], sources: Sequence[Array] | None = None
) -> Array:
    """The constants to add at the start and the end of each interval (n_intervals, 2).

    A force determines a potential only up to a constant, and here up to one for each interval and end. They are chosen
    so that the mean potential of the first snapshot is zero, that a snapshot has the same mean at the end of one
    interval and at the start of the next, and that across an interval fitted at both ends the mean falls by
    Δ ∫∇V·∇J dμ: what a population loses by moving down a potential that itself stands still, as in
    d/dt ∫V dμ = −∫∇V·∇J dμ + ∫∂V/∂t dμ without the second term. Where mass grows, ``sources`` has for each interval
    the weights of its source cells once they have grown: it is their mean that falls.
    """
    found = np.zeros((len(points) - 1, 2))
    mean = 0.0
    if energy.potential_term.variation.static:
        return found - point_weights[0] @ energy.potential(points[0], energy.times[0])
    for k, gap in enumerate(energy.timeline.gaps):
        start, end = (_means(energy, points[k + side], point_weights[k + side], k, float(side)) for side in (0, 1))
        found[k] = mean - start.potential
        if sources is not None:
            moved = _means(energy, points[k], sources[k], k, 0.0)
            mean += moved.potential - start.potential
            start = moved
        if len(energy.scheme.anchors) > 1:
            mean -= gap * (start.descent + end.descent) / 2
            found[k, 1] = mean - end.potential
        else:  # one potential for the whole interval says itself how far the mean falls
            mean = end.potential + found[k, 1]
    return found


def _means(energy: Energy, x: Array, weight: Array, interval: int, end: float) -> _Means:
    place = x, np.full(len(x), interval), np.full(len(x), end)
    slope = energy.slope_at(*place)
    # Without other terms it is the gradient, and envelopes take long to evaluate.
    gradient = slope if energy.terms == ("potential",) else energy.gradient_at(*place)
    descent = np.sum(gradient * slope, axis=1)
    return _Means(float(weight @ energy.potential_at(*place)), float(weight @ descent))


#: Cells of a snapshot whose heights are compared with the duals, at most.
MAX_COMPARED = 2000


def dual_difference(energy: Energy, course: Course) -> Array | None:
    """How far heights at the ends of each interval are from the duals of its coupling, relative to their spread.

    The Kantorovich potentials f and g of the optimal coupling satisfy f(x) + g(y) = ‖x − y‖² on coupled pairs, so that
    f / 2Δ and −g / 2Δ are potentials at the start and the end that no fit has made, up to a constant at either. The
    difference is a standard deviation over cells, the mean of the ends that were fitted; NaN where duals are flat, as
    where no cell moves. None if not all couplings have duals, or where other terms share in the motion.
    """
    if energy.terms != ("potential",):
        return None
    found = []
    sides = [side for side in (0, 1) if side in energy.scheme.anchors] or [0, 1]
    for k, (coupling, gap) in enumerate(zip(course.couplings, course.timeline.gaps, strict=True)):
        if not isinstance(coupling, Coupling) or coupling.duals is None:
            return None
        ends = []
        for side in sides:
            mass = (coupling.source_weight, coupling.target_weight)[side]
            cells = np.flatnonzero(mass > 0)
            cells = cells[:: max(len(cells) // MAX_COMPARED, 1)]
            x, weight = course.points[k + side][cells], mass[cells] / mass[cells].sum()
            dual = (1 - 2 * side) * coupling.duals[side][cells] / (2 * gap)
            height = energy.potential_at(x, np.full(len(x), k), np.full(len(x), float(side)))
            spread = _deviation(dual, weight)
            ends.append(_deviation(height - dual, weight) / spread if spread > 0 else np.nan)
        found.append(np.mean(ends))
    return np.array(found)


def _deviation(values: Array, weight: Array) -> float:
    return float(np.sqrt(weight @ (values - weight @ values) ** 2))
