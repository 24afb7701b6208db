"""Wells over time: which well of one time becomes which of the next, and when wells appear, merge and vanish."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.neighbours import nearest
from .chart import Chart

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Event(NamedTuple):
    """Something that happens to wells between two times."""

    kind: str
    """``"appears"``, ``"splits"``, ``"merges"`` or ``"vanishes"``."""
    before: int
    """The number of the earlier chart."""
    track: int
    """The track that begins or ends."""
    other: int
    """The track that it splits from or merges with; −1 if none."""


class Tracks(NamedTuple):
    """The track of every well of every chart, and what happens to them."""

    numbers: tuple[Index, ...]
    events: tuple[Event, ...]


def tracked(charts: Sequence[Chart]) -> Tracks:
    """Wells followed from time to time.

    A well goes on in that in whose basin it lies at the next time. Of several that lie in one, the nearest goes on and
    the others merge with it. A new well splits from that in whose basin it would have been before, or appears.
    """
    numbers = [np.arange(len(charts[0].wells.heights))] if charts else []
    n, events = len(numbers[0]) if charts else 0, []
    for k in range(len(charts) - 1):
        before, after = charts[k], charts[k + 1]
        forward, backward = _basins(before, after), _basins(after, before)
        own = np.full(len(after.wells.heights), -1)
        for j in range(len(own)):
            candidates = np.flatnonzero(forward == j)
            if len(candidates):
                away = np.linalg.norm(before.wells.points[candidates] - after.wells.points[j], axis=1)
                own[j] = numbers[k][candidates[np.argmin(away)]]
        for i, track in enumerate(numbers[k].tolist()):
            if track not in own:
                into = int(own[forward[i]]) if forward[i] >= 0 else -1
                events.append(Event("merges" if into >= 0 else "vanishes", k, int(track), into))
        for j in np.flatnonzero(own < 0).tolist():
            source = int(numbers[k][backward[j]]) if backward[j] >= 0 else -1
            events.append(Event("splits" if source >= 0 else "appears", k, n, source))
            own[j], n = n, n + 1
        numbers.append(own)
    return Tracks(tuple(numbers), tuple(events))


def _basins(chart: Chart, other: Chart) -> Index:
    """The basin of another chart that each well lies in, by the cell nearest to it; −1 if none."""
    return np.asarray(other.basin[nearest(other.cells, chart.wells.points, 1)[1][:, 0]])
