"""What a fit says of itself, for ``uns`` and, where it matters, in a log line."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.fitting.fit import Fit
from ..core.judging.diagnostics import REMEDY, UNDETERMINED, identifiability
from .logging import logger


def diagnose(fitted: Fit) -> dict[str, Any]:
    """What the fit says of itself; a log line warns of terms that the data do not determine."""
    found: dict[str, Any] = {"explained": fitted.explained}
    if fitted.solution is not None:
        found["ridge"] = fitted.solution.ridge
        found["condition_number"] = fitted.solution.condition_number
        found["degrees_of_freedom"] = fitted.solution.degrees_of_freedom
    determined = identifiability(fitted)
    if determined.shares:
        found["identifiability"] = determined.shares
    if fitted.explained.min() < -1:
        logger.warning(
            "In %d of %d intervals the energy is further from the motion than standing still; look for cells far from "
            "all others in the representation.",
            np.sum(fitted.explained < -1),
            len(fitted.explained),
        )
    if fitted.still:
        logger.warning(
            "No cell moves: the snapshots are all alike in this representation. There is nothing to explain, and the "
            "energy is flat."
        )
    for term, share in determined.shares.items():
        if share < UNDETERMINED:
            static = "" if fitted.energy.mixing == "constant" else "time_varying=False, and "
            remedy = f"What would: {static}{REMEDY[term]}."
            logger.warning(
                "These snapshots do not tell the %s term and the potential apart: %.1f %% of its force is one that no "
                "potential has. Predictions hold, but read neither of the two by itself. %s",
                term,
                100 * share,
                remedy,
            )
    if "internal" in fitted.energy.terms:
        beta, error = fitted.energy.beta, determined.beta_error
        found["beta"], found["beta_error"] = beta, error
        if beta < 2 * error and determined.shares["internal"] >= UNDETERMINED:
            logger.warning(
                "Beta is %.3g with a standard error of %.3g: these snapshots hardly determine it. More cells, or "
                "snapshots between which their spread changes more, would.",
                beta,
                error,
            )
    return found
