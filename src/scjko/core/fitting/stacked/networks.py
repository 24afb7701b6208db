"""Networks beside Kantorovich potentials: what they are trained on, and for how long.

A network that is trained on one plan learns its noise. Plans of other halves of the cells disagree where noise decides,
and a network that is trained on the conditions of all of them learns what they have in common. Ratios of its error,
in the mean with envelopes, to that of the same network on the plan of all cells: B cells 0.85, CoSpar 0.99,
reprogramming 0.99, embryoid subset 1.00 and 0.99 (5 and 50 components), haematopoiesis 1.00, PBMC 1.00 (one split
each, seed 10).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ...condition import Conditions
from ...energy.terms import PotentialTerm
from ..descent import UPDATES, descend, resolved, updates_of
from ..ensembles.training import descend_together
from ..halves import half_problem
from ..parametrizations import Neural
from ..problem import Course, Formulation, Problem, Solved

#: Updates of a network that are tried, as multiples of the number of conditions, at least and at most. Longer training
#: fits the noise of few cells: 313 B cells are predicted best after some 250 updates, 781 haematopoietic cells after
#: 1300, and 2750 embryoid cells after 4000 and more.
MULTIPLES, FEWEST = (0.5, 1.0, 2.0), 250
#: Updates of a network that is judged, at most.
MOST_JUDGED = 2000


class Trained(NamedTuple):
    """A network with all that was left open, what it learned, and its potential."""

    network: Neural
    solved: Solved
    term: PotentialTerm


def lengths(n_rows: int) -> list[int]:
    """Numbers of updates to try on ``n_rows`` conditions: two at least, which show whether the error still falls."""
    tried = {int(np.clip(multiple * n_rows, FEWEST, MOST_JUDGED)) for multiple in MULTIPLES}
    return sorted({*tried, max(tried) // 2})


def usual_updates(n_rows: int) -> int:
    """The number of updates if none are tried."""
    return int(np.clip(n_rows, FEWEST, UPDATES))


def carried_over(updates: int, judged: float) -> int:
    """The number of updates on all conditions, if so many serve best on a part ``judged`` of them.

    Conditions that are more take as many times more. If the most that are tried were best, so are the most there are.
    """
    return UPDATES if updates >= MOST_JUDGED else int(min(updates / judged, UPDATES))


def trained(
    course: Course,
    parts: Sequence[Course],
    formulation: Formulation,
    network: Neural,
    updates: int,
    random_state: int,
    on_progress: Callable[[float], object] = lambda fraction: None,
    problem: Problem | None = None,
    whole: bool = True,
) -> Trained:
    """The network after so many updates, unless it names its epochs, on the conditions of all parts.

    If the parts do not have all cells of a ``whole`` course, on those of the course, which ``problem`` poses where it
    is known already. With members, the mean of a network for each part.
    """
    own, together = replace(formulation, variation=network.variation(True)), network.n_members is not None
    if not together and (not whole or sum(_n_cells(part) for part in parts) >= _n_cells(course)):
        problem = own.problem(pooled(parts, own))
    elif problem is None:
        problem = own.problem(own.conditions(course))
    if network.epochs is None:
        network = updates_of(network, len(problem.z), updates)
    if together:
        network = replace(network, n_members=len(parts))
    network = resolved(network, len(problem.z), own.scheme, own.variation)
    if together:
        problems = [half_problem(part, problem, own) for part in parts]
        solved = descend_together(problem, problems, network, random_state, on_progress)._replace(parts=parts)
    else:
        solved = descend(problem, network, random_state, on_progress)
    none = np.zeros((own.timeline.n_intervals, 2))
    posed = own.units, own.timeline, own.scheme, own.variation
    return Trained(network, solved, PotentialTerm(solved.model, solved.weights["potential"], *posed, none))


def pooled(parts: Sequence[Course], formulation: Formulation) -> Conditions:
    """The conditions of all parts together."""
    rows = [formulation.conditions(part) for part in parts]
    together = Conditions(*(np.concatenate(column) for column in zip(*rows, strict=True)))
    return together._replace(weight=together.weight / len(parts))


def _n_cells(course: Course) -> int:
    return sum(map(len, course.points))
