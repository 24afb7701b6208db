"""What is said where an optional package is missing, and of things that are not what they should be."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from helpers import assert_same
from scipy import sparse
from scipy.sparse.linalg import aslinearoperator

import scjko as sj
from scjko.core.transport import Partial


@pytest.mark.parametrize("kernel", [sj.external.cellrank.velocity_kernel, sj.external.cellrank.realtime_kernel])
def test_a_missing_package_is_named_with_its_extra(fitted, monkeypatch, kernel):
    monkeypatch.setitem(sys.modules, "cellrank", None)
    before = fitted.copy()
    with pytest.raises(ImportError, match=r"cellrank cannot be imported.*pip install 'scjko\[interop\]'"):
        kernel(fitted)
    assert_same(fitted, before)


def test_for_cellrank_a_cell_without_partners_has_those_of_the_nearest(rng):
    """CellRank itself would send it to all cells alike."""
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    x[3] = 100
    coupling = Partial().solve(x, y)
    assert 3 not in coupling.source
    whole = sj.external.cellrank._of_every_cell(coupling, x)
    rows, before = (sparse.coo_matrix((c.weight, (c.source, c.target)), c.shape).toarray() for c in (whole, coupling))
    assert (rows.sum(axis=1) > 0).all()
    had = before.sum(axis=1) > 0
    np.testing.assert_array_equal(rows[had], before[had])
    near = np.flatnonzero(had)[np.argmin(np.sum((x[had] - x[3]) ** 2, axis=1))]
    np.testing.assert_array_equal(rows[3], before[near])
    assert sj.external.cellrank._of_every_cell(whole, x) is whole


def test_what_is_no_problem_of_moscot_is_said():
    with pytest.raises(ValueError, match="must be a solved problem of moscot, but it is none"):
        sj.external.moscot.couplings(42)


def test_an_operator_of_another_shape_is_named(adata):
    before = adata.copy()
    couplings = dict.fromkeys([(0, 1), (1, 2), (2, 4), (4, 7)], aslinearoperator(np.ones((2, 3))))
    with pytest.raises(ValueError, match=r"The coupling \(0, 1\) has shape \(2, 3\)"):
        sj.tl.fit_energy(adata, "day", coupling=couplings, progress=False)
    assert_same(adata, before)


def test_of_mudata_a_modality_is_asked_for(adata):
    class MuData:
        mod = {"rna": adata, "atac": adata}

    with pytest.raises(TypeError, match="not MuData; pass one of its modalities: 'rna', 'atac'"):
        sj.tl.fit_energy(MuData(), "day")


def test_fates_go_where_cellrank_looks_for_them(fitted):
    with pytest.raises(KeyError, match=r"run sj\.tl\.fates"):
        sj.external.cellrank.lineages(fitted)
    sj.tl.fates(fitted, "fate")
    sj.external.cellrank.lineages(fitted)
    np.testing.assert_array_equal(fitted.obsm["lineages_fwd"], fitted.obsm["jko_fates"])
    states = fitted.obs["term_states_fwd"]
    assert list(states.cat.categories) == list(fitted.obsm["jko_fates"].columns)
    assert states.notna().to_numpy().tolist() == (fitted.obs["day"] == 7).tolist()
    assert len(fitted.uns["term_states_fwd_colors"]) == 3
