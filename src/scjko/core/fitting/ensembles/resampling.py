"""Resampled cells: what members of an ensemble are fitted to."""

from __future__ import annotations

import numpy as np

from ...transport import Solver
from ..halves import FEWEST, halves
from ..problem import Course


def resampled(course: Course, n_members: int, random_state: int, solver: Solver | None = None) -> list[Course]:
    """Halves of the cells, coupled one by one; two by two they are all cells."""
    most = max(len(x) for x in course.points)
    parts: list[Course] = []
    for seed in range(random_state, random_state + -(-n_members // 2)):
        parts += halves(course, seed, most=most, solver=solver)
    return parts[:n_members]


def check_resampling(course: Course) -> None:
    """Raise if a snapshot has too few cells to be halved."""
    fewest = min(int(np.count_nonzero(weight)) for weight in course.weights)
    if fewest < FEWEST:
        raise ValueError(
            f"n_members requires fits of resampled cells, and the smallest snapshot has {fewest}: at least {FEWEST} "
            "are needed. Leave n_members out, or drop that time point."
        )
