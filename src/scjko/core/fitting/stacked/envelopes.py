"""Kantorovich potentials from couplings of resampled cells: an energy without training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...energy.envelopes import ABSENT, KantorovichPotential
from ...energy.models import Weights
from ...transport import Coupling
from ..halves import halves
from ..parametrizations import Kantorovich
from ..problem import Course, Formulation, Solved

Array = NDArray[np.float64]

#: Parabolas at a place, at most, and cells times parabolas: as many as are evaluated in some ten seconds.
MOST_PARABOLAS, MOST_PAIRS, FEWEST_PARABOLAS = 40_000, 4e9, 4000
#: The smallest width ε in squared units of the spread of all cells: below it parabolas differ by rounding of float32.
NARROWEST = 1e-5


class Envelope(NamedTuple):
    """Parabolas ‖x − points‖² − heights of the cells of one snapshot, towards another, with the mass of each cell."""

    points: Array
    heights: Array
    mass: Array

    @classmethod
    def of(cls, x: Array, y: Array, coupling: Coupling) -> Envelope:
        """Those of the cells of ``x`` with mass, by their partners in ``y``."""
        assert coupling.duals is not None
        mass = coupling.source_weight
        held = mass > 0
        partners = coupling.partners(y)[held]
        heights = np.sum((x[held] - partners) ** 2, axis=1) - coupling.duals[0][held]
        return cls(partners, heights, mass[held])


def members(course: Course, n_members: int, random_state: int) -> list[Course]:
    """Halves of the cells, coupled one by one; two by two they are all cells, or as many as can be evaluated.

    One member is all cells, with the couplings that they have.
    Of large snapshots there are fewer members, each of more cells: what one plan of many cells resolves counts for more
    than the noise of plans, which there is small.
    """
    largest, most = max(len(x) for x in course.points), most_parabolas(course)
    if n_members == 1 and largest <= most:
        return [course]
    n = max(min(n_members, 2 * most // largest), min(n_members, 2))
    parts: list[Course] = []
    for seed in range(random_state, random_state + -(-n // 2)):
        parts += halves(course, seed, most=most // n)
    return parts[:n]


def most_parabolas(course: Course) -> int:
    """Parabolas at a place that are evaluated in time, in all members together."""
    n_cells = sum(len(x) for x in course.points)
    return max(min(MOST_PARABOLAS, int(MOST_PAIRS / n_cells)), FEWEST_PARABOLAS)


def softnesses(course: Course, softness: float) -> Array:
    """The width ε of each interval: so much of the mean squared distance travelled, without the shift of the mean."""
    found = []
    for k, coupling in enumerate(course.couplings):
        x, y = course.points[k : k + 2]
        shift = coupling.target_weight @ y - coupling.source_weight @ x
        found.append(softness * max(coupling.cost - float(shift @ shift), 0.0))
    return np.array(found)


def kantorovich_weights(parts: Sequence[Course], course: Course, formulation: Formulation, softness: float) -> Weights:
    """The weights of the potential at every place, from the couplings of the members."""
    units, gaps, ends = formulation.units, course.timeline.gaps, formulation.scheme.anchors
    widths = softnesses(course, softness) / units.length**2
    weights: Weights = {}
    for k, gap in enumerate(gaps):
        for number, end in enumerate(ends):
            envelopes = [_towards_other_end(part, k, end) for part in parts]
            width = max(float(widths[k]), NARROWEST)
            scale = units.length / (units.speed[k] * gap)
            weights[str(k * len(ends) + number)] = {
                **_stacked(envelopes, units.center, units.length, width),
                "softness": np.float32(width),
                "scale": np.float32(scale if end == 0 else -scale),
            }
    return weights


def _towards_other_end(course: Course, k: int, end: float) -> Envelope:
    """The envelope at the start or the end of an interval."""
    before, after = course.points[k : k + 2]
    coupling = course.couplings[k]
    assert isinstance(coupling, Coupling)
    return Envelope.of(before, after, coupling) if end == 0 else Envelope.of(after, before, coupling.transposed)


def _stacked(
    envelopes: Sequence[Envelope], center: Array, length: float, width: float
) -> dict[str, NDArray[np.float32]]:
    """Arrays of all members in the units of the fit, filled up with parabolas that are not there."""
    most = max(len(envelope.heights) for envelope in envelopes)
    n_dims = len(center)
    points = np.zeros((len(envelopes), most, n_dims), np.float32)
    heights = np.full((len(envelopes), most), ABSENT, np.float32)
    for m, envelope in enumerate(envelopes):
        inner = (envelope.points - center) / length
        rise = envelope.heights / length**2 - np.sum(inner**2, axis=1) + width * np.log(envelope.mass)
        points[m, : len(inner)], heights[m, : len(inner)] = inner, rise
    return {"points": points, "heights": heights}


def solve_kantorovich(
    course: Course, parts: Sequence[Course], formulation: Formulation, kantorovich: Kantorovich
) -> Solved:
    """The Kantorovich potential of the members."""
    assert kantorovich.softness is not None
    weights = kantorovich_weights(parts, course, formulation, kantorovich.softness)
    return Solved({"potential": weights}, KantorovichPotential(), None, parts=parts)
