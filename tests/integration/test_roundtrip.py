"""Fits that are written to a file and read back by another process."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import scjko as sj

SUFFIXES = ("h5ad", "zarr")
READ_BACK = """
import sys
import anndata, numpy as np
import scjko as sj

found = {}
for path in sys.argv[2:]:
    adata = anndata.read_zarr(path) if path.endswith(".zarr") else anndata.read_h5ad(path)
    energy = sj.get.energy(adata)
    x, t = adata.obsm["X_jko"], adata.obs["day"].to_numpy()
    answers = dict(
        potential=energy.potential(x, t),
        gradient=energy.gradient(x, t),
        step=energy.step(x, 0.5, 9.0),
        back=energy.step(x, 7.0, 0.0),
        implicit=energy.step(x, 1.0, 2.0, scheme="implicit"),
        predicted=sj.tl.predict(adata, 3).obsm["X_jko"],
        stored=adata.obsm["jko_predicted"],
    )
    suffix = path.rpartition(".")[2]
    found |= {f"{suffix} {name}": values for name, values in answers.items()}
np.savez(sys.argv[1], **found)
"""


def test_a_fit_read_back_in_a_new_process_is_the_same_to_the_bit(fitted, tmp_path):
    paths = [tmp_path / f"fit.{suffix}" for suffix in SUFFIXES]
    fitted.write_h5ad(paths[0])
    fitted.write_zarr(paths[1])
    subprocess.run([sys.executable, "-c", READ_BACK, *map(str, [tmp_path / "out.npz", *paths])], check=True)
    there = np.load(tmp_path / "out.npz")
    energy = sj.get.energy(fitted)
    x, t = fitted.obsm["X_jko"], fitted.obs["day"].to_numpy()
    here = {
        "potential": energy.potential(x, t),
        "gradient": energy.gradient(x, t),
        "step": energy.step(x, 0.5, 9.0),
        "back": energy.step(x, 7.0, 0.0),
        "implicit": energy.step(x, 1.0, 2.0, scheme="implicit"),
        "predicted": sj.tl.predict(fitted, 3).obsm["X_jko"],
        "stored": fitted.obsm["jko_predicted"],
    }
    assert set(there) == {f"{suffix} {name}" for suffix in SUFFIXES for name in here}
    for suffix in SUFFIXES:
        for name, values in here.items():
            np.testing.assert_array_equal(there[f"{suffix} {name}"], values, err_msg=f"{suffix} {name}")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_everything_written_comes_back(adata, tmp_path, suffix):
    import anndata

    path = tmp_path / f"fit.{suffix}"
    adata.obs["stage"] = adata.obs["day"].map({0: "a/b", 1: "b", 2: "c", 4: "d", 7: "e"})
    sj.tl.fit_energy(
        adata,
        "stage",
        time_values={"a/b": 0, "b": 1, "c": 2, "d": 4, "e": 7},
        whiten=True,
        parametrization=sj.Neural(epochs=2, layers=(8,)),
        progress=False,
    )
    adata.write_zarr(path) if suffix == "zarr" else adata.write_h5ad(path)
    back = anndata.read_zarr(path) if suffix == "zarr" else anndata.read_h5ad(path)

    def compare(one, other, where):
        if isinstance(one, dict):
            assert set(one) == set(other), where
            for name in one:
                compare(one[name], other[name], f"{where}/{name}")
        else:
            np.testing.assert_array_equal(np.asarray(one, object), np.asarray(other, object), err_msg=where)

    compare(adata.uns["jko"], back.uns["jko"], "uns/jko")
    for name in ("X_jko", "jko_velocity", "jko_predicted"):
        assert back.obsm[name].dtype == adata.obsm[name].dtype
        np.testing.assert_array_equal(back.obsm[name], adata.obsm[name])
    np.testing.assert_array_equal(
        sj.tl.predict(back, "d", source="a/b").obsm["X_jko"], sj.tl.predict(adata, 4, source=0).obsm["X_jko"]
    )
