"""What the fit says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...core.timeline import time_text
from ...edge.diagnosis import remarks
from ..markup import Html, listing, paragraph, percent, table
from ..subject import Part, Subject


def diagnostics(subject: Subject) -> Part:
    """Warnings in words, and what is known of each interval."""
    found = subject.stored.get("diagnostics", {})
    said = remarks(found, subject.cells.energy.times, subject.cells.energy.potential_term.variation.static)
    words = listing(said) if said else paragraph("The fit gave no warning.")
    more = [paragraph(sentence) for sentence in _sentences(subject, found)]
    return Part("diagnostics", "Diagnostics", [words, *more, _intervals(subject, found)])


def _sentences(subject: Subject, found: Mapping[str, Any]) -> list[str]:
    said = []
    for term, share in found.get("identifiability", {}).items():
        said.append(f"Of the force of the {term} term, a potential cannot reproduce {percent(float(share))}.")
    if "beta" in found:
        said.append(
            f"Beta, the strength of the noise, is {float(found['beta']):.3g} ± {float(found['beta_error']):.2g}."
        )
    forecast = subject.stored.get("forecast")
    if forecast is not None and int(forecast["n_judged"]) > 0:
        damping, ratio = float(forecast["damping"]), float(forecast["ratio"])
        said.append(
            f"Forecasts beyond the last time point take {percent(damping)} of the velocity; on known time points their "
            f"error was {ratio:.2g} times that of not moving."
            if damping > 0
            else "Forecasts beyond the last time point leave cells where they are, as predicts known ones best."
        )
    unconverged = int(np.sum(found.get("unconverged", 0)))
    if unconverged:
        said.append(f"{unconverged:,} predicted cells left the range of the data or were not solved.")
    return said


def _intervals(subject: Subject, found: Mapping[str, Any]) -> Html:
    times, couplings = subject.cells.energy.times, subject.stored["couplings"]
    n = len(times) - 1
    explained, gap, dropped = (
        np.asarray(held.get(name, np.full(n, np.nan)), dtype=np.float64)
        for held, name in ((found, "explained"), (couplings, "gap"), (couplings, "dropped"))
    )
    names = np.atleast_1d(couplings["solver"])
    rows = []
    for k in range(n):
        cells = f"{int(couplings['n_source'][k]):,} to {int(couplings['n_target'][k]):,}"
        at_most = "optimal" if abs(gap[k]) < 1e-6 else percent(gap[k])
        rows.append(
            [
                f"{time_text(times[k])} to {time_text(times[k + 1])}",
                cells,
                percent(explained[k]),
                names[k],
                at_most,
                percent(dropped[k]),
            ]
        )
    columns = [
        subject.cells.time_key,
        "cells",
        "motion explained",
        "coupling",
        "above the optimum at most",
        "mass left over",
    ]
    return table(
        "Intervals: the motion explained is the fraction of the squared velocity that the energy has", columns, rows
    )
