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
    correlation = float(parts_of_correlation(predicted, clonal).mean())
    areas = [auroc(predicted[:, j], clonal[:, j] > 0.5) for j in range(clonal.shape[1])]
    known = [area for area in areas if np.isfinite(area)]
    mean_area = float(np.mean(known)) if known else float("nan")
    return Agreement(float(hits(predicted, clonal).mean()), correlation, mean_area, calibration(predicted, clonal))


def parts_of_correlation(predicted: Array, clonal: Array) -> Array:
    """The correlation r as a mean over cells: r plus the influence of each cell on r; NaN if one side is constant.

    With u and v the centred shares, scaled to Σ u² = Σ v² = n, the influence of a cell is Σ_j u_j v_j − r Σ_j (u_j² +
    v_j²) / 2, to first order the change of r if its weight grows. Standard errors of means are then those of r.
    """
    u, v = (values - values.mean(axis=0) for values in (predicted, clonal))
    lengths = np.sqrt([np.mean(np.sum(values**2, axis=1)) for values in (u, v)])
    if np.prod(lengths) * len(u) <= 1e-12:
        return np.full(len(u), np.nan)
    u, v = u / lengths[0], v / lengths[1]
    product, size = np.sum(u * v, axis=1), np.sum(u**2 + v**2, axis=1) / 2
    r = product.mean()
    return np.asarray(r + product - r * size)


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
    text += _of_correlations(predictions, clonal, clone)
    if not np.isfinite(error):
        text += f" {n_clones} clones are too few for a standard error."
    return CloneVerdict(text, not unclear)


def _of_correlations(predictions: Mapping[str, Array], clonal: Array, clone: Index) -> str:
    """How the correlation with the shares of sisters compares with that of the best baseline, as a sentence."""
    parts = {name: parts_of_correlation(predicted, clonal) for name, predicted in predictions.items()}
    rivals = [name for name in parts if name != JUDGED and np.isfinite(parts[name].mean())]
    r = parts[JUDGED].mean()
    if not rivals or not np.isfinite(r):
        return ""
    rival = max(rivals, key=lambda name: parts[name].mean())
    difference = parts[JUDGED] - parts[rival]
    error = standard_error(difference, clone)
    spread = f" ± {error:.3f}" if np.isfinite(error) else ""
    side = "higher" if difference.mean() >= 0 else "lower"
    return (
        f" The correlation of all probabilities with the shares of fates among sisters is {r:.3f}, {side} than that of "
        f"{spoken(rival)} by {abs(difference.mean()):.3f}{spread}."
    )


def standard_error(values: Array, clone: Index) -> float:
    """The standard error of the mean of values that are independent between clones only; infinite for few clones."""
    _, group = np.unique(clone, return_inverse=True)
    n_clones = int(group.max()) + 1
    if n_clones < FEWEST:
        return float("inf")
    sums = np.bincount(group, values - values.mean())
    return float(np.sqrt(np.sum(sums**2) * n_clones / (n_clones - 1)) / len(values))
