"""Fitting an energy to coupled snapshots: conditions in, energy out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..condition import Conditions
from ..energy.density import Mixture
from ..energy.energy import Energy
from ..energy.models import Weights
from ..energy.specification import Terms
from ..energy.terms import InteractionTerm, InternalTerm, PotentialTerm, Units
from ..growth.estimate import Growth
from ..motion.forecast import judged
from ..schemes import scheme_of
from ..timeline import Timeline
from ..transport import Coupling, OperatorCoupling, Solver
from .closed_form import Solution
from .descent import resolved
from .ensembles.calibration import with_spread
from .ensembles.training import train_network
from .heights import offsets
from .linear import solve_linear
from .noise import Noise, estimate_noise
from .parametrizations import Kantorovich, Linear, Neural, Parametrization, Stacked
from .problem import STILL, Course, Formulation, Problem, Solved, common_speed
from .stacked.choice import Choice
from .stacked.envelopes import members, solve_kantorovich
from .stacked.stacking import settled, stack

Array = NDArray[np.float64]

#: Rows of an interval and end, evenly spread, that say how much is explained, at most.
MAX_ROWS = 10_000


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted energy and how the fit went."""

    energy: Energy
    losses: Array
    """Mean loss of each epoch, or of the one solution, relative to a zero energy."""
    explained: Array
    """For each interval the fraction of the squared velocity that the energy accounts for."""
    problem: Problem
    course: Course
    parametrization: Parametrization
    """With what was left to the fit as it was chosen."""
    solution: Solution | None = None
    """Of a linear fit: its ridge, condition number and degrees of freedom."""
    noise: Noise | None = None
    """Of an internal energy: β, its error, and how far the data determine it."""
    choice: Choice | None = None
    """Errors on held-out cells by which settings were chosen, where any was left open."""

    @property
    def still(self) -> bool:
        """Whether no cell moves, or only by rounding."""
        units = self.energy.units
        moved = np.abs(self.problem.velocity).max() * float((units.speed * self.energy.timeline.gaps).max())
        return bool(moved <= STILL * units.length)


