"""The path of least action: how cells get from one place at one time to another at a later one with the least noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]
#: A function of points (n, d) and their times (n,).
Timed = Callable[[Array, Array], Array]

#: Steps of a path, and of its minimisation, at most.
STEPS, ITERATIONS = 40, 100


class Action(NamedTuple):
    """A path and what it costs."""

    times: Array
    points: Array
    """(n_times, d)."""
    action: float
    """½ ∫ ‖ẋ + ∇V(x, t)‖² dt, zero for cells that follow −∇V."""


def least_action(gradient: Timed, hessian: Timed, start: Array, end: Array, t0: float, t1: float) -> Action:
    """The path from ``start`` at ``t0`` to ``end`` at ``t1`` that minimises ½ ∫ ‖ẋ + ∇V‖² dt.

    It is the likeliest one as noise goes to zero (Onsager and Machlup 1953, Phys. Rev. 91).
    By the midpoint rule on equal steps and a quasi-Newton method, from the straight line.
    """
    times = np.linspace(t0, t1, STEPS + 1)
    dt, middle = (t1 - t0) / STEPS, (times[1:] + times[:-1]) / 2
    path = start + (end - start) * np.linspace(0, 1, STEPS + 1)[:, None]
    scale = max(float(np.linalg.norm(end - start)), 1e-300)

    def cost(inner: Array) -> tuple[float, Array]:
        points = np.concatenate([start[None], inner.reshape(STEPS - 1, -1) * scale, end[None]])
        mean = (points[1:] + points[:-1]) / 2
        excess = np.diff(points, axis=0) / dt + gradient(mean, middle)
        pulled = np.einsum("nij,nj->ni", hessian(mean, middle), excess)
        slope = np.zeros_like(points)
        slope[1:] += excess + dt / 2 * pulled
        slope[:-1] += -excess + dt / 2 * pulled
        return float(dt / 2 * np.sum(excess**2)), slope[1:-1].ravel() * scale

    found = minimize(cost, path[1:-1].ravel() / scale, jac=True, method="L-BFGS-B", options={"maxiter": ITERATIONS})
    points = np.concatenate([start[None], found.x.reshape(STEPS - 1, -1) * scale, end[None]])
    return Action(times, points, float(found.fun))
