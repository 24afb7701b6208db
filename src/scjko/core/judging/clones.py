"""Fates judged by clones: what sisters became against what was predicted, and whether that beats baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from .names import JUDGED, listed, spoken
from .verdict import MARGIN

Array = NDArray[np.float64]
Index = NDArray[np.int64]

#: Bins of probability in which predictions are compared with what happened.
BINS = 10
#: Fewer clones than this give no standard error.
FEWEST = 10


class Agreement(NamedTuple):
    """How predicted fates of cells agree with those of their sisters."""

    top1: float
    """The share of sisters that have the most probable fate, on average over cells."""
    correlation: float
    """Pearson's, of predicted and clonal shares about the mean of each fate; of two fates that of either."""
    auroc: float
    """Of telling cells most of whose sisters have a fate from the others, on average over fates."""
    calibration: float
    """Expected calibration error: mean difference of probabilities and what happened, in bins of probability."""


@dataclass(frozen=True)
class CloneVerdict:
    """What clones say of fates."""

    text: str
    better: bool
    """Whether predictions agree better than every baseline, each beyond the uncertainty of the difference."""


def agreement(predicted: Array, clonal: Array) -> Agreement:
    """How ``predicted`` probabilities (n, n_fates) agree with the shares of fates among sisters."""
    centred = (predicted - predicted.mean(axis=0)).ravel(), (clonal - clonal.mean(axis=0)).ravel()
    spread = np.sqrt((centred[0] @ centred[0]) * (centred[1] @ centred[1]))
    correlation = float(centred[0] @ centred[1] / spread) if spread > 1e-12 else float("nan")
    areas = [auroc(predicted[:, j], clonal[:, j] > 0.5) for j in range(clonal.shape[1])]
    known = [area for area in areas if np.isfinite(area)]
    mean_area = float(np.mean(known)) if known else float("nan")
    return Agreement(float(hits(predicted, clonal).mean()), correlation, mean_area, calibration(predicted, clonal))


def hits(predicted: Array, clonal: Array) -> Array:
    """Of each cell the share of sisters that have its most probable fate; of equally probable ones the mean."""
    top = predicted >= predicted.max(axis=1, keepdims=True) * (1 - 1e-9)
    return np.asarray((top * clonal).sum(axis=1) / top.sum(axis=1))


def auroc(score: Array, positive: NDArray[np.bool_]) -> float:
    """The probability that a positive cell has the higher score; NaN if all or none are positive."""
    n_positive, n_negative = int(positive.sum()), int(np.sum(~positive))
    if n_positive == 0 or n_negative == 0:
        return float("nan")
    rank_sum = rankdata(score)[positive].sum()
    return float((rank_sum - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def calibration(predicted: Array, clonal: Array) -> float:
    """Σ_b w_b |mean predicted − mean clonal| over bins b of predicted probability."""
    p, t = predicted.ravel(), clonal.ravel()
    place = np.minimum((p * BINS).astype(np.int64), BINS - 1)
    return float(np.abs(np.bincount(place, p - t, BINS)).sum() / len(p))


def judge_clones(predictions: Mapping[str, Array], clonal: Array, clone: Index) -> CloneVerdict:
    """Whether the fates of the chain agree better with clones than those of every baseline.

    Compared is the share of sisters that have the most probable fate. The standard error of a difference is that over
    clones: cells of one clone are one observation.

    Parameters
    ----------
    predictions
        The probabilities of fates by method, ``"scjko"`` and baselines.
    clonal
        The shares of fates among the sisters of each cell.
    clone
        The clone of each cell.
    """
    ours = hits(predictions[JUDGED], clonal)
    gains = {}
    for name, predicted in predictions.items():
        if name != JUDGED:
            difference = ours - hits(predicted, clonal)
            gains[name] = float(difference.mean()), standard_error(difference, clone)
    order = sorted(gains, key=lambda name: gains[name][0])
    unclear = [name for name in order if not gains[name][0] > MARGIN * gains[name][1]]
    n_clones = len(np.unique(clone))
    rival = order[0]
    base = f"The predicted fates of {len(clonal)} cells of {n_clones} clones agree with those of their sisters"
    claim = (
        f"{base} no better than {listed([spoken(n) for n in unclear])}"
        if unclear
        else f"{base} better than every baseline"
    )
    gain, error = gains[rival]
    figures = [f"{ours.mean() - gains[name][0]:.3f} of {spoken(name)}" for name in order]
    spread = f" ± {error:.3f} (standard error over clones)" if np.isfinite(error) else ""
    side = "higher" if gain >= 0 else "lower"
    text = (
        f"{claim}: the share of sisters with the most probable fate is {ours.mean():.3f} against {listed(figures)}; "
        f"{side} than that of {spoken(rival)} by {abs(gain):.3f}{spread}."
    )
    if not np.isfinite(error):
        text += f" {n_clones} clones are too few for a standard error."
    return CloneVerdict(text, not unclear)


def standard_error(values: Array, clone: Index) -> float:
    """The standard error of the mean of values that are independent between clones only; infinite for few clones."""
    _, group = np.unique(clone, return_inverse=True)
    n_clones = int(group.max()) + 1
    if n_clones < FEWEST:
        return float("inf")
    sums = np.bincount(group, values - values.mean())
    return float(np.sqrt(np.sum(sums**2) * n_clones / (n_clones - 1)) / len(values))
