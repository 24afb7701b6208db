"""A report of everything, with hostile names."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import scjko as sj

#: Names as only an attacker would have them; none with "/", which h5ad files reserve.
HOSTILE = ["<script>window.hacked=1;", "\"'><img src=x onerror=window.hacked=1>", "$\\frac{1}$ & \x00\u202e"]


@pytest.fixture(scope="session")
def hostile():
    """The names."""
    return HOSTILE


@pytest.fixture(scope="session")
def full():
    """A fit with all that a report can have, and hostile names of types, genes and columns."""
    adata = sj.datasets.simulated(300)
    adata.obs["<b>type<b>"] = adata.obs["fate"].cat.rename_categories(HOSTILE)
    model = sj.Linear(degree=2, n_centers=5, ridge=0.01, n_members=2)
    sj.tl.fit_energy(adata, "day", parametrization=model, growth="auto", use_rep="X_latent", progress=False)
    sj.tl.fates(adata, "<b>type<b>")
    sj.tl.landscape(adata, [4, 7], cluster_key="<b>type<b>", paths=False)
    line = sj.Linear(degree=1, n_centers=0, ridge=0.01)
    sj.tl.validate(adata, protocol="last", growth=None, parametrization=line, progress=False)
    columns = {"gene": HOSTILE * 10, "effect": 1.5, "error": np.nan, "p": 1e-9, "q": 0.25}
    columns |= {f"column {k}": 0.5 for k in range(20)}
    adata.uns["jko_drivers"] = pd.DataFrame(columns)
    return adata


@pytest.fixture(scope="session")
def page(full, tmp_path_factory):
    """The report of all of it."""
    return sj.report(full, tmp_path_factory.mktemp("report") / "<b>fit.html", title="<script>window.hacked=1;")
