"""What a validation says, in plain words."""

from __future__ import annotations

import numpy as np
import pandas as pd


def verdict(frame: pd.DataFrame) -> tuple[str, bool]:
    """What the errors say in words, and whether the energy predicts better than every predictor without training.

    One predictor is better than another if it is on average and in more than half of the splits.
    """
    errors = frame.pivot_table(index=["split", "time"], columns="method", values="emd")
    rival = str(errors.drop(columns=["scjko", "floor"]).mean().idxmin())
    what = {"cells": "held-out cells", "times": "left-out time points"}[frame["protocol"].iloc[0]]
    if _wins(errors, rival):
        said = f"The fitted energy predicts {what} better than anything without training."
    elif _wins(errors, "persistence"):
        said = f"The fitted energy predicts {what}, but no better than {rival}, which needs no training."
    else:
        said = f"The fitted energy adds nothing: {what} are predicted as well by not moving at all."
    means = errors.mean()
    beside = f" and {means['persistence']:.4g} without moving" if rival != "persistence" else ""
    n_splits = errors.index.get_level_values("split").nunique()
    parts = {"cells": "split", "times": "time point"}[frame["protocol"].iloc[0]] + "s" * (n_splits > 1)
    figures = (
        f"EMD {means['scjko']:.4g}, against {means[rival]:.4g} ({rival}){beside}; better than {rival} in "
        f"{_won(errors, rival)} of {n_splits} {parts}. Two samples of one population are {means['floor']:.4g} apart."
    )
    return f"{said} {figures}", _wins(errors, rival)


def _gains(errors: pd.DataFrame, rival: str) -> pd.Series:
    return (errors[rival] - errors["scjko"]).groupby("split").mean()


def _won(errors: pd.DataFrame, rival: str) -> int:
    return int(np.sum(_gains(errors, rival) > 0))


def _wins(errors: pd.DataFrame, rival: str) -> bool:
    gains = _gains(errors, rival)
    return bool(gains.mean() > 0 and _won(errors, rival) > len(gains) / 2)
