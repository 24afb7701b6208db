"""Couplings of two snapshots: which cell sends how much of its mass to which."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Coupling:
    """A coupling γ of two snapshots: ``weight[i]`` of mass goes from cell ``source[i]`` to cell ``target[i]``.

    The weights sum to one. An optimal coupling of n and m cells has at most n + m − 1 entries. Its marginals,
    ``source_weight`` and ``target_weight``, may differ from the weights of the cells: a partial coupling leaves some of
    the mass without partners.
    """

    source: NDArray[np.int32]
    target: NDArray[np.int32]
    weight: Array
    shape: tuple[int, int]
    cost: float
    """The mean squared distance travelled, ∫‖y − x‖² dγ."""
    duals: tuple[Array, Array] | None = None
    """Kantorovich potentials f and g of the cells: f_i + g_j ≤ ‖x_i − y_j‖² for all pairs. None if not computed."""
    bound: float | None = None
    """Upper bound on the cost above the optimum for the same marginals, as a fraction of that optimum; 0 for an exact
    coupling, up to the tolerance of the solver. None if unknown."""
    cap: float = np.inf
    """The squared distance from which on cells are not coupled, in partial transport."""
    dropped: float = 0.0
    """The fraction of the mass of either snapshot that was left without partners."""

    @classmethod
    def of(
        cls,
        source: NDArray[np.integer],
        target: NDArray[np.integer],
        weight: Array,
        x: Array,
        y: Array,
        *,
        duals: tuple[Array, Array] | None = None,
        bound: float | None = None,
    ) -> Coupling:
        """The coupling of snapshots ``x`` and ``y`` with these entries, their weights rescaled to sum to one."""
        weight = weight / weight.sum()
        cost = float(weight @ np.sum((y[target] - x[source]) ** 2, axis=1))
        shape = (len(x), len(y))
        return cls(source.astype(np.int32), target.astype(np.int32), weight, shape, cost, duals, bound)

    @property
    def n_pairs(self) -> int:
        """The number of pairs of cells that share mass."""
        return len(self.weight)

    @property
    def transposed(self) -> Coupling:
        """The same coupling read from the later snapshot to the earlier one."""
        duals = None if self.duals is None else self.duals[::-1]
        return replace(self, source=self.target, target=self.source, shape=self.shape[::-1], duals=duals)

    @property
    def source_weight(self) -> Array:
        """The mass of each source cell."""
        return np.bincount(self.source, self.weight, minlength=self.shape[0]).astype(np.float64)

    @property
    def target_weight(self) -> Array:
        """The mass of each target cell."""
        return self.transposed.source_weight

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
    """A coupling γ known only by its products with vectors, such as one of low rank: its matrix is never formed.

    Fits need the mass of cells and the mean of their partners, which are γ times a few vectors.
    """

    forward: Callable[[Array], Array]
    """γ times an array (m, k)."""
    backward: Callable[[Array], Array]
    """γᵀ times an array (n, k)."""
    shape: tuple[int, int]
    cost: float
    bound: None = None
    """Nothing is known of how far it is from the optimum."""
    cap: float = np.inf
    dropped: float = 0.0

    @classmethod
    def of(
        cls, forward: Callable[[Array], Array], backward: Callable[[Array], Array], x: Array, y: Array
    ) -> OperatorCoupling:
        """The coupling of snapshots ``x`` and ``y`` with these products, its mass rescaled to one."""
        mass = forward(np.ones((len(y), 1))).sum()
        made = cls(lambda z: forward(z) / mass, lambda z: backward(z) / mass, (len(x), len(y)), 0.0)
        # ∫‖y − x‖² dγ = ∫‖x‖² + ∫‖y‖² − 2∫x·y, about a common centre, where little cancels.
        x, y = x - x.mean(axis=0), y - x.mean(axis=0)
        squares = made.source_weight @ np.sum(x**2, axis=1) + made.target_weight @ np.sum(y**2, axis=1)
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

    @property
    def target_weight(self) -> Array:
        """The mass of each target cell."""
        return self.transposed.source_weight

    def partners(self, targets: Array) -> Array:
        """For each source cell the mean of its partners' coordinates (its barycentric projection)."""
        return _means(self.forward(targets), self.source_weight, targets)


def _means(total: Array, mass: Array, targets: Array) -> Array:
    has_mass = mass > 0
    return np.where(has_mass[:, None], total / np.where(has_mass, mass, 1.0)[:, None], targets.mean(axis=0))


def uniform(x: Array) -> Array:
    """Equal weights for every cell."""
    return np.full(len(x), 1 / len(x))


def grown(weight: Array, gain: Array) -> Array:
    """Weights of cells whose mass has grown by the factor e^gain each, made to sum to one."""
    mass = weight * np.exp(gain - gain[weight > 0].max())
    return np.asarray(mass / mass.sum())
