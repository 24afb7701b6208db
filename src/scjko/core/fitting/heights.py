"""Heights: the constants that make potentials of different intervals comparable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..energy.energy import Energy

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
