"""Solvers of couplings as objects: a name, checked options, the memory they need, and how they couple snapshots."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..checks import check_integer, check_option, check_positive
from ..compute.limits import machine_memory
from . import budget
from .batches import batched
from .coupling import Coupling
from .entropic import sinkhorn
from .programs.linear_program import exact
from .programs.multiscale import multiscale
from .programs.partial import partial

Array = NDArray[np.float64]
Weights = Array | None


@dataclass(frozen=True, kw_only=True)
class Solver(ABC):
    """A solver of couplings with its options.

    Parameters
    ----------
    memory_limit
        Gigabytes that couplings may take. Defaults to a quarter of the memory that this process may use.
    """

    name: ClassVar[str]

    memory_limit: float | None = None

    def __post_init__(self) -> None:
        if self.memory_limit is not None:
            self._set(memory_limit=check_positive("memory_limit", self.memory_limit))

    def _set(self, **checked: Any) -> None:
        """Replace options by their checked values, of Python's own types."""
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @abstractmethod
    def solve(self, x: Array, y: Array, a: Weights = None, b: Weights = None, *, random_state: int = 0) -> Coupling:
        """The coupling of two snapshots with weights ``a`` and ``b``, by default equal for all cells."""

    @abstractmethod
    def need(self, n: int, m: int, n_dims: int) -> int:
        """Bytes that the coupling of ``n`` and ``m`` cells takes."""

    def for_size(self, n: int, m: int) -> Solver:
        """The solver that takes ``n`` and ``m`` cells: itself, unless it leaves a choice."""
        return self

    def called(self, name: str) -> Solver:
        """The solver of this name that one interval was solved by."""
        return self if name == self.name else SOLVERS[name](memory_limit=self.memory_limit)

    @property
    def limit(self) -> int:
        """Bytes that couplings may take."""
        return machine_memory() // 4 if self.memory_limit is None else int(self.memory_limit * 1e9)

    def options(self) -> dict[str, Any]:
        """The options by name, without those that are None."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, kw_only=True)
class Exact(Solver):
    """Optimal couplings by linear programming: all pairs at once, or by column generation where these are many.

    Parameters
    ----------
    memory_limit
        Gigabytes that couplings may take. Defaults to a quarter of the memory that this process may use.
    """

    name: ClassVar[str] = "exact"

    def solve(self, x: Array, y: Array, a: Weights = None, b: Weights = None, *, random_state: int = 0) -> Coupling:
        """The optimal coupling; there is nothing random about it."""
        return exact(x, y, a, b)

    def need(self, n: int, m: int, n_dims: int) -> int:
        """Bytes for all pairs of few cells, or for each cell and its coordinates."""
        return min(budget.PER_PAIR * n * m, budget.per_cell(n, m, n_dims))


@dataclass(frozen=True, kw_only=True)
class Multiscale(Solver):
    """Couplings of large snapshots, nearly optimal, with a bound that proves it.

    Parameters
    ----------
    tolerance
        How far above the optimum a coupling may be, as a fraction of its cost without the shift of the mean. It is
        refined until its bound is as low, or until there is no sweep left.
    max_sweeps
        How often, at most, a coupling is refined. Defaults to 4, and to 2 for more than 4 · 10⁹ pairs of cells.
    memory_limit
        Gigabytes that couplings may take. Defaults to a quarter of the memory that this process may use.
    """

    name: ClassVar[str] = "multiscale"

    tolerance: float = 0.01
    max_sweeps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(tolerance=check_positive("tolerance", self.tolerance))
        if self.max_sweeps is not None:
            self._set(max_sweeps=check_integer("max_sweeps", self.max_sweeps))

    def solve(self, x: Array, y: Array, a: Weights = None, b: Weights = None, *, random_state: int = 0) -> Coupling:
        """The refined coupling; ``random_state`` is the seed of clusters and blocks."""
        seed, most = random_state, self.max_sweeps
        return multiscale(x, y, a, b, tolerance=self.tolerance, max_sweeps=most, random_state=seed)

    def need(self, n: int, m: int, n_dims: int) -> int:
        """Bytes for each cell and its coordinates."""
        return budget.per_cell(n, m, n_dims)


@dataclass(frozen=True, kw_only=True)
class Auto(Solver):
    """Exact couplings where they take less than some ten seconds, and multiscale ones elsewhere.

    Parameters
    ----------
    tolerance
        How far above the optimum multiscale couplings may be; see :class:`scjko.Multiscale`. Defaults to 0.01.
    memory_limit
        Gigabytes that couplings may take. Defaults to a quarter of the memory that this process may use.
    """

    name: ClassVar[str] = "auto"

    tolerance: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tolerance is not None:
            self._set(tolerance=check_positive("tolerance", self.tolerance))

    def solve(self, x: Array, y: Array, a: Weights = None, b: Weights = None, *, random_state: int = 0) -> Coupling:
        """The coupling by the solver that suits the number of cells."""
        return self.for_size(len(x), len(y)).solve(x, y, a, b, random_state=random_state)

    def need(self, n: int, m: int, n_dims: int) -> int:
        """Bytes that the chosen solver takes."""
        return self.for_size(n, m).need(n, m, n_dims)

    def for_size(self, n: int, m: int) -> Solver:
        """The exact solver for snapshots small enough for it, the multiscale one for others."""
        return self.called(Exact.name if n * m <= budget.LARGEST_EXACT else Multiscale.name)

    def called(self, name: str) -> Solver:
        """The solver of this name, with the tolerance of this one."""
        if name == Multiscale.name and self.tolerance is not None:
            return Multiscale(tolerance=self.tolerance, memory_limit=self.memory_limit)
        return super().called(name)


@dataclass(frozen=True, kw_only=True)
class Partial(Solver):
    """Couplings that leave over what would have to travel too far, by partial transport.

    Between two time points the proportions of fates differ by chance or by growth. A coupling of all mass carries the
    difference from fate to fate, and a potential has to explain that. Here mass may stay without a partner instead, as
    much of it at one time point as at the other. Large snapshots are coupled as by :class:`scjko.Multiscale`, others
    exactly.

    Parameters
    ----------
    price
        Cost of a unit of mass without partners, relative to the mean cost of the coupling of all mass. Cells further
        apart than that are never coupled. The smaller it is, the more is left over; above 1, never everything.
    tolerance
        How far above the optimum large couplings may be; see :class:`scjko.Multiscale`.
    max_sweeps
        How often, at most, large couplings are refined; see :class:`scjko.Multiscale`.
    memory_limit
        Gigabytes that couplings may take. Defaults to a quarter of the memory that this process may use.
    """

    name: ClassVar[str] = "partial"

    price: float = 5.0
    tolerance: float = Multiscale.tolerance
    max_sweeps: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(price=check_positive("price", self.price), tolerance=check_positive("tolerance", self.tolerance))
        if self.max_sweeps is not None:
            self._set(max_sweeps=check_integer("max_sweeps", self.max_sweeps))

    def solve(self, x: Array, y: Array, a: Weights = None, b: Weights = None, *, random_state: int = 0) -> Coupling:
        """The partial coupling; ``random_state`` is the seed of clusters and blocks of large snapshots."""
        if len(x) * len(y) <= budget.LARGEST_EXACT:
            return partial(x, y, a, b, price=self.price, solve=exact)
        options = {"tolerance": self.tolerance, "max_sweeps": self.max_sweeps, "random_state": random_state}
        return partial(x, y, a, b, price=self.price, solve=multiscale, **options)

    def need(self, n: int, m: int, n_dims: int) -> int:
        """Bytes for the coupling of all mass, and then, in its place, for the partial one."""
        return Auto().need(n, m, n_dims)


@dataclass(frozen=True, kw_only=True)
class Batched(Solver):
    """Optimal couplings of random batches of cells, put together.

    Parameters
    ----------
    size
        Cells of each snapshot in a batch.
    memory_limit
        Gigabytes that couplings may take. Defaults to a quarter of the memory that this process may use.
    """

    name: ClassVar[str] = "batched"

    size: int = 1000

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(size=check_integer("size", self.size, minimum=2))

    def solve(self, x: Array, y: Array, a: Weights = None, b: Weights = None, *, random_state: int = 0) -> Coupling:
        """The couplings of all batches as one; ``random_state`` is the seed of the batches."""
        return batched(x, y, a, b, size=self.size, random_state=random_state)

    def need(self, n: int, m: int, n_dims: int) -> int:
        """Bytes for all pairs of cells in a batch."""
        return budget.PER_PAIR * min(n, self.size) * min(m, self.size)


@dataclass(frozen=True, kw_only=True)
class Sinkhorn(Solver):
    """Entropic couplings (OTT).

    Parameters
    ----------
    epsilon
        Regularisation relative to the mean cost.
    memory_limit
        Gigabytes that couplings may take. Defaults to a quarter of the memory that this process may use.
    """

    name: ClassVar[str] = "sinkhorn"

    epsilon: float = 0.01

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(epsilon=check_positive("epsilon", self.epsilon))

    def solve(self, x: Array, y: Array, a: Weights = None, b: Weights = None, *, random_state: int = 0) -> Coupling:
        """The entropic coupling; there is nothing random about it."""
        return sinkhorn(x, y, a, b, epsilon=self.epsilon)

    def need(self, n: int, m: int, n_dims: int) -> int:
        """Bytes for all pairs of cells."""
        return budget.PER_PAIR * n * m


SOLVERS: dict[str, type[Solver]] = {kind.name: kind for kind in (Auto, Exact, Multiscale, Partial, Batched, Sinkhorn)}

#: Solvers of version 0.1 that are no more, and what takes their place.
REPLACED = {"decomposed": "multiscale"}


def as_solver(value: str | Solver) -> Solver:
    """The solver of this name with its default options, or ``value`` itself if it is a solver."""
    if isinstance(value, Solver):
        return value
    if not isinstance(value, str):
        names = ", ".join(map(repr, SOLVERS))
        raise TypeError(f"coupling must be a solver, such as Exact(), or the name of one ({names}), not {value!r}.")
    if value in REPLACED:
        raise ValueError(f"coupling={value!r} was replaced by {REPLACED[value]!r}, which is nearer to the optimum.")
    check_option("coupling", value, SOLVERS)
    return SOLVERS[value]()
