"""Genes: tables of drivers, trends and perturbations, as they are stored."""

from __future__ import annotations

import pandas as pd

from ... import tl
from ..markup import frame_table
from ..subject import Part, Subject

#: The tool, what its table has, and how many rows are shown.
TABLES = (
    ("drivers", "Genes that go with a fate or with the motion", 20),
    ("trends", "Genes over time", 10),
    ("perturb", "Effects of perturbed genes", 10),
)


def genes(subject: Subject) -> Part:
    """The first rows of each table."""
    part = Part("genes", "Genes")
    for tool, caption, most in TABLES:
        name = f"{subject.keys.key}_{tool}"
        if name not in subject.adata.uns:
            if tool in tl.__all__:
                part.missing[tool] = subject.call(tool, "...")
            continue
        frame = subject.adata.uns[name]
        if not isinstance(frame, pd.DataFrame):
            raise ValueError(f"adata.uns[{name!r}] is not a table; compute it again, or delete it to leave it out.")
        part.body.append(frame_table(caption, frame, most, f'uns["{name}"]'))
    return part
