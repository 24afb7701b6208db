"""Velocities: where the energy moves cells, and how fast."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import pl
from ..figures import figure
from ..markup import Html, beside, code, paragraph, stacked, table
from ..subject import Part, Subject, by_group


def velocities(subject: Subject) -> Part:
    """Streamlines, and the mean speed of each time point and cell type."""
    keys, adata, basis = subject.keys, subject.adata, subject.basis
    part, shown = Part("velocities", "Velocities"), list[Html]()
    if keys.velocity not in adata.obsm:
        part.missing["velocities"] = "sj.tl.fit_energy(adata, ...)"
        return part
    drawn: dict[str, Any] = dict(subject.drawn)
    if basis is not None and keys.velocity_on(basis) not in adata.obsm:
        part.missing[f"velocities on {basis}"] = subject.call("velocity_embedding", repr(basis))
        drawn["basis"] = None
    if drawn["basis"] is not None or subject.cells.coordinates.shape[1] > 1:
        said = "Streamlines of the fitted velocity, averaged over nearby cells of all times."
        if keys.velocity_std in adata.obsm:
            said += " They are faint where the standard deviation of the velocity exceeds the velocity."
        shown.append(
            figure(said, "Streamlines of the velocity", pl.velocity, adata, color=subject.cluster_key, **drawn)
        )
    speed = np.linalg.norm(adata.obsm[keys.velocity], axis=1)
    unit = ["Speeds are distances in ", code(f'obsm["{keys.coordinates}"]'), f" per unit of {subject.cells.time_key}."]
    tables = []
    for what, groups in (("time point", subject.cells.times), ("cell type", subject.types())):
        if groups is not None:
            means = by_group(speed[:, None], groups)
            named = [subject.time(g) if what == "time point" else g for g in means.index]
            rows = [[name, int(n), float(v)] for name, n, v in zip(named, means["cells"], means[0], strict=True)]
            tables.append(table(f"Speed by {what}", [what, "cells", "mean speed"], rows))
    part.body.append(beside(*shown, stacked(*tables, paragraph(*unit, class_="note"))))
    return part
