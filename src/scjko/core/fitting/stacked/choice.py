"""What a stacked energy is made of: softness, members, share and length of training, by the error on held-out cells.

The cells are halved, and each half is coupled by itself. What is fitted to one half moves the cells of the other, and
the populations that arrive are compared with those that were observed, by the distance that users judge by. Errors of
single displacements would not do: they favour predictions that are drawn to the mean, and populations are not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...compute.parallel import side_by_side
from ...energy.envelopes import partners
from ...judging.metrics import emd
from ..halves import excess, halves
from ..parametrizations import Kantorovich, Stacked
from ..problem import Course, Formulation
from .envelopes import kantorovich_weights, members, most_parabolas
from .networks import carried_over, lengths, trained

Array = NDArray[np.float64]

#: Widths that are tried, as fractions of the mean squared distance travelled.
SOFTNESSES = (0.003, 0.01, 0.03, 0.1)
#: Shares that are tried, and members: one plan of all cells, or the mean of plans of halves.
SHARES, MEMBERS = (1.0, 0.5, 0.0), (1, 8)
#: Members of a mean that is judged, fewer than there will be.
JUDGED_MEMBERS = 4
#: Cells of a half that are moved, and intervals that are compared, at most.
MAX_CELLS, MAX_INTERVALS = 500, 8
#: How often the cells are halved, either half judging the other. By chance the halves of a branched population differ
#: in how many cells go which way: one fold of 429 haematopoietic cells preferred a width of 0.3, which has 1.3 times
#: the error of the best.
HALVINGS = 3
#: Cells of the smallest snapshot from which on a network is judged in one fold, and in two; of fewer cells in all.
ENOUGH, FEW = 400, 200


class Setting(NamedTuple):
    """A setting that is judged."""

    softness: float
    share: float
    n_members: int
    updates: int
    """Of the network; zero if there is none, or if it names its epochs."""


class _Fold(NamedTuple):
    """Cells that are known, and cells of the others to move and to compare with in some intervals."""

    known: Course
    intervals: list[int]
    starts: list[Array]
    targets: list[Array]


@dataclass(frozen=True, eq=False)
class Choice:
    """Errors of every setting on held-out cells, relative to not moving, and the one that was chosen."""

    settings: tuple[Setting, ...]
    error: Array
    """Its mean over folds and intervals."""
    chosen: int
    judged: float
    """The cells of a fold as a fraction of those that are fitted."""
    left_open: tuple[str, ...] = ()
    """The options that were chosen."""

    @property
    def table(self) -> dict[str, NDArray[Any]]:
        """Every setting with its error, as columns, which of them was chosen, and the options that were left open."""
        columns = zip(Setting._fields, np.array(self.settings, dtype=np.float64).T, strict=True)
        chosen = np.arange(len(self.error)) == self.chosen
        return {**dict(columns), "error": self.error, "chosen": chosen, "left_open": np.array(self.left_open)}

    @property
    def falling(self) -> bool:
        """Whether the error of a network was still falling at the longest training that was tried."""
        own = [(setting.updates, error) for setting, error in zip(self.settings, self.error, strict=True)]
        tried = sorted((updates, error) for updates, error in own if updates)
        return len(tried) > 1 and min(tried, key=lambda pair: pair[1])[0] == tried[-1][0]

    @property
    def updates(self) -> int:
        """Updates of the network on all cells."""
        return carried_over(self.settings[self.chosen].updates, self.judged)

    def settled(self, asked: Stacked, n_dims: int) -> Stacked:
        """The parametrisation with what was chosen in place of what was left open."""
        softness, share, n_members, _ = self.settings[self.chosen]
        if asked.kantorovich.softness is None:  # there are more cells than in a fold, and plans are less noisy
            softness *= excess(self.judged, n_dims)
        return replace(asked, share=share, kantorovich=Kantorovich(softness=softness, n_members=n_members))


def choose(course: Course, formulation: Formulation, asked: Stacked, random_state: int) -> Choice:
    """The setting that predicts held-out cells best, among those that were left open.

    What takes longer has to be better by more than its standard error: a mean of plans than one plan, and a network
    beside them, which is combined with the softness that serves a mean of plans best.
    """
    folds = _folds(course, random_state)
    own = asked.kantorovich
    softnesses = SOFTNESSES if own.softness is None else (own.softness,)
    numbers = MEMBERS if own.n_members is None else (own.n_members,)
    shares = SHARES if asked.share is None else (asked.share,)
    envelopes = [Setting(softness, 1.0, n, 0) for n in numbers for softness in softnesses]
    moved = [_by_envelopes(fold, formulation, envelopes, random_state) for fold in folds]
    errors = dict(zip(envelopes, _errors(folds, moved, envelopes), strict=True))
    best = min((s for s in envelopes if s.n_members == numbers[-1]), key=lambda setting: errors[setting].mean())
    beside = [share for share in shares if share < 1]
    if beside:
        judges = folds[: _n_judges(course)]
        n_rows = len(formulation.conditions(folds[0].known).points)
        tried = lengths(n_rows) if asked.network.epochs is None else [0]  # epochs that are named are not chosen
        stacked = [best._replace(share=share, updates=updates) for share in beside for updates in tried]
        moved = [
            _beside(fold, formulation, stacked, asked, positions[best], random_state)
            for fold, positions in zip(judges, moved, strict=False)
        ]
        errors |= zip(stacked, _errors(judges, moved, stacked), strict=True)
    if 1.0 not in shares:
        errors = {setting: error for setting, error in errors.items() if setting.share < 1}
    chosen = _best(errors)
    size = np.mean([len(a) / len(b) for a, b in zip(folds[0].known.points, course.points, strict=True)])
    most = min(1.0, most_parabolas(course) / max(len(x) for x in course.points))
    settings = tuple(errors)
    means = np.array([error.mean() for error in errors.values()])
    return Choice(settings, means, settings.index(chosen), min(float(size) / most, 1.0), asked.left_open)


def _folds(course: Course, random_state: int) -> list[_Fold]:
    """Halves of the cells, other ones than those of the members, each with the other to judge by."""
    intervals, folds = compared(course), []
    for seed in range(random_state + 100, random_state + 100 + HALVINGS):
        one, other = halves(course, seed)
        for known, held_out in ((one, other), (other, one)):
            starts = [held_out.points[k][:MAX_CELLS] for k in intervals]
            targets = [held_out.points[k + 1][:MAX_CELLS] for k in intervals]
            folds.append(_Fold(known, intervals, starts, targets))
    return folds


def _n_judges(course: Course) -> int:
    """Folds in which networks are judged: training takes longer than anything else, and few cells train quickly."""
    smallest = min(int(np.count_nonzero(weight)) for weight in course.weights)
    return 1 if smallest >= ENOUGH else 2 if smallest >= FEW else 2 * HALVINGS


def compared(course: Course) -> list[int]:
    """The intervals that are compared, evenly spread over the course."""
    n = course.timeline.n_intervals
    return np.unique(np.linspace(0, n - 1, min(n, MAX_INTERVALS)).round().astype(int)).tolist()


def _by_envelopes(
    fold: _Fold, formulation: Formulation, settings: Sequence[Setting], random_state: int
) -> dict[Setting, list[Array]]:
    """Cells of each interval where Kantorovich potentials of the known half send them."""
    known, units, n_ends = fold.known, formulation.units, len(formulation.scheme.anchors)
    plans = {n: members(known, min(n, JUDGED_MEMBERS), random_state) for n in {s.n_members for s in settings}}
    found = {}
    for setting in settings:
        weights = kantorovich_weights(plans[setting.n_members], known, formulation, setting.softness)
        found[setting] = [
            partners(weights[str(k * n_ends)], (x - units.center) / units.length) * units.length + units.center
            for x, k in zip(fold.starts, fold.intervals, strict=True)
        ]
    return found


def _beside(
    fold: _Fold,
    formulation: Formulation,
    settings: Sequence[Setting],
    asked: Stacked,
    sent: list[Array],
    random_state: int,
) -> dict[Setting, list[Array]]:
    """Cells moved by networks of each length of training, and by their mean with where envelopes have ``sent`` them."""
    parts, gaps = members(fold.known, JUDGED_MEMBERS, random_state), fold.known.timeline.gaps
    networks = {}
    for updates in dict.fromkeys(setting.updates for setting in settings):
        term = trained(fold.known, parts, formulation, asked.network, updates, random_state).term
        networks[updates] = [
            x - gaps[k] * term.gradient(x, np.full(len(x), k), np.zeros(len(x)))
            for x, k in zip(fold.starts, fold.intervals, strict=True)
        ]
    return {
        setting: [
            (1 - setting.share) * one + setting.share * other
            for one, other in zip(networks[setting.updates], sent, strict=True)
        ]
        for setting in settings
    }


def _errors(
    folds: Sequence[_Fold], moved: Sequence[dict[Setting, list[Array]]], settings: Sequence[Setting]
) -> list[Array]:
    """The errors of each setting in all folds and intervals, relative to not moving in that fold."""
    tasks = [
        (prediction, target)
        for fold, positions in zip(folds, moved, strict=True)
        for own in (fold.starts, *(positions[setting] for setting in settings))
        for prediction, target in zip(own, fold.targets, strict=True)
    ]
    found = np.array(side_by_side(lambda pair: emd(*pair), tasks)).reshape(len(folds), len(settings) + 1, -1)
    unmoved = found[:, :1].mean(axis=2, keepdims=True)
    return list((found[:, 1:] / np.where(unmoved > 0, unmoved, 1.0)).swapaxes(0, 1).reshape(len(settings), -1))


def _best(errors: dict[Setting, Array]) -> Setting:
    """The best setting, if what takes longer is better by more than its standard error."""
    best: Setting | None = None
    for kind in dict.fromkeys((setting.share, setting.n_members) for setting in errors):
        rival = min(_of(kind, errors), key=lambda setting: errors[setting].mean())
        if best is None or _better(errors[rival], errors[best]):
            best = rival
    assert best is not None
    return best


def _of(kind: tuple[float, int], settings: Iterable[Setting]) -> list[Setting]:
    return [setting for setting in settings if (setting.share, setting.n_members) == kind]


def _better(one: Array, other: Array) -> bool:
    """Whether errors are smaller by more than the standard error of their mean difference, where both are known."""
    n = min(len(one), len(other))  # networks are judged in the first folds
    difference = other[:n] - one[:n]
    spread = difference.std(ddof=1) / np.sqrt(n) if n > 1 else 0.0
    return bool(difference.mean() > spread)
