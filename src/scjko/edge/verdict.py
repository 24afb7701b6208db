"""What a validation says, in plain words."""

from __future__ import annotations

import numpy as np
import pandas as pd


def verdict(frame: pd.DataFrame) -> tuple[str, bool]:
    """What the errors say in words, and whether the energy predicts better than every predictor without training.

    That is said only if it does on average and in more than half of the splits.
    """
    errors = frame.pivot_table(index=["split", "time"], columns="method", values="emd")
    untrained = errors.drop(columns=["scjko", "floor"])
    rival = str(untrained.mean().idxmin())
    gains, moved = _gains(errors, rival), _gains(errors, "persistence")
    won = int(np.sum(gains > 0))
    what, part = {"cells": ("held-out cells", "split"), "times": ("left-out time points", "time point")}[
        frame["protocol"].iloc[0]
    ]
    better = bool(gains.mean() > 0 and won > len(gains) / 2)
    if better:
        said = (
            f"The fitted energy predicts {what} better than what needs no training ({', '.join(map(str, untrained))})."
        )
    elif moved.mean() <= 0:
        said = f"The fitted energy adds nothing: not moving at all predicts {what} as well or better."
    elif gains.mean() > 0:
        said = f"Undecided: the fitted energy predicts {what} better than {rival} on average, but not mostly."
    else:
        said = f"The fitted energy predicts {what}, but no better than {rival}, which needs no training."
    means = errors.mean()
    beside = f" and {means['persistence']:.4g} without moving" if rival != "persistence" else ""
    figures = (
        f"EMD {means['scjko']:.4g}, against {means[rival]:.4g} ({rival}){beside}; better than {rival} in {won} of "
        f"{len(gains)} {part}{'s' * (len(gains) > 1)}. Two samples of one population are {means['floor']:.4g} apart."
    )
    return f"{said} {figures}", better


def _gains(errors: pd.DataFrame, rival: str) -> pd.Series:
    """How much better than a rival the energy is, in each split."""
    return (errors[rival] - errors["scjko"]).groupby("split").mean()
