"""Couplings of consecutive snapshots, kept as sparse triples, and their solvers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import Any

import jax
import numpy as np
import ot
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..compute.parallel import side_by_side
from .decomposition import transport

Array = NDArray[np.float64]

SOLVERS = ("exact", "decomposed", "batched", "sinkhorn")
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

    @classmethod
    def of(
        cls, source: NDArray[np.integer], target: NDArray[np.integer], weight: Array, x: Array, y: Array
    ) -> Coupling:
        """The coupling of snapshots ``x`` and ``y`` with these entries, their weights made to sum to one."""
        weight = weight / weight.sum()
        cost = float(weight @ np.sum((y[target] - x[source]) ** 2, axis=1))
        return cls(source.astype(np.int32), target.astype(np.int32), weight, (len(x), len(y)), cost)

    @property
    def n_pairs(self) -> int:
        """The number of pairs of cells that share mass."""
        return len(self.weight)

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
        sums = [np.bincount(self.source, self.weight * column[self.target], self.shape[0]) for column in targets.T]
        total = np.stack(sums, axis=1).astype(np.float64)
        return _means(total, mass, targets)


@dataclass(frozen=True, eq=False)
class OperatorCoupling:
    """A coupling γ that is known by what it does to vectors only, as one of low rank is: its matrix is never formed.

    Fits ask a coupling for the mass of cells and the mean of their partners, which is γ times a few vectors.
    """

    forward: Callable[[Array], Array]
    """γ times an array (m, k)."""
    backward: Callable[[Array], Array]
    """γᵀ times an array (n, k)."""
    shape: tuple[int, int]
    cost: float

    @classmethod
    def of(
        cls, forward: Callable[[Array], Array], backward: Callable[[Array], Array], x: Array, y: Array
    ) -> OperatorCoupling:
        """The coupling of snapshots ``x`` and ``y`` that acts like this, its mass made to be one."""
        mass = forward(np.ones((len(y), 1))).sum()
        made = cls(lambda z: forward(z) / mass, lambda z: backward(z) / mass, (len(x), len(y)), 0.0)
        # ∫‖y − x‖² dγ = ∫‖x‖² + ∫‖y‖² − 2∫x·y, about a common centre, where little cancels.
        x, y = x - x.mean(axis=0), y - x.mean(axis=0)
        squares = made.source_weight @ np.sum(x**2, axis=1) + made.transposed.source_weight @ np.sum(y**2, axis=1)
        return replace(made, cost=float(squares - 2 * np.sum(x * made.forward(y))))

    @property
    def n_pairs(self) -> int:
        """The number of pairs of cells that share mass: all."""
        return self.shape[0] * self.shape[1]

    @property
    def transposed(self) -> OperatorCoupling:
        """The same coupling read from the later snapshot to the earlier one."""
        return OperatorCoupling(self.backward, self.forward, self.shape[::-1], self.cost)

    @property
    def source_weight(self) -> Array:
        """The mass of each source cell."""
        return self.forward(np.ones((self.shape[1], 1)))[:, 0]

    def partners(self, targets: Array) -> Array:
        """For each source cell the mean of its partners' coordinates (its barycentric projection)."""
        return _means(self.forward(targets), self.source_weight, targets)


def _means(total: Array, mass: Array, targets: Array) -> Array:
    has_mass = mass > 0
    return np.where(has_mass[:, None], total / np.where(has_mass, mass, 1.0)[:, None], targets.mean(axis=0))


def uniform(x: Array) -> Array:
    """Equal weights for every cell."""
    return np.full(len(x), 1 / len(x))


def exact(x: Array, y: Array, a: Array | None = None, b: Array | None = None) -> Coupling:
    """The optimal coupling of two snapshots with weights ``a`` and ``b`` for the squared Euclidean cost.

    By linear programming (POT). A plan that is not solved is a ``RuntimeError``.
    """
    # Not through x² − 2xy + y², which loses the distances of cells that are all far from the origin.
    cost = cdist(x, y, "sqeuclidean")
    # The solver's tolerances are absolute: hand it costs of order one whatever the units of the coordinates.
    cost /= cost.max() or 1.0
    a, b = (uniform(x) if a is None else a / a.sum()), (uniform(y) if b is None else b / b.sum())
    plan, log = ot.emd(a, b, cost, numItermax=MAX_ITERATIONS, log=True)
    if log["warning"] is not None:
        raise RuntimeError(
            f"The exact coupling of {len(x)} and {len(y)} cells was not solved ({log['warning']}); "
            "check the representation for extreme values, or use coupling='batched'."
        )
    source, target = np.nonzero(plan)
    return Coupling.of(source, target, plan[source, target], x, y)