def fit(
    points: Sequence[Array],
    couplings: Sequence[Coupling | OperatorCoupling],
    timeline: Timeline,
    *,
    parametrization: Parametrization | None = None,
    terms: Terms | None = None,
    scheme: str = "both",
    time_varying: bool | str = True,
    point_weights: Sequence[Array] | None = None,
    growth: Growth | None = None,
    solver: Solver | None = None,
    random_state: int = 0,
    on_progress: Callable[[float], object] = lambda fraction: None,
) -> Fit:
    """The energy whose first-order residual is smallest on these coupled snapshots.

    ``growth`` is that of the couplings, and ``solver`` what they were solved by, for members that are coupled anew.
    ``on_progress`` is told the fraction of the training done since it was last called.
    """
    parametrization, terms = parametrization or Neural(), terms or Terms()
    weights = [np.full(len(x), 1 / len(x)) for x in points] if point_weights is None else point_weights
    course, choice = Course(points, weights, couplings, timeline, growth), None
    if isinstance(parametrization, Kantorovich | Stacked):
        of_scheme = scheme_of(scheme, static=not time_varying)
        parametrization, choice = settled(course, parametrization, of_scheme, time_varying, terms, random_state)
    variation = parametrization.variation(time_varying)
    formulation = Formulation.of(course, scheme_of(scheme, static=variation.static), variation)
    units = formulation.units
    populations = formulation.populations(course, random_state) if terms.interaction else {}
    even = terms.interaction is not None and terms.interaction.even
    mixtures: dict[float, Mixture] = {}
    noise = None
    if terms.internal is not None:
        n_components = terms.internal.n_components
        mixtures = formulation.densities(course, n_components, random_state)
        noise = estimate_noise(course, units, bool(populations), n_components, random_state)
    beta = 0.0 if noise is None else noise.inner
    posed = formulation
    if isinstance(parametrization, Stacked):  # its network alone is trained on the rows
        posed = replace(formulation, variation=parametrization.network.variation(time_varying))
    # The rows of many cells are most of the memory: they are not kept while a network is trained.
    problem = posed.problem(posed.conditions(course), populations, mixtures, even, beta)
    if isinstance(parametrization, Linear):
        solved = solve_linear(course, problem, formulation, parametrization, random_state, solver)
    elif isinstance(parametrization, Kantorovich):
        assert parametrization.n_members is not None
        parts = members(course, parametrization.n_members, random_state)
        solved = solve_kantorovich(course, parts, formulation, parametrization)
    elif isinstance(parametrization, Stacked):
        updates = None if choice is None else choice.updates
        parametrization, solved = stack(
            course, problem, formulation, parametrization, updates, solver, random_state, on_progress
        )
    else:
        assert isinstance(parametrization, Neural)
        parametrization = resolved(parametrization, len(problem.z), formulation.scheme, variation)
        solved = train_network(course, problem, formulation, parametrization, solver, random_state, on_progress)
    energy = _assembled(solved, formulation, problem, noise)
    energy = replace(energy, reach=_reach(course, units), growth_field=None if growth is None else growth.field)
    sources = None if growth is None else course.sources
    shifted = replace(energy.potential_term, offsets=offsets(energy.field, points, weights, sources))
    energy = replace(energy, potential_term=shifted)
    energy = with_spread(replace(energy, forecast=judged(energy.field, points, weights)), solved.parts, course)
    explained, left = _explained(energy, formulation.conditions(course))
    # The last update, or nearly singular equations, may overflow where the loss did not; constants are of all cells.
    if not (np.isfinite(left) and np.isfinite(shifted.offsets).all()):
        raise FloatingPointError(
            "The fitted energy is not a number at every cell: its weights overflowed. Lower learning_rate or, of a "
            "linear energy, raise ridge; and check the representation for extreme values."
        )
    losses = np.array([left]) if solved.losses is None else solved.losses
    return Fit(energy, losses, explained, problem, course, parametrization, solved.solution, noise, choice)


def _assembled(solved: Solved, formulation: Formulation, problem: Problem, noise: Noise | None) -> Energy:
    """The energy of the fitted weights."""
    weights: Weights = solved.weights
    units, timeline = formulation.units, formulation.timeline
    posed = units, timeline, formulation.scheme, formulation.variation
    potential = PotentialTerm(solved.model, weights["potential"], *posed, np.zeros((timeline.n_intervals, 2)))
    interaction, internal = None, None
    if solved.kernel is not None:
        speed = common_speed(units)
        interaction = InteractionTerm(solved.kernel, weights["interaction"], units, speed, problem.populations)
    if noise is not None:
        internal = InternalTerm(noise.beta, units, problem.mixtures)
    return Energy(potential, interaction, internal)


def _reach(course: Course, units: Units) -> float:
    """The largest distance of a cell with weight from the centre."""
    cells = np.concatenate([x[w > 0] for x, w in zip(course.points, course.weights, strict=True)])
    return float(np.linalg.norm(cells - units.center, axis=1).max()) or 1.0


def _explained(energy: Energy, rows: Conditions) -> tuple[Array, float]:
    """For each interval 1 − ∫‖r‖² / ∫‖v̄‖² over its anchors, and the fraction left over all of them.

    Where cells do not move, ‖r‖ is compared with their spread instead.
    """
    every = max(len(rows.points) // (MAX_ROWS * energy.timeline.n_intervals * len(energy.scheme.anchors)), 1)
    rows = rows.part(slice(None, None, every))
    residual = energy.slope_at(rows.points, rows.interval, rows.anchor)
    residual += rows.velocity
    n = energy.timeline.n_intervals
    left = np.bincount(rows.interval, rows.importance * np.sum(residual**2, axis=1), n)
    total = np.bincount(rows.interval, rows.importance * np.sum(rows.velocity**2, axis=1), n)
    still = total <= (STILL * energy.units.length) ** 2
    return 1 - left / np.where(still, energy.units.length**2, total), float(left.sum() / (total.sum() or 1.0))
