"""The verdict of a validation: whether a fitted energy predicts better than every baseline, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

from ..timeline import time_text
from .names import FLOOR, JUDGED, UNMOVED, listed, named, spoken

Array = NDArray[np.float64]

#: The energy is better than a baseline if the difference exceeds this many standard errors (about 95 %). On errors
#: that are pure noise it is then called better than all of two or more baselines in at most 3 of 100 cases, and than
#: a single one in 3 (ten repeats) to 9 (three).
MARGIN = 2.0
#: A baseline is better than the energy at the quantile 1 − CHANCE / (number of baselines, at least MANY) of Student's
#: t. One baseline of many suffices, so that twice the standard error would call 15 to 30 of 100 cases of noise worse
#: (four independent baselines, five to three repeats), not 7-9; and seven at the quantile of four 13, not 8.
CHANCE, MANY = 0.1, 4
#: Fewer splits or time points than this give no standard error.
MIN_REPEATS = 3
#: Differences below this fraction of the errors are rounding.
ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Errors:
    """Errors of several methods, paired: every row is one split and time point, predicted by all methods."""

    methods: tuple[str, ...]
    values: Array
    """The error of each method (n_rows, n_methods); lower is better."""
    split: NDArray[np.int64]
    time: Array
    noise: Array | None = None
    """Standard error of the difference of each method from ``"scjko"`` due to the sample of cells (n_rows, n_methods),
    see :func:`scjko.core.judging.metrics.difference_error`. Used where splits and time points are too few."""

    def __post_init__(self) -> None:
        shape = (len(self.split), len(self.methods))
        if len(self.split) == 0 or self.values.shape != shape or self.time.shape != shape[:1]:
            raise ValueError(
                f"values has shape {self.values.shape} and time {self.time.shape}; {shape[0]} rows of {shape[1]} "
                f"methods need {shape} and {shape[:1]}, and at least one row."
            )
        if self.noise is not None and self.noise.shape != shape:
            raise ValueError(f"noise has shape {self.noise.shape}; it must have that of values, {shape}.")
        if JUDGED not in self.methods or not self.baselines:
            raise ValueError(f"methods={self.methods} must have {JUDGED!r} and at least one baseline.")
        if not np.isfinite(self.values).all():
            bad = [m for m in self.methods if not np.isfinite(self.of(m)).all()]
            raise ValueError(f"values of {', '.join(bad)} are missing or not finite; every row needs every method.")

    @classmethod
    def from_columns(
        cls,
        split: ArrayLike,
        time: ArrayLike,
        method: Sequence[str],
        value: ArrayLike,
        noise: ArrayLike | None = None,
    ) -> Errors:
        """The errors of a long table, one split, time point and method a row, given by its columns."""
        keys, row = np.unique(np.column_stack([split, time]).astype(np.float64), axis=0, return_inverse=True)
        methods = tuple(dict.fromkeys(method))
        place = row.ravel(), [methods.index(name) for name in method]
        tables = []
        for column in (value, noise):
            table = np.full((len(keys), len(methods)), np.nan)
            if column is not None:
                table[place] = column
            tables.append(table)
        return cls(methods, tables[0], keys[:, 0].astype(np.int64), keys[:, 1], None if noise is None else tables[1])

    @property
    def baselines(self) -> tuple[str, ...]:
        """The methods that the energy is compared with."""
        return tuple(method for method in self.methods if method not in (JUDGED, FLOOR))

    def of(self, method: str) -> Array:
        """The errors of one method (n_rows,)."""
        return self.values[:, self.methods.index(method)]


class Gain(NamedTuple):
    """By how much the energy's mean error is below that of a baseline."""

    mean: float
    error: float
    """Its standard error; infinite if there is nothing to estimate it from."""
    scale: float
    """The mean error of the baseline."""
    repeats: int
    """The number of splits or time points that the standard error is from; 0 if from neither."""
    n_baselines: int
    """How many baselines there are."""

    @property
    def shown(self) -> int:
        """1 if the energy is better beyond the uncertainty, −1 if the baseline is, else 0."""
        quantile = 1 - CHANCE / max(self.n_baselines, MANY)
        margin = stdtrit(self.repeats - 1, quantile) if self.mean < 0 and self.repeats else MARGIN
        return int(np.sign(self.mean)) if abs(self.mean) > max(margin * self.error, ROUNDING * self.scale) else 0


@dataclass(frozen=True)
class Verdict:
    """What a validation says."""

    text: str
    better: bool
    """Whether the energy is better than every baseline, each beyond the uncertainty of the difference."""
    rival: str
    """The baseline with the smallest mean error."""
    gain: float
    """Mean error of the rival minus that of the energy."""
    error: float
    """Standard error of the gain."""
    lost_times: tuple[float, ...]
    """Time points at which a baseline has a smaller mean error than the energy."""
    worse: bool
    """Whether a baseline is better than the energy beyond the uncertainty of the difference."""


def judge(errors: Errors, *, what: str, part: str, test_share: float | None = None) -> Verdict:
    """Whether the energy predicts better than every baseline, in words and numbers.

    Parameters
    ----------
    errors
        Errors of the energy (``"scjko"``), of the baselines, and the distance of two samples (``"floor"``).
    what
        What was predicted, such as "held-out cells".
    part
        What a split is called, such as "split".
    test_share
        Fraction of the cells held out in random splits, whose training cells overlap: the standard error is then that
        of Nadeau and Bengio (2003).
    """
    gains = {baseline: _gain(errors, baseline, test_share) for baseline in errors.baselines}
    rival = min(gains, key=lambda baseline: gains[baseline].scale)
    lost = _lost_times(errors)
    shown = [gain.shown for gain in gains.values()]
    claim, against = _claim(gains, rival, what)
    sentences = [
        f"{claim}: {_figures(errors, gains, against, rival, part)}.",
        _standing_still(gains),
        _losses(lost, len(np.unique(errors.time))),
        f"Two samples of one population are {errors.of(FLOOR).mean():.4g} apart." if FLOOR in errors.methods else "",
    ]
    return Verdict(
        text=" ".join(sentence for sentence in sentences if sentence),
        better=min(shown) == 1,
        rival=rival,
        gain=gains[rival].mean,
        error=gains[rival].error,
        lost_times=tuple(lost),
        worse=min(shown) == -1,
    )