def decomposed(
    x: Array,
    y: Array,
    a: Array | None = None,
    b: Array | None = None,
    *,
    sweeps: int = 8,
    tolerance: float = 4e-4,
    random_state: int = 0,
) -> Coupling:
    """A coupling a few per cent from the optimal one, by domain decomposition, for snapshots too large to solve whole.

    See :mod:`scjko.core.transport.decomposition`, also for how time grows. There is no bound on the cost; that of 10⁴ cells was
    up to 4 % above the optimum. Snapshots of up to 256 cells together are coupled optimally.
    """
    a, b = (uniform(x) if a is None else a), (uniform(y) if b is None else b)
    source, target, weight = transport(x, y, a, b, sweeps=sweeps, tolerance=tolerance, random_state=random_state)
    return Coupling.of(source, target, weight, x, y)


def batched(
    x: Array, y: Array, a: Array | None = None, b: Array | None = None, *, size: int = 1000, random_state: int = 0
) -> Coupling:
    """Exact couplings of random batches of ``size`` cells of each snapshot, put together (the paper's scheme).

    Both snapshots are split at random into the same number of batches, so that every cell takes part once; a batch
    has the mass of its source cells.
    """
    a, b = (uniform(x) if a is None else a), (uniform(y) if b is None else b)
    rng = np.random.default_rng(random_state)
    n_batches = -(-max(len(x), len(y)) // size)
    sources, targets = (np.array_split(rng.permutation(len(z)), n_batches) for z in (x, y))
    parts = []
    for i, j in zip(sources, targets, strict=True):
        if a[i].sum() > 0 and b[j].sum() > 0:
            part = exact(x[i], y[j], a[i], b[j])
            parts.append((i[part.source], j[part.target], part.weight * a[i].sum()))
    source, target, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Coupling.of(source, target, weight, x, y)


def sinkhorn(x: Array, y: Array, a: Array | None = None, b: Array | None = None, *, epsilon: float = 0.01) -> Coupling:
    """The entropic coupling (OTT), its regularisation ``epsilon`` relative to the mean cost.

    Entries below a millionth of the largest are dropped and the rest made to sum to one. A solver that does not
    converge is a ``RuntimeError``.
    """
    cost = cdist(x, y, "sqeuclidean")
    cost /= cost.mean() or 1.0
    masses = [(uniform(z) if w is None else w / w.sum()).astype(np.float32) for z, w in ((x, a), (y, b))]
    matrix, converged = _sinkhorn_program()(cost.astype(np.float32), *masses, np.float32(epsilon))
    plan = np.asarray(matrix, dtype=np.float64)
    if not bool(converged) or not np.isfinite(plan).all():
        raise RuntimeError(
            f"The Sinkhorn coupling of {len(x)} and {len(y)} cells did not converge with epsilon={epsilon:g}; "
            "use a larger epsilon, or coupling='exact'."
        )
    source, target = np.nonzero(plan > 1e-6 * plan.max())
    return Coupling.of(source, target, plan[source, target], x, y)


@cache
def _sinkhorn_program() -> Callable[..., tuple[Any, Any]]:
    """Sinkhorn's algorithm, compiled once for every shape: the plan, and whether it converged."""
    from ott.geometry.geometry import Geometry  # OTT takes a second to import, and few fits need it
    from ott.solvers import linear

    @jax.jit
    def program(cost: jax.Array, a: jax.Array, b: jax.Array, epsilon: Any) -> tuple[Any, Any]:
        geometry = Geometry(cost_matrix=cost, epsilon=epsilon)
        solved = linear.solve(geometry, a=a, b=b, max_iterations=20_000)
        return solved.matrix, solved.converged

    return program


def solver(name: str, *, size: int, epsilon: float, random_state: int) -> Callable[..., Coupling]:
    """The solver of this name with its settings."""
    if name == "decomposed":
        return partial(decomposed, random_state=random_state)
    if name == "batched":
        return partial(batched, size=size, random_state=random_state)
    return partial(sinkhorn, epsilon=epsilon) if name == "sinkhorn" else exact


def couple(
    points: Sequence[Array],
    weights: Sequence[Array] | None = None,
    solve: Callable[..., Coupling] | Sequence[Callable[..., Coupling]] = exact,
    on_solved: Callable[[], object] = lambda: None,
    *,
    at_once: int | None = None,
    client: Any = None,
) -> list[Coupling]:
    """The couplings of consecutive snapshots, by one solver or by one for each interval, solved side by side.

    ``on_solved`` is called after each; for ``at_once`` and ``client`` see :func:`scjko.core.compute.parallel.side_by_side`.
    """
    weights = [uniform(x) for x in points] if weights is None else weights
    n_intervals = len(points) - 1
    solvers = [solve] * n_intervals if callable(solve) else list(solve)
    # Longest first, so that no core is left with the largest problem at the end.
    order = sorted(range(n_intervals), key=lambda k: -len(points[k]) * len(points[k + 1]))
    # Each with its own data only, which may have to travel to another machine.
    problems = [(solvers[k], *points[k : k + 2], *weights[k : k + 2]) for k in order]
    solved = side_by_side(_solve, problems, on_solved, at_once=at_once, client=client)
    return [coupling for _, coupling in sorted(zip(order, solved, strict=True), key=lambda pair: pair[0])]


def _solve(problem: tuple[Any, ...]) -> Coupling:
    solve, *data = problem
    return solve(*data)
