"""Optimal couplings of consecutive snapshots, kept as sparse triples."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass

import numpy as np
import ot
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

Array = NDArray[np.float64]

#: POT stops after 10⁵ simplex iterations by default and returns an unsolved plan; 3000 × 3000 cells need more.
MAX_ITERATIONS = 100_000_000


@dataclass(frozen=True)
class Coupling:
    """A coupling γ of two snapshots: ``weight[i]`` of mass goes from cell ``source[i]`` to cell ``target[i]``.

    The weights sum to one. An optimal coupling of n and m cells has at most n + m − 1 entries.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: Array
    shape: tuple[int, int]
    cost: float
    """The mean squared distance travelled, ∫‖y − x‖² dγ."""

    @property
    def transposed(self) -> Coupling:
        """The same coupling read from the later snapshot to the earlier one."""
        return Coupling(self.target, self.source, self.weight, self.shape[::-1], self.cost)

    @property
    def source_weight(self) -> Array:
        """The mass of each source cell."""
        return np.bincount(self.source, self.weight, minlength=self.shape[0]).astype(np.float64)

    def partners(self, targets: Array) -> Array:
        """For each source cell the mean of its partners' coordinates (its barycentric projection).

        A source cell without mass gets the mean of all targets; its weight is zero wherever it is used.
        """
        mass = self.source_weight
        total = np.stack(
            [np.bincount(self.source, self.weight * column[self.target], self.shape[0]) for column in targets.T], axis=1
        )
        has_mass = mass > 0
        return np.where(has_mass[:, None], total / np.where(has_mass, mass, 1.0)[:, None], targets.mean(axis=0))


def exact(x: Array, y: Array) -> Coupling:
    """The optimal coupling of two uniformly weighted snapshots for the squared Euclidean cost, by linear programming.

    Raises
    ------
    RuntimeError
        If the solver did not reach the optimum.
    """
    # Not through x² − 2xy + y², which loses the distances of cells that are all far from the origin.
    cost = cdist(x, y, "sqeuclidean")
    # The solver's tolerances are absolute: hand it costs of order one whatever the units of the coordinates.
    scale = cost.max() or 1.0
    cost /= scale
    a, b = np.full(len(x), 1 / len(x)), np.full(len(y), 1 / len(y))
    plan, log = ot.emd(a, b, cost, numItermax=MAX_ITERATIONS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(
            f"The exact coupling of {len(x)} and {len(y)} cells was not solved ({log['warning']}); "
            "check the representation for extreme values, or use fewer cells."
        )
    source, target = np.nonzero(plan)
    weight = plan[source, target]
    weight /= weight.sum()
    distance = scale * float(weight @ cost[source, target])
    return Coupling(source.astype(np.int32), target.astype(np.int32), weight, plan.shape, distance)


def couple(
    points: Sequence[Array],
    solver: Callable[[Array, Array], Coupling] = exact,
    on_solved: Callable[[], object] = lambda: None,
) -> list[Coupling]:
    """The couplings of consecutive snapshots, solved side by side on the cores there are.

    ``on_solved`` is called after each. POT releases the GIL, so threads suffice.
    """
    intervals = range(len(points) - 1)
    # Longest first, so that no core is left with the largest problem at the end.
    order = sorted(intervals, key=lambda k: -len(points[k]) * len(points[k + 1]))
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        futures = {pool.submit(solver, points[k], points[k + 1]): k for k in order}
        try:
            for future in as_completed(futures):
                future.result()
                on_solved()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    solved = {k: future.result() for future, k in futures.items()}
    return [solved[k] for k in intervals]
