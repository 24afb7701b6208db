"""A population between two snapshots, from the cells on either side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.neighbours import nearest
from ..energy.energy import Energy
from ..judging.baselines import Cloud, midpoint
from ..judging.metrics import emd
from ..transport import exact
from .paths import Step

Array = NDArray[np.float64]

#: Strengths of the density prior that are tried.
STRENGTHS = (0.0, 0.25, 0.5, 0.75)
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


def between(
    energy: Energy, before: Cloud, after: Cloud, times: tuple[float, float], time: float, random_state: int = 0
) -> Interpolated:
    """The population at ``time``: earlier cells moved forward, and later cells moved back.

    Each side goes along the straight line of its whole step, which is where optimal transport would have it
    (McCann 1997), and weighs by how near in time it is.
    """
    fraction = (time - times[0]) / (times[1] - times[0])
    weights = [(1 - fraction) * before.weight, fraction * after.weight]
    moved = [
        # A side without weight, at a measured time, stays where it is: its trajectory is not needed.
        energy.move(cloud.points, start, time, random_state=random_state)
        if weight.any()
        else Step(cloud.points, np.ones(len(weight), dtype=bool), np.ones(len(weight)))
        for cloud, start, weight in zip((before, after), times, weights, strict=True)
    ]
    weights = [with_mass(w, step.mass) for w, step in zip(weights, moved, strict=True)]
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


def best_strength(snapshots: Sequence[Cloud], times: Array, random_state: int = 0) -> float:
    """The strength that serves best when a measured time point is left out and interpolated by optimal transport.

    Only measured times take part, so that it may be used for one that was not. With fewer than three of them there is
    nothing to learn from, and it is zero.
    """
    rng = np.random.default_rng(random_state)
    sampled = [_subsample(_with_mass(cloud), rng) for cloud in snapshots]
    errors = np.zeros(len(STRENGTHS))
    for k in range(1, len(times) - 1):
        before, after = sampled[k - 1], sampled[k + 1]
        fraction = (times[k] - times[k - 1]) / (times[k + 1] - times[k - 1])
        plan = exact(before.points, after.points, before.weight, after.weight)
        cloud = midpoint(before.points, after.points, plan, fraction)
        others = np.concatenate([other.points for j, other in enumerate(sampled) if j != k])
        pulled = [towards_observed(cloud.points, others, strength, random_state) for strength in STRENGTHS]
        error = np.array([emd(x, sampled[k].points, cloud.weight, sampled[k].weight) for x in pulled])
        errors += error / max(error[0], 1e-300)
    return STRENGTHS[int(np.argmin(errors))]


def _with_mass(cloud: Cloud) -> Cloud:
    """Those points that weigh anything."""
    return Cloud(cloud.points[cloud.weight > 0], cloud.weight[cloud.weight > 0])


def _subsample(cloud: Cloud, rng: np.random.Generator) -> Cloud:
    if len(cloud.weight) <= MAX_CELLS:
        return cloud
    return Cloud(
        cloud.points[rng.choice(len(cloud.weight), MAX_CELLS, p=cloud.weight)], np.full(MAX_CELLS, 1 / MAX_CELLS)
    )
