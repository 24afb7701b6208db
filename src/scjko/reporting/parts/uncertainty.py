"""Uncertainty: how far the cells determine the potential and the velocities."""

from __future__ import annotations

import numpy as np

from ..markup import paragraph, percent, table
from ..subject import Part, Subject, by_group


def uncertainty(subject: Subject) -> Part:
    """Standard deviations over the members of the energy, by time point."""
    part = Part("uncertainty", "How sure?")
    keys, adata, energy = subject.keys, subject.adata, subject.cells.energy
    names = keys.potential_std in adata.obs and keys.velocity_std in adata.obsm and keys.velocity in adata.obsm
    if not names:
        part.missing["standard deviations"] = (
            "sj.tl.fit_energy(..., parametrization=sj.Stacked(network=sj.Neural(n_members=8)))"
        )
        return part
    speed, noise = (np.linalg.norm(adata.obsm[name], axis=1) for name in (keys.velocity, keys.velocity_std))
    sure = speed > noise
    part.body.append(
        paragraph(
            f"The energy is the mean of {len(energy.members)} members, each fitted to half of the cells. Their spread "
            f"gives standard deviations. The velocity of {percent(float(sure.mean()))} of the cells exceeds its "
            "standard deviation; elsewhere it may be chance. Errors that all repeats of the experiment would share are "
            "not included."
        )
    )
    values = np.stack([adata.obs[keys.potential_std].to_numpy(dtype=np.float64), speed, noise, sure], axis=1)
    means = by_group(values, subject.cells.times)
    rows = [
        [subject.time(t), int(row[0]), float(row[1]), float(row[2]), float(row[3]), percent(float(row[4]))]
        for t, row in zip(means.index, means.to_numpy(), strict=True)
    ]
    columns = ["time", "cells", "std. of the potential", "speed", "std. of the velocity", "velocity above its std."]
    part.body.append(table("Standard deviations, means over the cells of each time point", columns, rows))
    return part
