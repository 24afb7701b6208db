"""The network of the field: trained on conditions from which proportions that differ by chance are taken out.

Maps are judged by the populations that arrive, and are best with the couplings as they are. The field is read as
slopes and heights, which should not depend on how many cells of each kind a sample happens to hold. It has a network
of its own, so that what is right for one does not spoil the other. In the median of simulated cells (three equal wells,
1500 cells, seeds 10 to 13) heights spread over 0.05 of the drop, and over 0.15 as the maps are coupled.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from ...growth.chance import chance_gains
from ...growth.estimate import Growth
from ...growth.field import GrowthField
from ..ensembles.resampling import resampled
from ..halves import MAX_CELLS, followed, halves
from ..parametrizations import Stacked
from ..problem import Course, Formulation
from .networks import Trained, trained

#: Halvings of few and of many cells: pairs of a plan are noisy, and the mean of several plans is less so.
HALVINGS, FEWEST_HALVINGS = 4, 2
#: Cells of the smallest snapshot from which on there is a network for the field.
FEWEST = 8


def freed(stacked: Stacked, course: Course) -> Stacked:
    """The parametrisation as it serves this course: there is one network for both if masses change already.

    Likewise if it is alone, and if there are too few cells to say anything of proportions.
    """
    changes = course.growth is not None or any(coupling.cap < np.inf for coupling in course.couplings)
    alone = stacked.share == 0 and stacked.kantorovich.n_members is None
    few = min(int(np.count_nonzero(weight)) for weight in course.weights) < FEWEST
    return replace(stacked, chance=0.0) if changes or alone or few else stacked


def trained_field(
    course: Course,
    formulation: Formulation,
    stacked: Stacked,
    updates: int,
    random_state: int,
    on_progress: Callable[[float], object] = lambda fraction: None,
) -> Trained:
    """The network of the field after so many updates, unless it names its epochs."""
    parts = _parts(course, stacked, random_state)
    return trained(course, parts, formulation, stacked.network, updates, random_state, on_progress, whole=False)


def _parts(course: Course, stacked: Stacked, random_state: int) -> list[Course]:
    """Halves of the cells, coupled at masses that chance allows; all cells as they are if particles are followed."""
    n_members = stacked.network.n_members
    if n_members is not None:
        return resampled(_loose(course, stacked.chance), n_members, random_state)
    most = 2 * MAX_CELLS
    largest = max(map(len, course.points))
    loose = _loose(course, stacked.chance) if largest <= most else None
    parts: list[Course] = []
    for seed in range(random_state, random_state + min(max(most // largest, FEWEST_HALVINGS), HALVINGS)):
        # Of many cells some, with what their own proportions have of chance.
        parts += halves(_loose(_some(course, most, seed), stacked.chance) if loose is None else loose, seed)
    return [course] if followed(course, parts) else parts


def _loose(course: Course, chance: float) -> Course:
    """The course with masses of source cells that differ as chance allows."""
    gains = chance_gains(course.points, course.weights, course.timeline, chance)
    return replace(course, growth=Growth(gains, GrowthField(course.timeline, ())))


def _some(course: Course, most: int, seed: int) -> Course:
    """Random cells with weight of every snapshot, not coupled."""
    rng = np.random.default_rng(seed)
    kept = [np.sort(rng.permutation(np.flatnonzero(weight > 0))[:most]) for weight in course.weights]
    points = [x[own] for x, own in zip(course.points, kept, strict=True)]
    weights = [w[own] / w[own].sum() for w, own in zip(course.weights, kept, strict=True)]
    return replace(course, points=points, weights=weights)
