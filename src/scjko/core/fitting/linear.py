"""Linear energies: features for a potential and a kernel, their normal equations, and a ridge from held-out cells."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..compute.blocks import in_blocks
from ..energy.features import has_all, linear_potential, mirrored
from ..energy.interactions import feature_forces
from ..energy.models import MEMBERS, LinearPotential, Weights, gradients
from ..transport import Solver
from .closed_form import LOW, OWN, Normal, Ridge, accumulate, blocks, held_out_ridge, leave_one_out_ridge, solve
from .ensembles.resampling import check_resampling, resampled
from .gram import gram
from .halves import excess, followed, half_problem, halvings
from .parametrizations import Linear
from .problem import Course, Formulation, Problem, Solved
from .screening import MAX_PRODUCTS, ROUNDS, missing_products

Array = NDArray[np.float64]
Index = NDArray[np.int64]


#: A leave-one-out error below this fraction of the error on separately coupled cells is that of displacements without
#: sampling noise. Of 13 simulated potentials with followed particles ten have less than 0.007; of real and simulated
#: snapshots of different cells none has less than 0.09.
NOISE_FREE = 0.03
NOISE_FREE_DEGREE = 8


class Features(NamedTuple):
    """The features of a potential and, if there is interaction, of a kernel; weights are without coefficients."""

    potential: LinearPotential
    weights: Weights
    kernel: LinearPotential | None = None
    kernel_weights: Weights | None = None
    even: bool = False

    @property
    def n_potential(self) -> int:
        """The number of features of the potential."""
        return len(self.potential.exponents) + len(self.weights["centers"])

    @property
    def n_kernel(self) -> int:
        """The number of coefficients of the kernel."""
        if self.kernel is None or self.kernel_weights is None:
            return 0
        n_centers = len(self.kernel_weights["centers"])
        return len(self.kernel.exponents) + (n_centers // 2 if self.even else n_centers)

    @property
    def kinds(self) -> Index:
        """The kind of each feature, for its scale: radial basis functions are families of one scale."""
        return np.concatenate(
            [_kinds(self.potential, self.n_potential, 0), _kinds(self.kernel, self.n_kernel, 1)]
        ).astype(np.int64)

    def kernel_theta(self, theta: Array) -> NDArray[np.float32]:
        """The coefficients of every feature of the kernel: an even one has mirrored centres of equal coefficients."""
        if self.even and self.kernel is not None:
            theta = np.concatenate([theta, theta[len(self.kernel.exponents) :]])
        return theta[None].astype(np.float32)


def _kinds(model: LinearPotential | None, n_features: int, family: int) -> list[int]:
    monomials = [] if model is None else [LOW if sum(powers) <= 2 else OWN for powers in model.exponents]
    return monomials + [family] * (n_features - len(monomials))


def solve_linear(
    course: Course,
    problem: Problem,
    formulation: Formulation,
    linear: Linear,
    random_state: int,
    solver: Solver | None = None,
) -> Solved:
    """The potential and kernel that solve the normal equations, those of all cells or the mean of resampled ones."""
    problem = replace(problem, score=problem.score[:, :0])  # β is known, and its force no unknown of the equations
    solved, features, ridge = _solve_all(course, problem, formulation, linear, random_state)
    if linear.n_members is None:
        return solved
    check_resampling(course)
    parts = resampled(course, linear.n_members, random_state, solver)
    posed = [half_problem(part, problem, formulation) for part in parts]
    found = [solve_for(part, features, normal_equations(part, features), ridge).weights for part in posed]
    weights = {
        term: {**own, MEMBERS: np.stack([each[term]["theta"] for each in found])}
        for term, own in solved.weights.items()
    }
    for own in weights.values():
        own["theta"] = own[MEMBERS].mean(axis=0, dtype=np.float64).astype(np.float32)
    return solved._replace(weights=weights, parts=parts)


def _solve_all(
    course: Course, problem: Problem, formulation: Formulation, linear: Linear, random_state: int
) -> tuple[Solved, Features, Ridge]:
    """The solution for all cells, its features and its ridge.

    Where the potential cannot have all products of coordinates, those that reduce the residual are added, and all
    coefficients are solved again.
    """
    features = features_of(problem, linear, random_state)
    if isinstance(linear.ridge, str):
        features, ridge, normal = _regularised(course, problem, formulation, linear, features, random_state)
    else:
        ridge, normal = Ridge(float(linear.ridge)), normal_equations(problem, features)
    solved = solve_for(problem, features, normal, ridge)
    most = len(features.potential.exponents) + MAX_PRODUCTS
    for _ in range(ROUNDS if linear.degree is None and not has_all(problem.n_dims) else 0):
        known = features.potential.exponents
        more = missing_products(problem, _residual(problem, solved), known, most - len(known))
        if not more:
            break
        features = features._replace(potential=LinearPotential(known + more))
        solved = solve_for(problem, features, normal_equations(problem, features), ridge)
    return solved, features, ridge


def _regularised(
    course: Course,
    problem: Problem,
    formulation: Formulation,
    linear: Linear,
    features: Features,
    random_state: int,
) -> tuple[Features, Ridge, Normal]:
    """The ridge of smallest error on cells held out, the features for it, and their normal equations.

    Where particles are followed from one snapshot to the next, as in simulations, displacements have no sampling noise:
    halves of different particles would only add it, so the leave-one-out error decides, and radial functions stand on
    a grid, as in the paper. If that error is next to nothing, few dimensions afford monomials of a higher degree.
    """
    halved = halvings(course, random_state)
    posed = [[half_problem(part, problem, formulation) for part in parts] for parts in halved]
    held_out = held_out_ridge(*([normal_equations(half, features) for half in pair] for pair in posed))
    normal, exact, own = normal_equations(problem, features), False, None
    if len({len(x) for x in course.points}) == 1:  # as many particles in every snapshot may be the same
        own = leave_one_out_ridge(normal)
        exact = own.left < NOISE_FREE * held_out.left
    if own is None or not (exact or followed(course, halved[0])):
        # The best ridge is as large as the noise of a row over their number. Of all cells there are more rows than of a
        # half, and each has less noise.
        share = float(np.mean([len(half.z) / len(problem.z) for pair in posed for half in pair]))
        strength = held_out.ridge.strength * share * excess(share, problem.n_dims)
        return features, held_out.ridge._replace(strength=strength), normal
    if problem.n_dims <= 2:
        degree = NOISE_FREE_DEGREE if exact and linear.degree is None else linear.degree
        features = features_of(problem, replace(linear, degree=degree), random_state, regular=True)
        normal = normal_equations(problem, features)
        own = leave_one_out_ridge(normal)
    return features, own.ridge, normal


def features_of(problem: Problem, linear: Linear, random_state: int, *, regular: bool = False) -> Features:
    """The features for the points of a problem and, if it has populations, for the differences in them."""
    make = partial(
        linear_potential,
        degree=linear.degree,
        n_centers=linear.n_centers,
        random_state=random_state,
        regular=regular,
    )
    potential, weights = make(problem.z.astype(np.float64))
    if not problem.populations:
        return Features(potential, weights)
    rng = np.random.default_rng(random_state)
    away = np.concatenate([p.points - rng.permutation(p.points) for p in problem.populations.values()])
    kernel, kernel_weights = make(away.astype(np.float64))
    # A linear kernel pushes all cells alike, as a linear potential does: no data could distinguish the two.
    powers = tuple(p for p in kernel.exponents if sum(p) > 1 and not (problem.even and sum(p) % 2))
    if problem.even:
        kernel_weights = {**kernel_weights, "centers": mirrored(kernel_weights["centers"])}
    return Features(potential, weights, LinearPotential(powers), kernel_weights, problem.even)


def solve_for(problem: Problem, features: Features, normal: Normal, ridge: Ridge) -> Solved:
    """The models of these features with the coefficients that solve their normal equations."""
    solution = solve(normal, ridge)
    n_mixed = problem.inputs.shape[1]
    theta = np.split(solution.theta, [n_mixed * features.n_potential])
    coefficients = theta[0].reshape(n_mixed, features.n_potential).astype(np.float32)
    found: Weights = {"potential": {**features.weights, "theta": coefficients}}
    if features.kernel is not None and features.kernel_weights is not None:
        found["interaction"] = {**features.kernel_weights, "theta": features.kernel_theta(theta[1])}
    return Solved(found, features.potential, features.kernel, None, solution)


def _residual(problem: Problem, solved: Solved) -> Array:
    """r at each row, in the units of the fit."""
    (slope,) = in_blocks(
        lambda *block: (gradients(solved.model, solved.weights["potential"], *block),), problem.z, problem.inputs
    )
    residual = problem.velocity + slope
    if isinstance(solved.kernel, LinearPotential):
        weights = solved.weights["interaction"]
        felt = _felt(problem, (solved.kernel, weights), np.arange(len(problem.z)))
        residual += np.einsum("i,nid->nd", weights["theta"][0], felt)
    return residual


def normal_equations(problem: Problem, features: Features) -> Normal:
    """The normal equations of a potential and a kernel, and of the scores as further forces if the problem has any."""
    n_features, n_dims = features.n_potential, problem.n_dims
    n_shared = features.n_kernel + problem.score.shape[1]

    def products(members: Index) -> Array:
        total = np.zeros((n_features + n_shared + 1,) * 2)
        for block in blocks(len(members), 4 * n_features + (n_shared + 1) * n_dims):
            rows = members[block]
            written_out = np.concatenate(
                [kernel_forces(problem, features, rows), problem.score[rows], problem.velocity[rows, None]], axis=1
            )
            z = problem.z[rows].astype(np.float64)
            total += gram(features.potential, features.weights, z, problem.weight[rows], written_out)
        return total

    return accumulate(
        products,
        problem.weight,
        problem.inputs.astype(np.float64),
        n_shared=n_shared,
        n_dims=n_dims,
        kinds=np.concatenate([features.kinds, np.full(problem.score.shape[1], OWN)]),
    )


def kernel_forces(problem: Problem, features: Features, rows: Index) -> Array:
    """The force of each coefficient of the kernel at these rows (n, n_kernel, d); mirrored centres act together."""
    if features.kernel is None or features.kernel_weights is None:
        return np.empty((len(rows), 0, problem.n_dims))
    felt = _felt(problem, (features.kernel, features.kernel_weights), rows)
    if not features.even:
        return felt
    n_monomials = len(features.kernel.exponents)
    one, other = np.split(felt[:, n_monomials:], 2, axis=1)
    return np.concatenate([felt[:, :n_monomials], one + other], axis=1)


def _felt(problem: Problem, kernel: tuple[LinearPotential, Weights], rows: Index) -> Array:
    """∫ ∇φ(z − z') dμ(z') of each feature of a kernel at these rows, in the units of the row (n, n_features, d)."""
    model, weights = kernel
    n_features = len(model.exponents) + len(weights["centers"])
    felt, forces = np.empty((len(rows), n_features, problem.n_dims)), partial(feature_forces, model, weights)
    place = problem.place[rows]
    for k in np.unique(place):
        here, among = place == k, problem.populations[float(k)].filled
        (felt[here],) = in_blocks(
            lambda block, among=among: (forces(block, *among),), problem.z[rows[here]], largest=512
        )
    return felt * problem.pace[rows, None, None]
