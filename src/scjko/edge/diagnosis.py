"""What a fit says of itself, for ``uns`` and, where it matters, in a log line."""

from __future__ import annotations

from collections.abc import Mapping
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
    if fitted.noise is not None:
        found["beta"], found["beta_error"] = fitted.noise.beta, fitted.noise.error
    if fitted.still:
        logger.warning(
            "No cell moves: the snapshots are all alike in this representation. There is nothing to explain, and the "
            "energy is flat."
        )
    for remark in remarks(found, fitted.energy.times, fitted.energy.potential_term.variation.static):
        logger.warning("%s", remark)
    return found


def remarks(found: Mapping[str, Any], times: NDArray[np.float64], static: bool) -> list[str]:
    """What stored diagnostics warn of: intervals and terms of an energy, static or not, that are not to be trusted."""
    said = [_of_misfit(np.asarray(found.get("explained", ())), times, static)]
    shares = found.get("identifiability", {})
    said += [_of_undetermined(term, share, static) for term, share in shares.items() if share < UNDETERMINED]
    if "beta" in found and found["beta"] < 2 * found["beta_error"] and shares.get("internal", 0.0) >= UNDETERMINED:
        said.append(
            f"Beta is {found['beta']:.3g} with a standard error of {found['beta_error']:.3g}: these snapshots hardly "
            "determine it. More cells, or snapshots between which their spread changes more, would."
        )
    return [sentence for sentence in said if sentence]


def _of_undetermined(term: str, share: float, static: bool) -> str:
    fit = "" if static else "time_varying=False, and "
    return (
        f"These snapshots do not distinguish the {term} term from the potential: a potential reproduces all but "
        f"{100 * share:.1f} % of its force. Predictions hold, but do not interpret either of the two by itself. What "
        f"would: {fit}{REMEDY[term]}."
    )


def _of_misfit(explained: NDArray[np.float64], times: NDArray[np.float64], static: bool) -> str:
    """What is said of intervals in which the energy is further from the motion than standing still."""
    misfit = np.flatnonzero(explained < 0)
    if not len(misfit):
        return ""
    named = ", ".join(f"{time_text(times[k])} to {time_text(times[k + 1])}" for k in misfit[:5])
    more = ", ..." if len(misfit) > 5 else ""
    remedy = (
        "One potential does not serve all times: fit with time_varying=True."
        if static
        else "Look for cells far from all others in the representation."
    )
    return (
        f"In {len(misfit)} of {len(explained)} intervals ({named}{more}) the energy is further from the motion than "
        f"standing still. {remedy}"
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
