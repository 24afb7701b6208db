"""What a validation says, in plain words."""

from __future__ import annotations

import numpy as np
import pandas as pd


def verdict(frame: pd.DataFrame) -> tuple[str, bool]:
    """Whether the energy predicts better than every predictor without training, in words and as a bool.

    It does if it is better on average and in more than half of the splits.
    """
    errors = frame.pivot_table(index=["split", "time"], columns="method", values="emd")
    untrained = errors.drop(columns=["scjko", "floor"])
    rival = str(untrained.mean().idxmin())
    ours, theirs, floor = (float(errors[name].mean()) for name in ("scjko", rival, "floor"))
    gain = (errors[rival] - errors["scjko"]).groupby("split").mean()
    won, n_splits = int(np.sum(gain > 0)), len(gain)
    what = "held-out cells" if frame["protocol"].iloc[0] == "cells" else "left-out time points"
    figures = (
        f"EMD {ours:.4g} against {theirs:.4g} ({rival}), better in {won} of {n_splits} "
        f"{'split' if what == 'held-out cells' else 'time point'}{'s' * (n_splits > 1)}; two samples of one population "
        f"are {floor:.4g} apart, and not moving at all gives {float(errors['persistence'].mean()):.4g}."
    )
    better = bool(gain.mean() > 0 and won > n_splits / 2)
    if better:
        return f"The fitted energy predicts {what} better than anything without training: {figures}", True
    return f"The fitted energy adds nothing: it predicts {what} no better than {rival} does. {figures}", False
