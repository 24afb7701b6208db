"""Whether one potential explains the motion: what it accounts for, against what it would if cells followed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
#: For snapshots by time: the fraction of the squared velocity that one potential explains, and how it moves cells
#: (interval, points) over an interval.
Fitter = Callable[[Sequence[Array]], tuple[float, Callable[[int, Array], Array]]]
#: The distance of two samples.
Distance = Callable[[Array, Array], float]

#: Simulated courses that are compared with the observed one.
SIMULATIONS = 19
#: Strengths of noise that are tried, as fractions of the mean squared displacement per unit of time.
NOISES = (0.0, 0.003, 0.01, 0.03, 0.1)


class GradientTest(NamedTuple):
    """How much one potential explains of the observed motion, and of motion that follows it."""

    explained: float
    expected: Array
    """One for each simulated course."""
    noise: float
    """β of the simulated courses."""

    @property
    def p_value(self) -> float:
        """The fraction of courses, the observed one among them, of which one potential explains as little."""
        return float((1 + np.sum(self.expected <= self.explained)) / (1 + len(self.expected)))


def gradient_test(
    points: Sequence[Array],
    gaps: Array,
    fit: Fitter,
    distance: Distance,
    *,
    n_simulations: int = SIMULATIONS,
    random_state: int = 0,
) -> GradientTest:
    """What one potential explains of coupled snapshots, and of courses simulated by the flow of that potential.

    Every snapshot of a simulated course has cells that started in another sample of the snapshot before, drawn with
    replacement, and as many as were observed: what is lost because samples are finite, and unpaired, is lost in both.
    They have the Brownian noise with which predicted snapshots are nearest to the observed ones.
    """
    explained, move = fit(points)
    rng = np.random.default_rng(random_state)

    def moved(k: int, x: Array, n: int, noise: float) -> Array:
        there = move(k, x[rng.integers(len(x), size=n)])
        return np.asarray(there + np.sqrt(2 * noise * gaps[k]) * rng.standard_normal(there.shape))

    steps = list(zip(points[:-1], points[1:], strict=True))
    speed = [np.mean(np.sum((move(k, x) - x) ** 2, axis=1)) / gaps[k] for k, (x, _) in enumerate(steps)]
    strengths = np.mean(speed) / (2 * points[0].shape[1]) * np.array(NOISES)
    errors = [np.mean([distance(moved(k, x, len(y), beta), y) for k, (x, y) in enumerate(steps)]) for beta in strengths]
    noise, expected = float(strengths[np.argmin(errors)]), []
    for _ in range(n_simulations):
        course = [points[0][rng.integers(len(points[0]), size=len(points[0]))]]
        for k in range(len(steps)):
            course.append(moved(k, course[-1], len(points[k + 1]), noise))
        expected.append(fit(course)[0])
    return GradientTest(explained, np.array(expected), noise)
