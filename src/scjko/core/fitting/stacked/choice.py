"""How much of what: the softness of Kantorovich potentials, and the share of a network, by the error on held-out cells.

The cells are halved, and each half is coupled by itself. What is fitted to one half moves the cells of the other, and
the populations that arrive are compared with those that were observed, by the distance that users judge by. Errors of
single displacements would not do: they favour predictions that are drawn to the mean, and populations are not.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...compute.parallel import side_by_side
from ...energy.envelopes import partners
from ...energy.terms import PotentialTerm
from ...judging.metrics import emd
from ..descent import descend, resolved, updates_of
from ..halves import excess, halves
from ..parametrizations import Kantorovich, Neural, Stacked
from ..problem import Course, Formulation
from .envelopes import kantorovich_weights, members

Array = NDArray[np.float64]

#: Widths that are tried, as fractions of the mean squared distance travelled.
SOFTNESSES = (0.003, 0.01, 0.03, 0.1, 0.3)
#: Shares that are tried, and members: one plan of all cells, or the mean of plans of halves.
SHARES, MEMBERS = (1.0, 0.5, 0.0), (1, 8)
#: Members of a mean that is judged, fewer than there will be, and updates of a network.
JUDGED_MEMBERS, JUDGED_UPDATES = 4, 2000
#: Updates of a network, at least.
FEWEST = 500
#: Cells of a half that are moved, and intervals that are compared, at most.
MAX_CELLS, MAX_INTERVALS = 500, 8
#: Cells of the smallest snapshot from which on one half judges the other, once. With fewer each judges the other, and
#: with fewer than half as many in so many halvings.
ENOUGH, HALVINGS = 400, 3


class Setting(NamedTuple):
    """A setting that is judged."""

    softness: float
    share: float
    n_members: int


@dataclass(frozen=True, eq=False)
class Choice:
    """Errors of every setting on held-out cells, relative to not moving, and the one that was chosen."""

    settings: tuple[Setting, ...]
    error: Array
    """Its mean over folds and intervals."""
    chosen: int

    @property
    def table(self) -> dict[str, Array]:
        """Every setting with its error, as columns, and which of them was chosen."""
        columns = zip(Setting._fields, np.array(self.settings, dtype=np.float64).T, strict=True)
        return {**dict(columns), "error": self.error, "chosen": np.arange(len(self.error)) == self.chosen}

    def settled(self, asked: Stacked, n_dims: int) -> Stacked:
        """The parametrisation with what was chosen in place of what was left open."""
        softness, share, n_members = self.settings[self.chosen]
        if asked.kantorovich.softness is None:  # of all cells, which are twice as many as of a half
            softness *= excess(0.5, n_dims)
        return replace(asked, share=share, kantorovich=Kantorovich(softness=softness, n_members=n_members))


def choose(course: Course, formulation: Formulation, asked: Stacked, random_state: int) -> Choice:
    """The setting that predicts held-out cells best, among those that were left open.

    What takes longer has to be better by more than its standard error: a mean of plans than one plan, and a network
    beside them.
    """
    settings = _settings(asked)
    smallest = min(int(np.count_nonzero(weight)) for weight in course.weights)
    errors = []
    for seed in range(random_state + 100, random_state + 100 + (1 if 2 * smallest >= ENOUGH else HALVINGS)):
        one, other = halves(course, seed)  # other halves than those of the members
        for fold in ((one, other), (other, one))[: 1 if smallest >= ENOUGH else 2]:
            errors.append(_errors(*fold, formulation, asked, settings, random_state))
    error = np.concatenate(errors, axis=1)
    best = None
    for kind in dict.fromkeys((setting.share, setting.n_members) for setting in settings):
        own = [k for k, setting in enumerate(settings) if (setting.share, setting.n_members) == kind]
        rival = min(own, key=lambda k: error[k].mean())
        if best is None or _better(error[rival], error[best]):
            best = rival
    assert best is not None
    return Choice(tuple(settings), error.mean(axis=1), best)


def _settings(asked: Stacked) -> list[Setting]:
    """What was left open in every combination; a network beside others goes with the mean of plans."""
    own = asked.kantorovich
    softnesses = SOFTNESSES if own.softness is None else (own.softness,)
    shares = SHARES if asked.share is None else (asked.share,)
    members = MEMBERS if own.n_members is None else (own.n_members,)
    return [
        Setting(softness, share, n)
        for share in shares
        for n in (members if share == 1 else members[-1:])
        for softness in (softnesses if share > 0 else softnesses[:1])
    ]


def _better(one: Array, other: Array) -> bool:
    """Whether errors are smaller by more than the standard error of their mean difference."""
    difference = other - one
    spread = difference.std(ddof=1) / np.sqrt(len(difference)) if len(difference) > 1 else 0.0
    return bool(difference.mean() > spread)


def _errors(
    known: Course,
    held_out: Course,
    formulation: Formulation,
    asked: Stacked,
    settings: list[Setting],
    random_state: int,
) -> Array:
    """The error of each setting in each interval of one fold, relative to not moving on average."""
    intervals, gaps, units = course_intervals(known), known.timeline.gaps, formulation.units
    starts = [held_out.points[k][:MAX_CELLS] for k in intervals]
    targets = [held_out.points[k + 1][:MAX_CELLS] for k in intervals]
    moved: dict[Any, list[Array]] = {None: starts}
    if any(setting.share < 1 for setting in settings):
        term = _network(known, formulation, asked.network, random_state)
        moved["network"] = _steps(term, starts, intervals, gaps)
    plans = {n: [known] if n == 1 else _members(known, n, random_state) for n in {s.n_members for s in settings}}
    for softness, n in {(setting.softness, setting.n_members) for setting in settings if setting.share > 0}:
        weights = kantorovich_weights(plans[n], known, formulation, softness)
        n_ends = len(formulation.scheme.anchors)
        moved[softness, n] = [
            partners(weights[str(k * n_ends)], (x - units.center) / units.length) * units.length + units.center
            for x, k in zip(starts, intervals, strict=True)
        ]
    for setting in settings:
        one, other = moved.get("network", starts), moved.get((setting.softness, setting.n_members), starts)
        moved[setting] = [(1 - setting.share) * a + setting.share * b for a, b in zip(one, other, strict=True)]
    tasks = [
        (prediction, target)
        for key in (None, *settings)
        for prediction, target in zip(moved[key], targets, strict=True)
    ]
    found = np.array(side_by_side(lambda pair: emd(*pair), tasks)).reshape(len(settings) + 1, len(intervals))
    return found[1:] / (found[0].mean() or 1.0)


def _members(course: Course, n_members: int, random_state: int) -> list[Course]:
    return members(course, min(n_members, JUDGED_MEMBERS), random_state)


def course_intervals(course: Course) -> list[int]:
    """The intervals that are compared, evenly spread over the course."""
    n = course.timeline.n_intervals
    return np.unique(np.linspace(0, n - 1, min(n, MAX_INTERVALS)).round().astype(int)).tolist()


def _steps(term: PotentialTerm, starts: list[Array], intervals: list[int], gaps: Array) -> list[Array]:
    """Cells of each interval moved over it."""
    return [
        x - gaps[k] * term.gradient(x, np.full(len(x), k), np.zeros(len(x)))
        for x, k in zip(starts, intervals, strict=True)
    ]


def _network(course: Course, formulation: Formulation, network: Neural, random_state: int) -> PotentialTerm:
    """A network trained for a short time on a part of the cells."""
    own = replace(formulation, variation=network.variation(True))
    problem = own.problem(own.conditions(course))
    network = beside_others(network, len(problem.z), JUDGED_UPDATES)
    solved = descend(problem, resolved(network, len(problem.z), own.scheme, own.variation), random_state)
    none = np.zeros((own.timeline.n_intervals, 2))
    return PotentialTerm(
        solved.model, solved.weights["potential"], own.units, own.timeline, own.scheme, own.variation, none
    )


def beside_others(network: Neural, n_rows: int, most: int) -> Neural:
    """The network with as many updates as there are rows, within bounds, unless its epochs are given.

    Longer training fits the noise of few cells: 313 B cells are predicted best after some 600 updates, 781
    haematopoietic cells after 600 to 1300, 16 819 embryoid cells after 4000 and more.
    """
    return network if network.epochs is not None else updates_of(network, n_rows, int(np.clip(n_rows, FEWEST, most)))
