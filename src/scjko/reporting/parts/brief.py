"""The data in brief."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...core.judging.names import listed
from ..markup import Html, code, joined, paragraph, table, tiles
from ..subject import Part, Subject

#: Terms beside the potential in words.
WORDS = {"interaction": "an interaction between cells", "internal": "an internal energy"}


def brief(subject: Subject) -> Part:
    """How many cells there are, of which time points and types, and what was fitted."""
    cells, types = subject.cells, subject.types()
    times = np.unique(cells.times)
    told: dict[str, object] = {"cells": f"{cells.adata.n_obs:,}", "time points": len(times)}
    if cells.adata.n_vars:
        told["genes"] = f"{cells.adata.n_vars:,}"
    told["components fitted"] = cells.coordinates.shape[1]
    if types is not None:
        told["cell types"] = f"{subject.adata.obs[subject.cluster_key].nunique():,}"
    return Part("data", "The data", [tiles(told), _sentence(subject), _by_time(subject, times, types)])


def _sentence(subject: Subject) -> Html:
    params, options = subject.cells.params, subject.cells.options
    n, rep = subject.cells.coordinates.shape[1], code(f'obsm["{params["use_rep"]}"]')
    said = [f"The fit uses {n} component{'s' * (n != 1)} of ", rep, ", each standardised" if options.whiten else ""]
    said += [" and times from ", code(f'obs["{subject.cells.time_key}"]')]
    if options.weight_key is not None:
        said += [", weighted by ", code(f'obs["{options.weight_key}"]')]
    static = subject.cells.energy.potential_term.variation.static
    first = f"a potential that {'is the same at all times' if static else 'changes over time'}"
    terms = [first, *(WORDS.get(term, term) for term in subject.cells.energy.terms if term != "potential")]
    said.append(f". The energy consists of {listed(terms)}.")
    fitted = int(subject.stored["couplings"]["n_source"].sum() + subject.stored["couplings"]["n_target"][-1])
    if fitted != subject.adata.n_obs:
        said.append(f" The fit was one of {fitted:,} cells; this report shows {subject.adata.n_obs:,} of its own.")
    return paragraph(*said)


def _by_time(subject: Subject, times: np.ndarray[tuple[int], np.dtype[np.float64]], types: pd.Series | None) -> Html:
    at = subject.cells.times
    if types is None:
        rows = [[subject.time(t), int(np.sum(at == t))] for t in times]
        return table("Cells of each time point", ["time", "cells"], rows)
    counts = pd.crosstab(at, types.to_numpy(), dropna=False).reindex(columns=list(types.cat.categories), fill_value=0)
    rows = [[subject.time(t), int(np.sum(at == t)), *map(int, counts.loc[t])] for t in times]
    caption = joined(["Cells of each time point, by ", code(f'obs["{subject.cluster_key}"]')])
    return table(caption, ["time", "cells", *types.cat.categories], rows)
