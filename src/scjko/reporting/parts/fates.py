"""Fates: what becomes of which cell."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ... import pl
from ..figures import figure
from ..markup import Html, beside, paragraph, percent, stacked, table
from ..subject import Part, Subject, by_group


def fates(subject: Subject) -> Part:
    """Probabilities of fates on the cells, over time, and by time point and cell type."""
    keys, adata = subject.keys, subject.adata
    part = Part("fates", "Fates")
    if keys.fates not in adata.obsm or keys.fates not in adata.uns:
        part.missing["fates"] = subject.call(
            "fates", repr(subject.cluster_key) if subject.cluster_key else "cluster_key=..."
        )
        return part
    found = adata.obsm[keys.fates]
    if not isinstance(found, pd.DataFrame):
        raise ValueError(
            f"adata.obsm[{keys.fates!r}] is not the result of sj.tl.fates; run it again, or delete it to leave it out."
        )
    part.body.append(_sentence(subject, found))
    if subject.plane:
        said = "The probability of each fate, given that a cell has descendants in one."
        part.body.append(figure(said, "Probabilities of fates", pl.fates, adata, **subject.drawn))
    over = "The probability of their most probable fate among the cells that have it: mean and middle half."
    course = figure(over, "Probabilities over time", pl.fates, adata, kind="time", key=keys.key)
    means = [_means(subject, found, what, groups) for what, groups in _groups(subject)]
    part.body.append(beside(course, stacked(*means)))
    return part


def _sentence(subject: Subject, found: pd.DataFrame) -> Html:
    keys, obs = subject.keys, subject.adata.obs
    first = subject.cells.times == subject.cells.times.min()
    said = [f"There are {len(subject.adata.uns[keys.fates]['names'])} fates."]
    if keys.unassigned in obs:
        reached = 1 - obs[keys.unassigned].to_numpy(dtype=np.float64)
        share = percent(float(reached[first].mean()))
        said.append(f"Of the descendants of the cells at {subject.time(subject.cells.times.min())}, {share} reach one.")
        lost = int(np.sum(reached <= 0))
        if lost:
            said.append(f"{lost:,} of {len(obs):,} cells reach none.")
    if keys.commitment in obs:
        median = float(obs[keys.commitment].to_numpy(dtype=np.float64)[first].mean())
        said.append(
            f"The mean commitment of those cells is {median:.2g}: 0 if all fates are as probable, 1 if one is certain."
        )
    if keys.fates_std in subject.adata.obsm:
        error = float(np.mean(np.asarray(subject.adata.obsm[keys.fates_std], dtype=np.float64)))
        said.append(
            f"Probabilities have a standard deviation of {error:.2g} on average, by how far the cells determine them."
        )
    return paragraph(" ".join(said))


def _groups(subject: Subject) -> list[tuple[str, object]]:
    types = subject.types()
    return [("time point", subject.cells.times), *([("cell type", types)] if types is not None else [])]


def _means(subject: Subject, found: pd.DataFrame, what: str, groups: object) -> Html:
    means = by_group(found.to_numpy(dtype=np.float64), groups)
    rows = [
        [subject.time(g) if what == "time point" else g, int(row[0]), *(f"{v:.2f}" for v in row[1:])]
        for g, row in zip(means.index, means.to_numpy(), strict=True)
    ]
    return table(f"Mean probability of each fate by {what}", [what, "cells", *map(str, found.columns)], rows)
