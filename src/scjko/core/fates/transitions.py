"""Transitions of cells to those of the next snapshot, known by what they do to values and to masses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.spatial.distance import cdist

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Pairs of a cell and a representative whose probabilities are in memory at a time, some 30 MB.
BLOCK = 1 << 22


class Transition(Protocol):
    """The probabilities P (n, m) of n cells to become the m cells of the next snapshot."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of cells before and after."""

    def pull(self, values: Array) -> Array:
        """P times ``values`` (m, q): of each cell the mean value of those that it becomes."""

    def push(self, mass: Array) -> Array:
        """Pᵀ times ``mass`` (n, q): where the mass of the cells goes."""


@dataclass(frozen=True, eq=False)
class Planned:
    """The transitions of a coupling that is known by its entries: its rows, made to sum to one.

    A cell without partners becomes no cell.
    """

    matrix: sparse.csr_matrix

    @classmethod
    def of(cls, plan: sparse.csr_matrix) -> Planned:
        """The transitions of a plan of any mass."""
        mass = np.asarray(plan.sum(axis=1), dtype=np.float64).ravel()
        scale = np.divide(1.0, mass, out=np.zeros(len(mass)), where=mass > 0)
        return cls(sparse.csr_matrix(sparse.diags(scale) @ plan))

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of cells before and after."""
        return (int(self.matrix.shape[0]), int(self.matrix.shape[1]))

    def pull(self, values: Array) -> Array:
        """P times ``values`` (m, q)."""
        return np.asarray(self.matrix @ values)

    def push(self, mass: Array) -> Array:
        """Pᵀ times ``mass`` (n, q)."""
        return np.asarray(self.matrix.T @ mass)


@dataclass(frozen=True, eq=False)
class Entropic:
    """The transitions of an entropic coupling, extended from representatives of the next snapshot to all cells.

    A cell at x becomes a cell that representative c_j stands for with probability p_j ∝ exp(h_j − ‖x − c_j‖² / ε), and
    which of these cells, by their weights. h is the dual potential, divided by ε. The matrix is never stored: blocks of
    cells are evaluated as needed.
    """

    cells: Array
    """The cells before (n, d)."""
    centers: Array
    """The representatives of those after (k, d)."""
    height: Array
    """h (k,)."""
    epsilon: float
    """In squared units of the coordinates."""
    label: Index
    """The representative of each cell after (m,)."""
    share: Array
    """The weight of each cell after among those of its representative (m,)."""

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of cells before and after."""
        return len(self.cells), len(self.label)

    def pull(self, values: Array) -> Array:
        """P times ``values`` (m, q)."""
        means = gathered(self.share[:, None] * values, self.label, len(self.centers))
        return np.concatenate([block @ means for _, block in self._blocks()])

    def push(self, mass: Array) -> Array:
        """Pᵀ times ``mass`` (n, q)."""
        total = np.zeros((len(self.centers), mass.shape[1]))
        for rows, block in self._blocks():
            total += block.T @ mass[rows]
        return self.share[:, None] * total[self.label]

    def _blocks(self) -> Iterator[tuple[slice, Array]]:
        """Rows of cells, and their probabilities of becoming what each representative stands for."""
        size = max(1, BLOCK // len(self.centers))
        for start in range(0, len(self.cells), size):
            rows = slice(start, start + size)
            yield rows, closeness(self.cells[rows], self.centers, self.height, self.epsilon)


def closeness(x: Array, centers: Array, height: Array, epsilon: float) -> Array:
    """The probabilities p_j ∝ exp(h_j − ‖x − c_j‖² / ε) of each point."""
    exponent = height - cdist(x, centers, "sqeuclidean") / epsilon
    exponent -= exponent.max(axis=1, keepdims=True)
    np.exp(exponent, out=exponent)
    exponent /= exponent.sum(axis=1, keepdims=True)
    return np.asarray(exponent)


def gathered(values: Array, label: Index, n_groups: int) -> Array:
    """Sums of the rows of ``values`` by label."""
    columns = [np.bincount(label, column, minlength=n_groups) for column in values.T]
    return np.stack(columns, axis=1).astype(np.float64) if columns else np.zeros((n_groups, 0))
