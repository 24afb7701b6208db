"""Other solvers of couplings, and our own on one core: what each costs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np
import ot

from ..core.compute.parallel import one_thread
from ..core.transport import MAX_ITERATIONS, OperatorCoupling, batched
from ._shapes import Interval

#: Rank of the plans of low-rank Sinkhorn, and cells of a batch.
RANK, BATCH = 50, 1000


@contextmanager
def one_core() -> Iterator[None]:
    """Within it work is done by one thread on one core, also by solvers that share it among cores (Linux only).

    Threads inherit the affinity of the thread that starts them, and our solvers start as many as there are cores.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        with one_thread():
            yield
    finally:
        os.sched_setaffinity(0, allowed)


def all_pairs(interval: Interval) -> float:
    """The cost of the optimal plan by POT's network simplex on the matrix of all pairs, which uses one thread."""
    x, y, a, b = interval
    with one_thread():
        distances = ot.dist(x, y)
        plan = ot.emd(a, b, distances, numItermax=MAX_ITERATIONS)
        return float(np.vdot(plan, distances))


def batches(interval: Interval, seconds: float) -> float:
    """The cost of the cheapest of as many random batchings as fit into the time, at least one."""
    begun = time.perf_counter()
    size = min(BATCH, len(interval.x), len(interval.y))
    costs: list[float] = []
    while not costs or time.perf_counter() - begun < seconds:
        costs.append(batched(*interval, size=size, random_state=len(costs)).cost)
    return min(costs)


def takes_bsp(interval: Interval) -> bool:
    """Whether BSP-OT is installed and takes the problem: equal numbers of cells of equal weight."""
    return hasattr(ot, "bsp") and len(interval.x) == len(interval.y) and not np.ptp(interval.a) + np.ptp(interval.b)


def bsp(interval: Interval, seconds: float) -> float:
    """The cost of BSP-OT with as many plans as fit into the time."""
    x, y = interval[:2]

    def cost(n_plans: int) -> float:
        _, partner, *_ = ot.bsp.compute_bspot_bijection(x, y, n_plans=n_plans)
        return float(np.mean(np.sum((x - y[np.asarray(partner)]) ** 2, axis=1)))

    begun = time.perf_counter()
    cost(8)
    took = time.perf_counter() - begun
    return cost(max(8, int(8 * (seconds - took) / took)))


def low_rank(interval: Interval, rank: int = RANK) -> Callable[[], float]:
    """Low-rank Sinkhorn (OTT) for this problem, compiled: a function that solves it and gives the cost of the plan.

    The plan is known by its factors, and so is its cost. It is NaN where the solver does not converge or fails.
    """
    from ott.geometry.pointcloud import PointCloud  # OTT takes a second to import
    from ott.problems.linear.linear_problem import LinearProblem
    from ott.solvers.linear.sinkhorn_lr import LRSinkhorn

    rank = min(rank, len(interval.x), len(interval.y))

    def solve(x: jax.Array, y: jax.Array, a: jax.Array, b: jax.Array) -> tuple[Any, ...]:
        geometry = PointCloud(x, y, scale_cost="mean").to_LRCGeometry()
        solved = LRSinkhorn(rank)(LinearProblem(geometry, a, b), rng=jax.random.key(0))
        return solved.q, solved.r, solved.g, solved.converged

    arrays = [np.asarray(array, np.float32) for array in interval]
    with jax.numpy_rank_promotion("allow"), jax.numpy_dtype_promotion("standard"):  # OTT relies on both
        compiled = jax.jit(solve).lower(*arrays).compile()

    def cost() -> float:
        try:
            q, r, g, converged = (np.asarray(array, np.float64) for array in compiled(*arrays))
        except (RuntimeError, ValueError, MemoryError):  # XLA's errors are RuntimeErrors
            return float("nan")
        if not converged or not all(np.isfinite(array).all() for array in (q, r, g)):
            return float("nan")
        forward, backward = (lambda z: q / g @ (r.T @ z)), (lambda z: r / g @ (q.T @ z))
        return OperatorCoupling.of(forward, backward, interval.x, interval.y).cost

    return cost
