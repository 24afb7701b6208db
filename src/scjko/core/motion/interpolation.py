"""A population between two snapshots, from the cells on either side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.neighbours import nearest
from ..compute.parallel import side_by_side
from ..energy.energy import Energy
from ..judging.baselines import Cloud, midpoint, progress
from ..judging.metrics import emd
from ..transport import Coupling, exact
from .paths import Step

Array = NDArray[np.float64]

#: Strengths of the density prior, and asynchronies, that are tried.
STRENGTHS, ASYNCHRONIES = (0.0, 0.25, 0.5, 0.75), (0.0, 0.1, 0.2, 1 / 3, 0.5)
#: The asynchrony with too few snapshots to leave one out. Relative to none, OT midpoints had errors of 0.92 and 0.80
#: (haematopoiesis, LARRY), 1.00 and 0.99 (CoSpar, reprogramming), and 1.03 to 1.05 for simulated cells, which are
#: synchronous by construction.
UNJUDGED = 0.2
#: A smaller asynchrony is taken if its error is within this fraction of the least.
TIE = 0.005
#: Observed cells that one may be pulled to: enough to stand for the population around a point.
NEIGHBOURS = 30
#: Cells of a snapshot that the choice of the strength looks at.
MAX_CELLS = 1000


class Interpolated(NamedTuple):
    """Cells at a time between two snapshots, and where each comes from."""

    cloud: Cloud
    source: NDArray[np.int64]
    """The number of the cell it was, in its snapshot."""
    side: NDArray[np.int64]
    """0 for cells of the snapshot before, 1 for those of the one after."""
    converged: NDArray[np.bool_]


class Rule(NamedTuple):
    """How a population between two snapshots is made from the cells on either side."""

    strength: float = 0.0
    """Of the density prior (:func:`towards_observed`)."""
    asynchrony: float = 0.0
    """Of the cells (:func:`scjko.core.judging.baselines.progress`)."""


def between(
    energy: Energy,
    before: Cloud,
    after: Cloud,
    times: tuple[float, float],
    time: float,
    random_state: int = 0,
    *,
    asynchrony: float = 0.0,
) -> Interpolated:
    """The population at ``time``: cells of the snapshot before it moved forward, those of the one after moved back.

    Each side goes along the straight line of its whole step, which is where optimal transport would have it
    (McCann 1997). Its weight is the product of how near in time it is and of how many cells it has: both sides are
    samples of one population, and copies of a few cells say little of it. Asynchronous cells are ahead of the time or
    behind.
    """
    fraction = (time - times[0]) / (times[1] - times[0])
    shares = np.array([(1 - fraction) * effective_size(before), fraction * effective_size(after)])
    weights = [share * cloud.weight for share, cloud in zip(shares / shares.sum(), (before, after), strict=True)]
    moved = [
        # A side without weight, at a measured time, stays where it is: its line need not be known.
        energy.move(cloud.points, start, time, random_state=random_state)
        if weight.any()
        else Step(cloud.points, np.ones(len(weight), dtype=bool), np.ones(len(weight)))
        for cloud, start, weight in zip((before, after), times, weights, strict=True)
    ]
    weights = [with_mass(w, step.mass) for w, step in zip(weights, moved, strict=True)]
    if asynchrony > 0 and 0 < fraction < 1:
        ahead = [progress(len(w), fraction, asynchrony, random_state) for w in weights]
        parts = ahead[0] / fraction, (1 - ahead[1]) / (1 - fraction)
        moved = [
            step._replace(positions=cloud.points + part[:, None] * (step.positions - cloud.points))
            for cloud, step, part in zip((before, after), moved, parts, strict=True)
        ]
    sizes = [len(before.weight), len(after.weight)]
    return Interpolated(
        Cloud(np.concatenate([step.positions for step in moved]), np.concatenate(weights)),
        np.concatenate([np.arange(size) for size in sizes]),
        np.repeat([0, 1], sizes),
        np.concatenate([step.converged for step in moved]),
    )


def forecast_from(energy: Energy, last: Cloud, start: float, time: float, random_state: int = 0) -> Interpolated:
    """The population at ``time`` beyond the last snapshot, forecast from that."""
    moved = energy.move(last.points, start, time, random_state=random_state)
    n = len(last.weight)
    cloud = Cloud(moved.positions, with_mass(last.weight, moved.mass))
    return Interpolated(cloud, np.arange(n), np.zeros(n, np.int64), moved.converged)


def effective_size(cloud: Cloud) -> float:
    """The number of cells of equal weight that say as much of a population (Kish 1965)."""
    return float(cloud.weight.sum() ** 2 / np.sum(cloud.weight**2))


def with_mass(weight: Array, mass: Array) -> Array:
    """Weights of cells whose mass has grown by these factors; their sum stays as it is."""
    made = weight * (mass / mass.max())
    return np.asarray(made * (weight.sum() / made.sum())) if weight.any() else weight


def towards_observed(points: Array, observed: Array, strength: float, random_state: int = 0) -> Array:
    """Points pulled by a fraction ``strength`` of the way to a random one of their nearest observed cells.

    Straight lines between snapshots cut through places where no cell ever is; cells observed at any time say where
    they can be, and how they scatter.
    """
    n_near = min(NEIGHBOURS, len(observed))
    _, near = nearest(observed, points, n_near)
    chosen = np.random.default_rng(random_state).integers(0, n_near, len(points))
    return np.asarray(points + strength * (observed[near[np.arange(len(points)), chosen]] - points))


def best_rule(snapshots: Sequence[Cloud], times: Array, random_state: int = 0) -> Rule:
    """The rule that serves best when measured time points are left out in turn and interpolated by optimal transport.

    Only measured times take part, so that it may be used for one that was not. The strength is chosen for synchronous
    cells, the asynchrony with that strength. With fewer than three snapshots nothing can be left out: there is no
    prior, and cells have the asynchrony that served real cells.
    """
    if len(times) < 3:
        return Rule(0.0, UNJUDGED)
    rng = np.random.default_rng(random_state)
    sampled = [_subsample(_with_mass(cloud), rng) for cloud in snapshots]
    inner = [_Inner.of(sampled, times, k) for k in range(1, len(times) - 1)]
    errors = _errors(inner, [Rule(strength) for strength in STRENGTHS], random_state)
    strength = STRENGTHS[int(np.argmin(errors))]
    errors = _errors(inner, [Rule(strength, asynchrony) for asynchrony in ASYNCHRONIES], random_state)
    return Rule(strength, ASYNCHRONIES[int(np.argmax(errors <= (1 + TIE) * errors.min()))])


class _Inner(NamedTuple):
    """A measured time point that is left out, and the coupling across it."""

    target: Cloud
    before: Array
    after: Array
    coupling: Coupling
    fraction: float
    others: Array
    """All cells of the other snapshots."""

    @classmethod
    def of(cls, snapshots: Sequence[Cloud], times: Array, k: int) -> _Inner:
        before, after = snapshots[k - 1], snapshots[k + 1]
        fraction = (times[k] - times[k - 1]) / (times[k + 1] - times[k - 1])
        coupling = exact(before.points, after.points, before.weight, after.weight)
        others = np.concatenate([other.points for j, other in enumerate(snapshots) if j != k])
        return cls(snapshots[k], before.points, after.points, coupling, fraction, others)

    def error(self, rule: Rule, random_state: int) -> float:
        """How far the population that a rule makes is from the one observed."""
        lines = self.before, self.after, self.coupling, self.fraction
        made = midpoint(*lines, rule.asynchrony, random_state)
        pulled = towards_observed(made.points, self.others, rule.strength, random_state)
        return emd(pulled, self.target.points, made.weight, self.target.weight)


def _errors(inner: Sequence[_Inner], rules: Sequence[Rule], random_state: int) -> Array:
    """The sum over time points of the error of each rule, relative to that of the first."""
    tasks = [(one, rule) for one in inner for rule in rules]
    found = side_by_side(lambda task: task[0].error(task[1], random_state), tasks)
    errors = np.array(found).reshape(len(inner), len(rules))
    return np.asarray((errors / np.maximum(errors[:, :1], 1e-300)).sum(axis=0))


def _with_mass(cloud: Cloud) -> Cloud:
    """Those points that weigh anything."""
    return Cloud(cloud.points[cloud.weight > 0], cloud.weight[cloud.weight > 0])


def _subsample(cloud: Cloud, rng: np.random.Generator) -> Cloud:
    if len(cloud.weight) <= MAX_CELLS:
        return cloud
    return Cloud(
        cloud.points[rng.choice(len(cloud.weight), MAX_CELLS, p=cloud.weight)], np.full(MAX_CELLS, 1 / MAX_CELLS)
    )
