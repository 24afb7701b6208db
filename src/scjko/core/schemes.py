"""Schemes: where in an interval the first-order condition holds, and the step that this makes exact.

Within an interval of length Δ every cell moves along a straight line at constant speed, from x at its start to y at its
end. At the fraction p of the interval, the anchor, it stands at m = (1 − p) x + p y, and the condition there reads

    ∇J(m) = −(y − x) / Δ.

The anchor is the scheme: 0 is the explicit one (m = x), 1 the implicit one of the paper (m = y), and ½ the midpoint
rule, which is of second order. Given the energy, the line through any point z at the fraction f is the one whose m
solves

    m + (p − f) Δ ∇J(m) = z,

and at the fraction g the cell is at z − (g − f) Δ ∇J(m). This is the step that the fit makes exact, over any part of an
interval, and such steps compose: every point of a line leads to the same m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .timeline import Timeline, time_text

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Parts(NamedTuple):
    """Readings of many points: so much (``weight``) of the anchor of an interval for the point in a row."""

    row: Index
    interval: Index
    anchor: Array
    weight: Array


class Reading(NamedTuple):
    """A part of the field at a snapshot: so much of what is fitted at the anchor of an interval."""

    interval: int
    anchor: float
    weight: float


@dataclass(frozen=True)
class Scheme:
    """Where the condition holds (``anchors``) and by which of them cells are moved."""

    name: str
    anchors: tuple[float, ...]
    forward: float
    """The anchor of steps forward in time."""
    backward: float | None
    """The anchor of steps back; ``None`` if the fit never saw where cells came from."""

    def anchor(self, t0: float, t1: float) -> float:
        """The anchor of a step from ``t0`` to ``t1``."""
        if t1 >= t0:
            return self.forward
        if self.backward is None:
            raise ValueError(
                f"A step back from {time_text(t0)} to {time_text(t1)} needs an energy that knows where cells came "
                "from; fit with scheme='both' or 'implicit'."
            )
        return self.backward

    def readings(self, timeline: Timeline) -> list[list[Reading]]:
        """What the field at each snapshot is made of.

        A map is a secant over a whole interval: right for prediction, but of first order as the slope at one time. With
        both ends fitted, the field at a snapshot between two intervals is the mean of the backward secant of the one
        before and the forward secant of the one after, each weighted by the length of the other interval, which is of
        second order. With one anchor it is the secant of the nearest interval anchored there.
        """
        last = timeline.n_intervals - 1
        return [[Reading(min(max(k - round(self.forward), 0), last), self.forward, 1.0)] for k in range(last + 2)]

    def field(self, timeline: Timeline, interval: Index, fraction: Array) -> Parts:
        """The readings of the field at many places; between two snapshots those of both, by how near they are."""
        readings = self.readings(timeline)
        found = [(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0), np.empty(0))]
        for side, share in self.sides(fraction):
            for k in np.unique(interval[share > 0] + side):
                row = np.flatnonzero((interval + side == k) & (share > 0))
                for reading in readings[k]:
                    same = np.full(len(row), reading.interval), np.full(len(row), reading.anchor)
                    found.append((row, *same, reading.weight * share[row]))
        return Parts(*(np.concatenate(column) for column in zip(*found, strict=True)))

    def sides(self, fraction: Array) -> tuple[tuple[int, Array], ...]:
        """How much of the snapshot before (0) and after (1) there is at each fraction of an interval."""
        return (0, 1 - fraction), (1, fraction)


@dataclass(frozen=True)
class _Both(Scheme):
    """The condition at both ends: the field has two sides."""

    def readings(self, timeline: Timeline) -> list[list[Reading]]:
        gaps, last = timeline.gaps, timeline.n_intervals - 1
        found = [[Reading(0, 0.0, 1.0)]]
        for k in range(1, last + 1):
            before, after = gaps[k - 1], gaps[k]
            share = float(after / (before + after))
            found.append([Reading(k - 1, 1.0, share), Reading(k, 0.0, 1 - share)])
        return [*found, [Reading(last, 1.0, 1.0)]]


EXPLICIT = Scheme("explicit", (0.0,), 0.0, None)
IMPLICIT = Scheme("implicit", (1.0,), 1.0, 1.0)
BOTH = _Both("both", (0.0, 1.0), 0.0, 1.0)
#: What ``"both"`` is for a potential that does not vary in time: one potential cannot hold the secants of both ends,
#: and averaging them makes neither exact. Held at the middle of every pair, one condition serves both directions.
MIDPOINT = Scheme("both", (0.5,), 0.5, 0.5)


@dataclass(frozen=True)
class Secant(Scheme):
    """A scheme of version 0.1, whose field is the secant of the interval that a time lies in."""

    def field(self, timeline: Timeline, interval: Index, fraction: Array) -> Parts:
        """What is fitted at the place itself, which a network that reads it can be evaluated at."""
        return Parts(np.arange(len(fraction)), interval, fraction, np.ones(len(fraction)))

    def sides(self, fraction: Array) -> tuple[tuple[int, Array], ...]:
        """The nearer snapshot alone."""
        nearer = np.rint(fraction)
        return (0, 1 - nearer), (1, nearer)


SCHEMES = ("both", "explicit", "implicit")
_VARYING = {"both": BOTH, "explicit": EXPLICIT, "implicit": IMPLICIT}


def scheme_of(name: str, *, static: bool) -> Scheme:
    """The scheme of this name for a potential that is ``static`` or varies in time."""
    return MIDPOINT if static and name == "both" else _VARYING[name]


def secant_of(name: str) -> Scheme:
    """The scheme of this name in a fit of version 0.1."""
    scheme = _VARYING[name]
    return Secant(scheme.name, scheme.anchors, scheme.forward, scheme.backward)


def stepping(fitted: Scheme, name: str | None) -> Scheme:
    """The scheme to move cells by: the one that was fitted, or another if it is named."""
    if name is None or name == fitted.name:
        return fitted
    if name not in SCHEMES:
        raise ValueError(f"scheme={name!r} is not an option; choose one of {', '.join(map(repr, SCHEMES))}.")
    # Back as it was fitted: the energy knows no other anchor there.
    return Scheme(name, fitted.anchors, _VARYING[name].forward, fitted.backward)
