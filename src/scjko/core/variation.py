"""How a potential varies in time: what a model is told of the place where it is evaluated.

A place is an interval and an anchor in it, the fraction of the interval at which the first-order condition holds. A
model takes one row of numbers for each place; what these are is the variation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from .timeline import Timeline

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Variation:
    """How a potential varies in time."""

    #: Whether intervals share one potential, or coefficients: then velocities of all of them have one unit. Otherwise
    #: each interval has its own, a displacement over its length, so that short and long intervals are fitted alike.
    shared: ClassVar[bool]
    #: Whether there is one potential for all times.
    static: ClassVar[bool] = False

    def inputs(
        self, timeline: Timeline, interval: Index, anchor: Array, anchors: tuple[float, ...]
    ) -> NDArray[np.float32]:
        """What the model is told of each place, one row each; ``anchors`` are all that the scheme has."""
        return self._columns(timeline, interval, anchor, len(anchors) > 1).astype(np.float32)

    def _columns(self, timeline: Timeline, interval: Index, anchor: Array, two_ends: bool) -> Array:
        raise NotImplementedError

    def n_inputs(self, timeline: Timeline, anchors: tuple[float, ...]) -> int:
        """How many numbers a model is told."""
        return self.inputs(timeline, np.zeros(1, np.int64), np.zeros(1), anchors).shape[1]


@dataclass(frozen=True)
class Static(Variation):
    """One potential for all times."""

    shared = True
    static = True

    def _columns(self, timeline: Timeline, interval: Index, anchor: Array, two_ends: bool) -> Array:
        return np.ones((len(anchor), 1))


@dataclass(frozen=True)
class Labelled(Variation):
    """A network that reads a label of the interval and, if both ends are fitted, which end (−1 start, 1 end).

    ``label`` names the labels of :class:`~scjko.core.timeline.Timeline`: ``"ranks"``, ``"midpoints"`` or ``"targets"``.
    ``shared`` units belong to fits of version 0.1.
    """

    label: str = "ranks"
    shared: bool = False  # type: ignore[misc]

    def _columns(self, timeline: Timeline, interval: Index, anchor: Array, two_ends: bool) -> Array:
        label = getattr(timeline, self.label)[interval]
        return np.stack([label, 2 * anchor - 1], axis=1) if two_ends else label[:, None]


@dataclass(frozen=True)
class Separate(Variation):
    """Coefficients of its own for each interval and, if both ends are fitted, each end."""

    shared: bool = False  # type: ignore[misc]

    def _columns(self, timeline: Timeline, interval: Index, anchor: Array, two_ends: bool) -> Array:
        return _by_end(np.eye(timeline.n_intervals)[interval], anchor, two_ends)


@dataclass(frozen=True)
class Smooth(Variation):
    """Coefficients that are quadratic in time, for each end if both are fitted."""

    label: str = "midpoints"
    shared = True

    def _columns(self, timeline: Timeline, interval: Index, anchor: Array, two_ends: bool) -> Array:
        label = getattr(timeline, self.label)[interval]
        return _by_end(label[:, None] ** np.arange(3), anchor, two_ends)


@dataclass(frozen=True)
class Joined(Variation):
    """What several potentials are told, side by side; intervals of each have their own units."""

    parts: tuple[Variation, ...]
    shared = False

    def _columns(self, timeline: Timeline, interval: Index, anchor: Array, two_ends: bool) -> Array:
        return np.concatenate([part._columns(timeline, interval, anchor, two_ends) for part in self.parts], axis=1)


def _by_end(time: Array, anchor: Array, two_ends: bool) -> Array:
    """Columns for the start and the end of an interval, or those of the time alone."""
    ends = np.stack([1 - anchor, anchor], axis=1) if two_ends else np.ones((len(anchor), 1))
    return (time[:, :, None] * ends[:, None, :]).reshape(len(anchor), -1)
