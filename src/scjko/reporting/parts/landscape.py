"""The landscape: the potential at each time, its wells, and the barriers between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ... import pl
from ...core.timeline import time_text
from ...edge.landscape import one_potential, stored_landscape
from ..figures import figure
from ..markup import Html, beside, element, more, paragraph, table, with_error
from ..subject import Part, Subject

#: Times that are drawn, and rows of a table, at most.
PANELS, ROWS = 10, 40


def landscape(subject: Subject) -> Part:
    """Maps of the potential, and what :func:`scjko.tl.landscape` found."""
    charted = subject.keys.landscape in subject.adata.uns
    clusters = [] if subject.cluster_key is None else [f"cluster_key={subject.cluster_key!r}"]
    part = Part("landscape", "The landscape")
    if subject.plane:
        part.body.append(_maps(subject, charted))
    if not charted:
        part.missing["wells and barriers"] = subject.call("landscape", *clusters)
        return part
    found = stored_landscape(subject.cells)
    if "gradient" in found:
        part.body.append(paragraph(one_potential(found["gradient"])))
    part.body.extend(_wells(subject, found))
    return part


def _maps(subject: Subject, charted: bool) -> Html:
    times = np.intersect1d(subject.cells.energy.times, subject.cells.times)
    shown = times[np.unique(np.linspace(0, len(times) - 1, min(PANELS, len(times))).round().astype(int))]
    said = "The fitted potential: cells go downhill. The map fades where there are no cells."
    if len(shown) < len(times):
        said += f" Shown are {len(shown)} of {len(times)} time points."
    if charted:
        said += (
            " Circles are wells, open where cells do not come to rest; crosses are saddles, with the path of least "
            "energy between two wells, dashed where no cell is."
        )
    options = {"times": shown.tolist(), "wells": charted, **subject.drawn}
    return figure(said, "Maps of the potential, one for each time", pl.level_curves, subject.adata, **options)


def _wells(subject: Subject, found: Mapping[str, Any]) -> list[Html]:
    wells, last = found["wells"], float(np.asarray(found["times"])[-1])
    if not len(wells["time"]):
        return [paragraph("No wells were found.")]
    shown = []
    here = np.flatnonzero(np.asarray(wells["time"]) == last)
    if len(here):
        drawn = {"time": last, "key": subject.keys.key}
        said = (
            f"Wells at {subject.time(last)}, each at its height, joined at the lowest pass to others. Dashed passes "
            "are where no cell is: their height is an extrapolation."
        )
        shown.append(figure(said, "Wells and barriers as a tree", pl.barriers, subject.adata, **drawn))
    rows = [
        [
            time_text(wells["time"][k]),
            wells["name"][k],
            int(wells["n_cells"][k]),
            with_error(wells["height"][k], wells["error"][k]),
            "yes" if wells["resting"][k] else "no",
        ]
        for k in range(len(wells["time"]))
    ]
    columns = [subject.cells.time_key, "well", "cells", "height", "cells come to rest"]
    shown.append(_capped("Wells", columns, rows, f'uns["{subject.keys.landscape}"]["wells"]'))
    return [beside(*shown, *_barriers(subject, found, here), *_events(subject, found))]


def _barriers(subject: Subject, found: Mapping[str, Any], here: Any) -> list[Html]:
    """Pairs of wells of the last time, with what each has to climb."""
    barriers, wells, last = found["barriers"], found["wells"], float(np.asarray(found["times"])[-1])
    rows: dict[tuple[int, int], int] = {
        (int(a), int(b)): k for k, (a, b) in enumerate(zip(barriers["from"], barriers["to"], strict=True))
    }
    told = []
    for (a, b), k in rows.items():
        if a < b and a in here and (b, a) in rows:
            heights = [with_error(barriers["height"][i], barriers["error"][i]) for i in (k, rows[b, a])]
            told.append([wells["name"][a], wells["name"][b], *heights, "yes" if barriers["supported"][k] else "no"])
    if not told:
        return []
    columns = ["well", "other well", "barrier from the well", "barrier from the other", "cells on the pass"]
    name = f'uns["{subject.keys.landscape}"]["barriers"]'
    return [_capped(f"Barriers at {subject.time(last)}", columns, told, name)]


def _events(subject: Subject, found: Mapping[str, Any]) -> list[Html]:
    events = found["events"]
    rows = [
        [f"{time_text(after)} to {time_text(before)}", well, kind, other or "–"]
        for after, before, well, kind, other in zip(
            events["after"], events["before"], events["well"], events["kind"], events["other"], strict=True
        )
    ]
    columns = [f"between {subject.cells.time_key}", "well", "what happens", "other well"]
    name = f'uns["{subject.keys.landscape}"]["events"]'
    return [_capped("Wells over time", columns, rows, name)] if rows else []


def _capped(caption: str, columns: list[str], rows: list[list[Any]], whole: str) -> Html:
    made = table(caption, columns, rows[:ROWS])
    return made if len(rows) <= ROWS else element("div", made, more(len(rows) - ROWS, whole))
