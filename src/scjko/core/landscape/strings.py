"""Paths of least energy between wells, by the string method (E, Ren and Vanden-Eijnden 2007, J. Chem. Phys. 126)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .relief import Relief

Array = NDArray[np.float64]

#: Points of a path, and how often they move down.
POINTS, STEPS = 41, 300
#: Longest step as a fraction of the distance between two points.
LONGEST = 0.4
#: Relative change of a path, per step, at which it has settled.
SETTLED = 1e-4


def relaxed(relief: Relief, paths: Array) -> Array:
    """Paths (n, points, d) with fixed ends, moved down until −∇V is along them.

    Points move by −∇V and are then spread evenly along the path again: what is left of the motion is perpendicular.
    """
    paths = np.array([evenly(path, POINTS) for path in paths]).reshape(len(paths), POINTS, paths.shape[2])
    active = np.arange(len(paths))
    step = np.zeros(len(paths))
    best = np.full(len(paths), np.inf)
    for k in range(STEPS):
        if not len(active):
            break
        inner = paths[active, 1:-1]
        flat = inner.reshape(-1, inner.shape[2])
        slope = relief.gradient(flat).reshape(inner.shape)
        length = np.linalg.norm(np.diff(paths[active], axis=1), axis=2).sum(axis=1)
        spacing = length / (POINTS - 1)
        if not k:
            size = np.linalg.norm(slope, axis=2)
            step[active] = 0.5 * spacing / np.maximum(np.median(size, axis=1), 1e-300)
        move = -step[active, None, None] * slope
        far = np.linalg.norm(move, axis=2, keepdims=True)
        move *= np.minimum(1.0, LONGEST * spacing[:, None, None] / np.maximum(far, 1e-300))
        before = paths[active]
        moved = before.copy()
        moved[:, 1:-1] += move
        paths[active] = [evenly(path, POINTS) for path in moved]
        change = np.linalg.norm(paths[active] - before, axis=2).max(axis=1)
        # Points that go to and fro have steps too long for the curvature across the path.
        step[active] *= np.where(change > 0.9 * best[active], 0.9, 1.02)
        best[active] = np.minimum(best[active], change)
        active = active[change > SETTLED * length]
    return paths


def evenly(path: Array, n: int) -> Array:
    """A polyline (points, d) as ``n`` points at equal distances along it."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    marks = np.linspace(0.0, along[-1], n)
    return np.stack([np.interp(marks, along, column) for column in path.T], axis=1)
