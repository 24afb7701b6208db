"""What a fit says of itself, for ``uns`` and, where it matters, in a log line."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.fitting.fit import Fit
from ..core.fitting.heights import dual_difference
from ..core.judging.diagnostics import REMEDY, UNDETERMINED, identifiability
from ..core.timeline import time_text
from .logging import logger


def diagnose(fitted: Fit) -> dict[str, Any]:
    """What the fit says of itself; a log line warns of terms that the data do not determine."""
    found: dict[str, Any] = {"explained": fitted.explained}
    if fitted.solution is not None:
        found["ridge"] = fitted.solution.ridge
        found["condition_number"] = fitted.solution.condition_number
        found["degrees_of_freedom"] = fitted.solution.degrees_of_freedom
    difference = dual_difference(fitted.energy.field, fitted.course)
    if difference is not None:
        found["dual_difference"] = difference
    shares = identifiability(fitted)
    if shares:
        found["identifiability"] = shares
    _warn_of_misfit(fitted)
    if fitted.still:
        logger.warning(
            "No cell moves: the snapshots are all alike in this representation. There is nothing to explain, and the "
            "energy is flat."
        )
    for term, share in shares.items():
        if share < UNDETERMINED:
            static = "" if fitted.energy.potential_term.variation.static else "time_varying=False, and "
            remedy = f"What would: {static}{REMEDY[term]}."
            logger.warning(
                "These snapshots do not distinguish the %s term from the potential: a potential reproduces all but "
                "%.1f %% of its force. Predictions hold, but do not interpret either of the two by itself. %s",
                term,
                100 * share,
                remedy,
            )
    if fitted.noise is not None:
        beta, error = found["beta"], found["beta_error"] = fitted.noise.beta, fitted.noise.error
        if beta < 2 * error and shares["internal"] >= UNDETERMINED:
            logger.warning(
                "Beta is %.3g with a standard error of %.3g: these snapshots hardly determine it. More cells, or "
                "snapshots between which their spread changes more, would.",
                beta,
                error,
            )
    return found


def _warn_of_misfit(fitted: Fit) -> None:
    """Warn of intervals in which the energy is further from the motion than standing still."""
    misfit = np.flatnonzero(fitted.explained < 0)
    if not len(misfit):
        return
    times = fitted.energy.times
    named = ", ".join(f"{time_text(times[k])} to {time_text(times[k + 1])}" for k in misfit[:5])
    static = fitted.energy.potential_term.variation.static
    logger.warning(
        "In %d of %d intervals (%s) the energy is further from the motion than standing still. %s",
        len(misfit),
        len(fitted.explained),
        named + (", ..." if len(misfit) > 5 else ""),
        "One potential does not serve all times: fit with time_varying=True."
        if static
        else "Look for cells far from all others in the representation.",
    )


def warn_of_untrusted(converged: NDArray[np.bool_], column: str) -> None:
    """Warn of predicted cells whose position cannot be trusted."""
    failed = int((~converged).sum())
    if failed:
        logger.warning(
            "%d of %d predicted cells left the range of the data or were not solved; they are marked False in obs[%r].",
            failed,
            len(converged),
            column,
        )
