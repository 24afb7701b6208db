"""Fitting an energy to coupled snapshots: conditions in, energy out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.blocks import in_blocks
from ..condition import Conditions, conditions
from ..energy.energies import Energy
from ..energy.features import has_all, linear_potential
from ..energy.interactions import feature_forces
from ..energy.models import LinearPotential, NeuralPotential, Weights
from ..timeline import Intervals
from ..transport.couplings import Coupling, OperatorCoupling
from .closed_form import Normal, Solution, accumulate, blocks, solve
from .descent import Training, descend
from .gram import gram
from .problem import STILL, Problem, Scales, make_problem
from .screening import MAX_PRODUCTS, ROUNDS, missing_products

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ClosedForm:
    """Settings of a linear fit: those of :func:`~scjko.core.energy.features.linear_potential`, and the ridge."""

    degree: int | None = None
    n_centers: int | None = None
    ridge: float | str = "auto"
    random_state: int = 0


@dataclass(frozen=True)
class Fit:
    """A fitted energy and how the fit went."""

    energy: Energy
    losses: Array
    """Mean loss of each epoch, or of the one solution, as a fraction of the loss of an energy that moves nothing."""
    explained: Array
    """For each interval the fraction of the squared velocity that the energy accounts for."""
    unexplained: float
    """The fraction that it does not, over all of them."""
    problem: Problem
    settings: Training | ClosedForm
    solution: Solution | None
    """Of a linear fit: its ridge, condition number and degrees of freedom."""

    @property
    def still(self) -> bool:
        """Whether no cell moves, or only by rounding."""
        farthest = np.abs(self.problem.velocity).max() * self.energy.speed * self.energy.intervals.gaps.max()
        return bool(farthest <= STILL * self.energy.length)


def fit(
    points: Sequence[Array],
    couplings: Sequence[Coupling | OperatorCoupling],
    intervals: Intervals,
    *,
    settings: Training | ClosedForm,
    terms: Sequence[str] = ("potential",),
    scheme: str = "both",
    mixing: str = "label",
    point_weights: Sequence[Array] | None = None,
    n_components: int = 10,
    on_progress: Callable[[float], object] = lambda fraction: None,
) -> Fit:
    """The energy whose first-order residual is smallest on these coupled snapshots.

    ``mixing`` says how the potential varies in time, see :func:`scjko.core.timeline.conditioning`; ``on_progress`` is
    told the fraction of the training done since it was last called.
    """
    if point_weights is None:
        point_weights = [np.full(len(x), 1 / len(x)) for x in points]
    rows = conditions(points, couplings, intervals.gaps, scheme)
    scales = Scales.of(points, point_weights, rows, float(intervals.gaps.max()))
    problem = make_problem(
        points,
        point_weights,
        rows,
        scales,
        intervals,
        terms=terms,
        scheme=scheme,
        mixing=mixing,
        n_components=n_components,
        random_state=settings.random_state,
    )
    energy = Energy(
        model=NeuralPotential(settings.layers) if isinstance(settings, Training) else LinearPotential(()),
        weights={},
        intervals=intervals,
        scheme=scheme,
        mixing=mixing,
        center=scales.center,
        length=scales.length,
        speed=scales.speed,
        offsets=np.zeros((len(couplings), 2)),
        populations=problem.populations,
        mixtures=problem.mixtures,
    )
    solution, losses = None, None
    if isinstance(settings, Training):
        settings = settings.resolved(len(rows.points), scheme, mixing)
        weights, losses = descend(problem, settings, on_progress)
        energy = replace(energy, weights=weights, interaction_model=energy.model if problem.populations else None)
    else:
        energy, solution = _solve(energy, problem, rows, settings)
        on_progress(1.0)
    energy = replace(energy, offsets=_offsets(energy, points, point_weights))
    explained, left = _explained(energy, rows)
    if not np.isfinite(left):  # the last update, or nearly singular equations, may overflow where the loss did not
        raise FloatingPointError(
            "The fitted energy is not a number at every cell: its weights overflowed. Lower learning_rate or, of a "
            "linear energy, raise ridge; and check the representation for extreme values."
        )
    losses = np.array([left]) if losses is None else losses
    return Fit(energy, losses, explained, left, problem, settings, solution)


def _solve(energy: Energy, problem: Problem, rows: Conditions, settings: ClosedForm) -> tuple[Energy, Solution]:
    """The energy with a linear potential, interaction kernel and β that solve the normal equations.

    Where the potential cannot have all products of coordinates, those that the residual asks for are added, and all
    coefficients are solved anew.
    """
    features = partial(
        linear_potential, degree=settings.degree, n_centers=settings.n_centers, random_state=settings.random_state
    )
    potential, weights = features(problem.z.astype(np.float64))
    kernel: LinearPotential | None = None
    kernel_weights: Weights = {}
    if problem.populations:
        rng = np.random.default_rng(settings.random_state)
        away = np.concatenate([p.points - rng.permutation(p.points) for p in problem.populations]).astype(np.float64)
        kernel, kernel_weights = features(away)
        # A linear kernel pushes all cells alike, as a linear potential does: the two could never be told apart.
        kernel = LinearPotential(tuple(powers for powers in kernel.exponents if sum(powers) > 1))
    solved = partial(_solve_for, energy, problem, weights, (kernel, kernel_weights), settings.ridge)
    found, solution = solved(potential)
    most = len(potential.exponents) + MAX_PRODUCTS
    for _ in range(ROUNDS if settings.degree is None and not has_all(problem.n_dims) else 0):
        known = potential.exponents
        more = missing_products(problem, _residual(found, rows) / energy.speed, known, most - len(known))
        if not more:
            break
        potential = LinearPotential(known + more)
        found, solution = solved(potential)
    return found, solution


def _solve_for(
    energy: Energy,
    problem: Problem,
    weights: Weights,
    kernel: tuple[LinearPotential | None, Weights],
    ridge: float | str,
    potential: LinearPotential,
) -> tuple[Energy, Solution]:
    """The energy of a potential and a kernel with these features."""
    normal = normal_equations(problem, (potential, weights), kernel)
    solution = solve(normal, ridge)
    if problem.mixtures and solution.theta[-1] < 0:  # β ≥ 0: at the bound the other coefficients are solved anew
        solution = solve(normal.without_last(), ridge)
        solution = replace(solution, theta=np.append(solution.theta, 0.0))
    n_mixed, n_features = problem.labels.shape[1], len(potential.exponents) + len(weights["centers"])
    theta = np.split(solution.theta, [n_mixed * n_features, len(solution.theta) - bool(problem.mixtures)])
    found: Weights = {"potential": {**weights, "theta": theta[0].reshape(n_mixed, n_features).astype(np.float32)}}
    if kernel[0] is not None:
        found["interaction"] = {**kernel[1], "theta": theta[1][None].astype(np.float32)}
    if problem.mixtures:
        found["internal"] = {"beta": np.float32(theta[2][0])}
    return replace(energy, model=potential, weights=found, interaction_model=kernel[0]), solution


def normal_equations(
    problem: Problem, potential: tuple[LinearPotential, Weights], kernel: tuple[LinearPotential | None, Weights]
) -> Normal:
    """The normal equations of a potential, an interaction kernel and β, as many of them as the problem has."""
    n_features = len(potential[0].exponents) + len(potential[1]["centers"])
    n_kernel = 0 if kernel[0] is None else len(kernel[0].exponents) + len(kernel[1]["centers"])
    n_shared, n_dims = n_kernel + problem.score.shape[1], problem.n_dims

    def products(members: NDArray[np.int64]) -> Array:
        total = np.zeros((n_features + n_shared + 1,) * 2)
        for block in blocks(len(members), 4 * n_features + (n_shared + 1) * n_dims):
            rows = members[block]
            written_out = np.concatenate(
                [_felt(problem, kernel, rows, n_kernel), problem.score[rows], problem.velocity[rows, None]], axis=1
            )
            total += gram(*potential, problem.z[rows].astype(np.float64), problem.weight[rows], written_out)
        return total

    return accumulate(
        products,
        problem.weight,
        problem.labels.astype(np.float64),
        n_features=n_features,
        n_shared=n_shared,
        n_dims=n_dims,
    )


def _felt(
    problem: Problem, kernel: tuple[LinearPotential | None, Weights], rows: NDArray[np.int64], n_kernel: int
) -> Array:
    """∫ ∇φ(z − z') dμ(z') of each feature of a kernel, at these rows (n, n_kernel, d)."""
    felt, forces = np.empty((len(rows), n_kernel, problem.n_dims)), partial(feature_forces, *kernel)
    for k, among in enumerate(problem.populations if n_kernel else ()):
        here = problem.snapshot[rows] == k
        (felt[here],) = in_blocks(
            lambda block, among=among.filled: (forces(block, *among),), problem.z[rows[here]], largest=512
        )
    return felt


def _offsets(energy: Energy, points: Sequence[Array], point_weights: Sequence[Array]) -> Array:
    """The constants that make potentials of different intervals comparable (n_intervals, 2).

    A force tells a potential only up to a constant, and here one for each interval and end. They are chosen so that
    the mean potential of the first snapshot is zero, that a snapshot has the same mean at the end of one interval and
    at the start of the next, and that across an interval fitted at both ends the mean falls by Δ ∫∇V·∇J dμ: what a
    population loses by moving down a potential that itself stands still, as in
    d/dt ∫V dμ = −∫∇V·∇J dμ + ∫∂V/∂t dμ without the second term.
    """
    offsets = np.zeros((len(points) - 1, 2))
    mean = 0.0
    if energy.mixing == "constant":
        return offsets - point_weights[0] @ energy.potential(points[0], energy.times[0])
    for k, gap in enumerate(energy.intervals.gaps):
        start, end = (
            _population_means(energy, points[k + side], point_weights[k + side], k, float(side)) for side in (0, 1)
        )
        offsets[k] = mean - start.potential
        if energy.scheme == "both":
            mean -= gap * (start.descent + end.descent) / 2
            offsets[k, 1] = mean - end.potential
        else:  # one potential for the whole interval says itself how far the mean falls
            mean = end.potential + offsets[k, 1]
    return offsets


class _Means(NamedTuple):
    potential: float
    descent: float


def _population_means(energy: Energy, x: Array, weight: Array, interval: int, end: float) -> _Means:
    place = x, np.full(len(x), interval), np.full(len(x), end)
    descent = -np.sum(energy.gradient_at(*place) * energy.velocity_at(*place), axis=1)
    return _Means(float(weight @ energy.potential_at(*place)), float(weight @ descent))


def _residual(energy: Energy, rows: Conditions) -> Array:
    """r = ∇J(z) + v̄ of each row."""
    return rows.velocity - energy.velocity_at(rows.points, rows.interval, rows.end)


def _explained(energy: Energy, rows: Conditions) -> tuple[Array, float]:
    """For each interval 1 − ∫‖r‖² / ∫‖v̄‖² over the ends that were fitted, and the fraction left over all of them.

    Where cells do not move, ‖r‖ is held against their spread instead.
    """
    residual = _residual(energy, rows)
    n = len(energy.times) - 1
    left = np.bincount(rows.interval, rows.importance * np.sum(residual**2, axis=1), n)
    total = np.bincount(rows.interval, rows.importance * np.sum(rows.velocity**2, axis=1), n)
    still = total <= (STILL * energy.length) ** 2
    return 1 - left / np.where(still, energy.length**2, total), float(left.sum() / (total.sum() or 1.0))
