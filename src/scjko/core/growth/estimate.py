"""Growth of all intervals: from rates that are known, or from transport whose marginals may change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.neighbours import nearest
from ..compute.parallel import one_thread, side_by_side
from ..timeline import Timeline
from ..transport import Coupling, OperatorCoupling, grown
from .field import GrowthField, Rate
from .regression import Sample, smooth
from .relaxed import Relaxed, relaxed

Array = NDArray[np.float64]

#: Price of a unit of log-mass, relative to the squared spread of the cells of a snapshot. Chosen on simulated fates
#: (seeds 10 and 11): half of it finds rates of 0.1 a day where there are none, and four times as much half of those
#: there are.
PRICE = 1.0
#: Cells of a snapshot, from which on halves of them are coupled to judge each other.
FEWEST = 8
#: Cells whose expected rates a cluster has.
NEIGHBOURS = 5


@dataclass(frozen=True, eq=False)
class Growth:
    """How mass grows over every interval."""

    gains: tuple[Array, ...]
    """For each interval the log of the factor by which the mass of every source cell grows, up to a constant."""
    field: GrowthField
    """The same as a function of position and time, so that other cells have it too."""

    def part(self, cells: Sequence[NDArray[np.int64]]) -> Growth:
        """That of some cells of every snapshot."""
        gains = tuple(gain[own] for gain, own in zip(self.gains, cells, strict=False))
        return replace(self, gains=gains)


def known_growth(
    points: Sequence[Array], weights: Sequence[Array], timeline: Timeline, rates: Sequence[Array]
) -> Growth:
    """Growth at rates that are known for every cell of every snapshot."""
    gains = tuple(rate * gap for rate, gap in zip(rates, timeline.gaps, strict=False))
    found = [_smoothed(*cells) for cells in zip(points, rates, weights, strict=True)]
    ends = [found[k + end] for k in range(timeline.n_intervals) for end in (0, 1)]
    return Growth(gains, GrowthField(timeline, tuple(ends)))


def estimated_growth(
    points: Sequence[Array], weights: Sequence[Array], timeline: Timeline, prior: Sequence[Array] | None = None
) -> Growth:
    """Growth by transport whose marginals may change, around rates that are expected, by default none.

    Gains are those of the cells at hand, and take up what differs between snapshots by chance too. The field has as
    much of them as two halves of the cells, coupled separately, agree on.
    """
    rates = [np.zeros(len(x)) for x in points] if prior is None else list(prior)
    price = PRICE * float(np.mean([spread(x, w) for x, w in zip(points, weights, strict=True)]))
    gaps, n = timeline.gaps, timeline.n_intervals
    if price == 0:
        return known_growth(points, weights, timeline, rates)
    everybody = [np.ones(len(weight)) for weight in weights]
    halves = [everybody, *zip(*(_halved(weight, k) for k, weight in enumerate(weights)), strict=True)]
    tasks = [
        (points[k], points[k + 1], part[k] * weights[k], part[k + 1] * weights[k + 1], rates[k], float(gaps[k]), price)
        for k in range(n)
        for part in halves
    ]
    solved = side_by_side(lambda task: _interval(*task), tasks)
    wholes = solved[::3]
    gains = [rates[k] * gaps[k] + whole.solution.gain(points[k]) for k, whole in enumerate(wholes)]
    trios = [trio for k in range(n) for trio in zip(*(own.samples for own in solved[3 * k : 3 * k + 3]), strict=True)]
    ends = side_by_side(lambda trio: smooth(trio[0], [trio[1:]]), trios)
    if prior is None:
        shifts = _levels(points, weights, ends)
        gains = [gain + gap * shift for gain, gap, shift in zip(gains, gaps, shifts, strict=True)]
        ends = [replace(end, mean=end.mean + shifts[place // 2]) for place, end in enumerate(ends)]
    return Growth(tuple(gains), GrowthField(timeline, tuple(ends)))


def _levels(points: Sequence[Array], weights: Sequence[Array], ends: Sequence[Rate]) -> list[float]:
    """The constant of each interval.

    Proportions do not determine it. It is chosen so that a snapshot has the same mean rate at the end of one interval
    and at the start of the next, and the first one the mean zero: then a fate that outgrows the others raises the mean.
    """
    means = [weights[(place + 1) // 2] @ end(points[(place + 1) // 2]) for place, end in enumerate(ends)]
    shifts = [-float(means[0])]
    for k in range(1, len(ends) // 2):
        shifts.append(shifts[-1] + float(means[2 * k - 1] - means[2 * k]))
    return shifts


def read_growth(
    points: Sequence[Array],
    weights: Sequence[Array],
    couplings: Sequence[Coupling | OperatorCoupling],
    timeline: Timeline,
) -> Growth:
    """The growth that couplings have: a cell whose row has more mass than its weight has grown.

    Cells without mass have left none behind; their rate counts as the smallest of the others.
    """
    gains: list[Array] = []
    ends: list[Rate] = []
    for k, (coupling, gap) in enumerate(zip(couplings, timeline.gaps, strict=True)):
        mass, weight = coupling.source_weight, weights[k]
        alive = (mass > 0) & (weight > 0)
        gain = np.full(len(mass), np.inf)
        gain[alive] = np.log(mass[alive] / weight[alive])
        gain = np.where(alive, gain, gain.min())
        arrived = coupling.target_weight
        before = np.asarray(coupling.transposed.partners(np.exp(-gain)[:, None])[:, 0])
        for x, rate, w in ((points[k], gain / gap, weight), (points[k + 1], -np.log(before) / gap, arrived)):
            ends.append(_smoothed(x, rate, w))
        gains.append(gain)
    return Growth(tuple(gains), GrowthField(timeline, tuple(ends)))


def _smoothed(x: Array, rate: Array, weight: Array) -> Rate:
    """Rates of single cells as a function, as smooth as one half of the cells says of the other."""
    rng = np.random.default_rng(0)
    whole = Sample.of(x, rate, weight, rng)
    half = rng.permutation(len(whole.rates)) % 2 == 0
    one, other = (Sample(whole.points[rows], whole.rates[rows], _shares(whole.weight[rows])) for rows in (half, ~half))
    return smooth(whole, [(one, other)] if len(half) >= FEWEST else [])


class _Interval(NamedTuple):
    """The gains over one interval, and the rates of its sources and targets."""

    solution: Relaxed
    samples: tuple[Sample, Sample]


def _interval(x: Array, y: Array, a: Array, b: Array, prior: Array, gap: float, price: float) -> _Interval:
    """The gains over one interval of which some rates are expected."""
    with one_thread():
        solution = relaxed(x, y, grown(a, prior * gap), b, price)
        cells = np.flatnonzero(a > 0)
        near = cells[nearest(x[cells], solution.x, min(NEIGHBOURS, len(cells)))[1]]
        gain = solution.gain(solution.x) + gap * prior[near].mean(axis=1)
        plan = solution.plan()
    rate = np.log(np.maximum(solution.b, 1e-300) / np.maximum(np.exp(-gain) @ plan, 1e-300)) / gap
    samples = Sample(solution.x, gain / gap, solution.a), Sample(solution.y, rate, solution.b)
    return _Interval(solution, samples)


def spread(x: Array, weight: Array) -> float:
    """The mean squared distance of the cells of a snapshot from their mean."""
    return float(weight @ np.sum((x - weight @ x) ** 2, axis=1))


def _halved(weight: Array, seed: int) -> tuple[Array, Array]:
    """Which cells are in either half; of few cells all are in both."""
    rows = np.flatnonzero(weight > 0)
    if len(rows) < FEWEST:
        return np.ones(len(weight)), np.ones(len(weight))
    half = np.zeros(len(weight))
    half[np.random.default_rng(seed).permutation(rows)[: len(rows) // 2]] = 1
    return half, 1 - half


def _shares(weight: Array) -> Array:
    return weight / weight.sum()
