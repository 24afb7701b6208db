"""Paths of least energy between wells, by the string method (E, Ren and Vanden-Eijnden 2007, J. Chem. Phys. 126)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .relief import Relief

Array = NDArray[np.float64]

#: Points of a path, and how often they move down.
POINTS, STEPS = 41, 200
#: Longest step as a fraction of the distance between two points.
LONGEST = 0.4
#: Steps in units of the inverse curvature that was seen, and how much of that is remembered.
STEADY, FORGET = 0.7, 0.9
#: Relative change of a path, per step, at which it has settled.
SETTLED = 1e-4


def relaxed(relief: Relief, paths: Array) -> Array:
    """Paths (n, points, d) with fixed ends, moved down until −∇V is along them.

    Points move by −∇V and are then spread evenly along the path again: what is left of the motion is perpendicular.
    """
    paths = np.array([evenly(path, POINTS) for path in paths]).reshape(len(paths), POINTS, paths.shape[2])
    active, curvature = np.arange(len(paths)), np.zeros(len(paths))
    before = slopes = np.zeros((len(paths), POINTS - 2, paths.shape[2]))
    for k in range(STEPS):
        if not len(active):
            break
        inner, slope = paths[:, 1:-1].copy(), slopes.copy()
        slope[active] = relief.gradient(inner[active].reshape(-1, inner.shape[2])).reshape(
            len(active), *inner.shape[1:]
        )
        length = np.linalg.norm(np.diff(paths, axis=1), axis=2).sum(axis=1)
        spacing = length / (POINTS - 1)
        # Steps beyond the inverse of the curvature go to and fro: it is what the slope changed by, per step.
        if k:
            changed = np.linalg.norm(slope - slopes, axis=2), np.linalg.norm(inner - before, axis=2)
            seen = changed[0] / np.maximum(changed[1], 1e-12 * spacing[:, None] + 1e-300)
            curvature = np.maximum(FORGET * curvature, seen.max(axis=1))
        size = np.linalg.norm(slope, axis=2)
        usual = 0.5 * spacing / np.maximum(np.median(size, axis=1), 1e-300)
        step = np.minimum(STEADY / np.maximum(curvature, 1e-300), 1e6 * usual) if k else usual
        move = -step[:, None, None] * slope
        far = np.linalg.norm(move, axis=2, keepdims=True)
        move *= np.minimum(1.0, LONGEST * spacing[:, None, None] / np.maximum(far, 1e-300))
        moved = paths[active].copy()
        moved[:, 1:-1] += move[active]
        old = paths[active]
        paths[active] = [evenly(path, POINTS) for path in moved]
        before, slopes = inner, slope
        change = np.linalg.norm(paths[active] - old, axis=2).max(axis=1)
        active = active[change > SETTLED * length[active]]
    return paths


def evenly(path: Array, n: int) -> Array:
    """A polyline (points, d) as ``n`` points at equal distances along it."""
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(path, axis=0), axis=1))])
    marks = np.linspace(0.0, along[-1], n)
    return np.stack([np.interp(marks, along, column) for column in path.T], axis=1)
