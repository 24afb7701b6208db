"""The real MuData: a modality is an AnnData like any other. ``make test-interop`` installs it."""

from __future__ import annotations

import pytest

import scjko as sj

mudata = pytest.importorskip("mudata", reason="MuData is not installed; make test-interop has it")


@pytest.mark.filterwarnings("default")  # warnings of MuData are its own
def test_a_modality_is_fitted_and_the_whole_is_an_error(adata):
    data = mudata.MuData({"rna": adata})
    sj.tl.fit_energy(data["rna"], "day", 3, parametrization=sj.Neural(epochs=2), progress=False)
    assert data["rna"].obsm["jko_velocity"].shape == (400, 3)
    with pytest.raises(TypeError, match="not MuData; pass one of its modalities: 'rna'"):
        sj.tl.fit_energy(data, "day")
