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
#: By how much a network may be worse in a fold and is still taken beside envelopes: with the cells that a fold lacks it
#: gains more. On embryoid bodies the mean of both had 0.993 to 1.012 of the error of envelopes among halves of the
#: cells, and with all cells 0.988 (seeds 10 and 11).
HANDICAP = 0.015
#: How often few cells are halved, either half judging the other.
HALVINGS = 2
#: Cells that are moved and compared in a fold from which on one halving is enough, and one fold for networks.
ENOUGH = 1000


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
    plans: dict[int, list[Course]]
    """The known cells resampled, by the number of members."""
    intervals: list[int]
    starts: list[Array]
    targets: list[Array]
    weights: list[tuple[Array, Array]]
    """Of the cells to move and to compare with."""

    @property
    def suffices(self) -> bool:
        """Whether enough cells are compared for one halving, and for one fold of networks."""
        return sum(len(x) for x in self.starts) >= ENOUGH


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
    diverged: bool = False
    """Whether networks were tried, and none of them could be trained in every fold."""

    @property
    def table(self) -> dict[str, NDArray[Any]]:
        """Every setting with its error, as columns, which of them was chosen, and the options that were left open."""
        columns = zip(Setting._fields, np.array(self.settings, dtype=np.float64).T, strict=True)
        chosen = np.arange(len(self.error)) == self.chosen
        return {**dict(columns), "error": self.error, "chosen": chosen, "left_open": np.array(self.left_open)}

    @property
    def falling(self) -> float:
        """By how much the last doubling of the training that was tried lowered the error of what was chosen."""
        chosen = self.settings[self.chosen]
        tried = {
            setting.updates: error
            for setting, error in zip(self.settings, self.error, strict=True)
            if setting[:3] == chosen[:3] and setting.updates
        }
        longest = max(tried, default=0)
        if chosen.updates != longest or longest // 2 not in tried:
            return 0.0
        return float(1 - tried[longest] / tried[longest // 2])

    @property
    def updates(self) -> int | None:
        """Updates of the network on all cells; if the maps have none, as many as served networks best.

        ``None`` if none were tried.
        """
        tried = [setting for setting in self.settings if setting.updates]
        if not tried:
            return None
        chosen = self.settings[self.chosen]
        best = chosen if chosen.updates else min(tried, key=lambda one: self.error[self.settings.index(one)])
        return carried_over(best.updates, self.judged)

    def settled(self, asked: Stacked, n_dims: int) -> Stacked:
        """The parametrisation with what was chosen in place of what was left open."""
        softness, share, n_members, _ = self.settings[self.chosen]
        if asked.kantorovich.softness is None:  # there are more cells than in a fold, and plans are less noisy
            softness *= excess(self.judged, n_dims)
        return replace(asked, share=share, kantorovich=Kantorovich(softness=softness, n_members=n_members))


def choose(course: Course, formulation: Formulation, asked: Stacked, random_state: int) -> Choice:
    """The setting that predicts held-out cells best, among those that were left open.

    A network is combined with a mean of plans of the softness that serves this best alone.
    """
    own = asked.kantorovich
    softnesses = SOFTNESSES if own.softness is None else (own.softness,)
    # Members of a network stand beside members of the Kantorovich potential.
    together = own.n_members or asked.network.n_members
    numbers = MEMBERS if together is None else (together,)
    folds = _folds(course, numbers, random_state)
    shares = SHARES if asked.share is None else (asked.share,)
    envelopes = [Setting(softness, 1.0, n, 0) for n in numbers for softness in softnesses]
    moved = [_by_envelopes(fold, formulation, envelopes) for fold in folds]
    errors = dict(zip(envelopes, _errors(folds, moved, envelopes), strict=True))
    best = min((s for s in envelopes if s.n_members == numbers[-1]), key=lambda setting: errors[setting].mean())
    beside = [share for share in shares if share < 1]
    diverged = False
    if beside:
        judges = folds[: 1 if folds[0].suffices else None]  # training takes longest
        n_rows = len(formulation.conditions(folds[0].known).points)
        tried = lengths(n_rows) if asked.network.epochs is None else [0]  # epochs that are named are not chosen
        stacked = [best._replace(share=share, updates=updates) for share in beside for updates in tried]
        moved = [
            _beside(fold, formulation, stacked, asked, positions[best], random_state)
            for fold, positions in zip(judges, moved, strict=False)
        ]
        sound = [setting for setting in stacked if all(setting in positions for positions in moved)]
        errors |= zip(sound, _errors(judges, moved, sound) if sound else [], strict=True)
        diverged = not sound
    if 1.0 not in shares and any(setting.share < 1 for setting in errors):
        errors = {setting: error for setting, error in errors.items() if setting.share < 1}
    chosen = _best(errors)
    size = np.mean([len(a) / len(b) for a, b in zip(folds[0].known.points, course.points, strict=True)])
    most = min(1.0, most_parabolas(course) / max(len(x) for x in course.points))
    settings = tuple(errors)
    means = np.array([error.mean() for error in errors.values()])
    judged = min(float(size) / most, 1.0)
    return Choice(settings, means, settings.index(chosen), judged, asked.left_open, diverged)


def _folds(course: Course, numbers: Sequence[int], random_state: int) -> list[_Fold]:
    """Matched halves of the cells, other ones than those of the members, each with the other to judge by."""
    intervals = compared(course)
    folds: list[_Fold] = []
    for seed in range(random_state + 100, random_state + 100 + HALVINGS):
        if folds and folds[0].suffices:
            break
        one, other = halves(course, seed, matched=True)
        for known, held_out in ((one, other), (other, one)):
            few = [x[:MAX_CELLS] for x in held_out.points]
            starts, targets = [few[k] for k in intervals], [few[k + 1] for k in intervals]
            sources, observed = held_out.sources, held_out.weights
            weights = [(sources[k][:MAX_CELLS], observed[k + 1][:MAX_CELLS]) for k in intervals]
            judged = {min(n, JUDGED_MEMBERS) for n in (*numbers, JUDGED_MEMBERS)}
            plans = {n: members(known, n, random_state) for n in judged}
            folds.append(_Fold(known, plans, intervals, starts, targets, weights))
    return folds


def compared(course: Course) -> list[int]:
    """The intervals that are compared, evenly spread over the course."""
    n = course.timeline.n_intervals
    return np.unique(np.linspace(0, n - 1, min(n, MAX_INTERVALS)).round().astype(int)).tolist()


def _by_envelopes(fold: _Fold, formulation: Formulation, settings: Sequence[Setting]) -> dict[Setting, list[Array]]:
    """Cells of each interval where Kantorovich potentials of the known half send them."""
    units, n_ends = formulation.units, len(formulation.scheme.anchors)
    found = {}
    for setting in settings:
        weights = kantorovich_weights(
            fold.plans[min(setting.n_members, JUDGED_MEMBERS)], fold.known, formulation, setting.softness
        )
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
    """Cells moved by networks of each length of training, and by their mean with where envelopes have ``sent`` them.

    Without those whose training diverged.
    """
    parts, gaps = fold.plans[JUDGED_MEMBERS], fold.known.timeline.gaps
    networks = {}
    for updates in dict.fromkeys(setting.updates for setting in settings):
        try:
            network = replace(asked.network, n_members=None)
            term = trained(fold.known, parts, formulation, network, updates, random_state).term
        except FloatingPointError:
            continue
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
        if setting.updates in networks
    }


def _errors(
    folds: Sequence[_Fold], moved: Sequence[dict[Setting, list[Array]]], settings: Sequence[Setting]
) -> list[Array]:
    """The errors of each setting in all folds and intervals, relative to not moving in that fold."""
    tasks = [
        (prediction, target, *weights)
        for fold, positions in zip(folds, moved, strict=True)
        for own in (fold.starts, *(positions[setting] for setting in settings))
        for prediction, target, weights in zip(own, fold.targets, fold.weights, strict=True)
    ]
    found = np.array(side_by_side(lambda task: emd(*task), tasks)).reshape(len(folds), len(settings) + 1, -1)
    unmoved = found[:, :1].mean(axis=2, keepdims=True)
    return list((found[:, 1:] / np.where(unmoved > 0, unmoved, 1.0)).swapaxes(0, 1).reshape(len(settings), -1))


def _best(errors: dict[Setting, Array]) -> Setting:
    """The setting with the smallest mean error in the folds that all of them were judged in."""
    n = min(map(len, errors.values()))  # networks are judged in the first folds
    best = {kind: min(_of(kind, errors), key=lambda setting: errors[setting].mean()) for kind in map(_kind, errors)}
    return min(best.values(), key=lambda setting: errors[setting][:n].mean() * (1 - HANDICAP * (setting.share == 0.5)))


def _kind(setting: Setting) -> tuple[float, int]:
    return setting.share, setting.n_members


def _of(kind: tuple[float, int], settings: Iterable[Setting]) -> list[Setting]:
    return [setting for setting in settings if _kind(setting) == kind]