def _gain(errors: Errors, baseline: str, test_share: float | None) -> Gain:
    """The mean gain over a baseline with its standard error, from whichever repeats there are."""
    difference = errors.of(baseline) - errors.of(JUDGED)
    repeats, n_repeats = _repeats(errors), 0
    if repeats is not None:
        means = _means(difference, repeats)
        n_repeats = len(means)
        overlap = test_share / (1 - test_share) if test_share is not None and repeats is errors.split else 0.0
        error = float(np.std(means, ddof=1) * np.sqrt(1 / n_repeats + overlap))
    elif errors.noise is not None:
        noise = errors.noise[:, errors.methods.index(baseline)]
        error = float(np.sqrt(np.sum(noise**2)) / len(noise)) if np.isfinite(noise).all() else float("inf")
    else:
        error = float("inf")
    return Gain(float(difference.mean()), error, float(errors.of(baseline).mean()), n_repeats, len(errors.baselines))


def _repeats(errors: Errors) -> NDArray[np.int64] | Array | None:
    """What the standard error is taken over: the splits, if they repeat the same times, else the time points."""
    same_times = len(np.unique(errors.time)) < len(errors.time)
    if same_times and len(np.unique(errors.split)) >= MIN_REPEATS:
        return errors.split
    return errors.time if len(np.unique(errors.time)) >= MIN_REPEATS else None


def _means(values: Array, groups: NDArray[np.int64] | Array) -> Array:
    """The mean of the values of each group, in the order of the groups."""
    _, group = np.unique(groups, return_inverse=True)
    return np.bincount(group, values) / np.bincount(group)


def _lost_times(errors: Errors) -> dict[float, str]:
    """The times at which the mean error of a baseline is the smallest, and the name of that baseline."""
    names = errors.baselines
    baselines = np.stack([_means(errors.of(name), errors.time) for name in names], axis=1)
    ours, best = _means(errors.of(JUDGED), errors.time), baselines.min(axis=1)
    lost = best < ours * (1 - ROUNDING)
    winners = baselines.argmin(axis=1)
    return {float(t): names[k] for t, k, yes in zip(np.unique(errors.time), winners, lost, strict=True) if yes}


def _claim(gains: dict[str, Gain], rival: str, what: str) -> tuple[str, str]:
    """The first sentence without its figures, and the baseline that it is about."""
    ordered = sorted(gains, key=lambda baseline: gains[baseline].scale)
    worse, unclear = ([name for name in ordered if gains[name].shown == sign] for sign in (-1, 0))
    if worse:
        return f"The fitted energy predicts {what} worse than {named(worse)}", worse[0]
    if not unclear:
        return f"The fitted energy predicts {what} better than every baseline", rival
    if np.isinf(gains[rival].error):
        whether = f"Whether the fitted energy predicts {what} better than {spoken(rival)}"
        return f"{whether} cannot be determined from so few data", rival
    return f"On {what} these data show no difference between the fitted energy and {named(unclear, 'or')}", unclear[0]


def _figures(errors: Errors, gains: dict[str, Gain], against: str, rival: str, part: str) -> str:
    """The errors of the energy and of the baselines that matter, and the difference from one of them."""
    others = dict.fromkeys(name for name in (against, rival, UNMOVED) if name in gains)
    figures = [
        f"{gains[name].scale:.4g} {'without moving' if name == UNMOVED else f'of {spoken(name)}'}" for name in others
    ]
    gain, repeats = gains[against], _repeats(errors)
    if np.isinf(gain.error):
        over = "its standard error is unknown"
    elif repeats is None:
        over = "standard error from the sample of cells"
    elif repeats is errors.split:
        over = f"standard error over {_count(errors.split, part)}"
    else:
        over = f"standard error over {_count(errors.time, 'time point')}"
    spread = f" ± {gain.error:.2g}" if np.isfinite(gain.error) else ""
    return (
        f"EMD {errors.of(JUDGED).mean():.4g} against {listed(figures)}; {'higher' if gain.mean < 0 else 'lower'} than "
        f"{spoken(against)} by {abs(gain.mean):.2g}{spread} ({over})"
    )


def _standing_still(gains: dict[str, Gain]) -> str:
    """What is said if the energy is not better than no move at all."""
    if UNMOVED not in gains or gains[UNMOVED].mean > 0:
        return ""
    return "Not moving does better." if gains[UNMOVED].shown == -1 else "Not moving does as well or better."


def _losses(lost: dict[float, str], n_times: int) -> str:
    """The times at which baselines win, by baseline."""
    if not lost:
        return ""
    if len(lost) == 1:
        ((time, name),) = lost.items()
        return f"A baseline wins at time {time_text(time)} ({spoken(name)})."
    by_name: dict[str, list[str]] = {}
    for time, name in lost.items():
        by_name.setdefault(name, []).append(time_text(time))
    said = "; ".join(f"{spoken(name)} at {', '.join(times)}" for name, times in by_name.items())
    return f"Baselines win at {len(lost)} of {n_times} times: {said}."


def _count(groups: NDArray[np.int64] | Array, word: str) -> str:
    n = len(np.unique(groups))
    return f"{n} {word}{'s' * (n != 1)}"
