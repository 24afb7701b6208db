"""The same seed on one thread and on all there are: the same bits, or what is not promised, the same up to rounding."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import anndata
import numpy as np
import pytest

import scjko as sj
from scjko.core.energy.specification import TERMS
from scjko.core.transport import SOLVERS, couple

pytestmark = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processes cannot be tied to a core here")

#: Fits that are the same to the bit; the first by day.
EXACT = ("default", "linear")
MORE_EXACT = ("internal", "all linear", "implicit")
#: Fits whose sums XLA divides among its threads: of many rows at a time, as an interaction has, or of wide layers.
ROUNDED = ("interaction", "wide")
QUICK, LINEAR = sj.Neural(epochs=3), sj.Linear(degree=3, n_centers=9)
FITS = {
    "default": {"parametrization": QUICK},
    "linear": {"parametrization": LINEAR, "n_pcs": 2},
    "internal": {"parametrization": QUICK, "terms": ("potential", "internal"), "n_pcs": 2},
    "all linear": {"parametrization": LINEAR, "n_pcs": 2, "terms": TERMS},
    "implicit": {"parametrization": QUICK, "scheme": "implicit", "n_pcs": 2},
    "interaction": {"parametrization": sj.Neural(epochs=20), "n_pcs": 2, "terms": TERMS},
    "wide": {"parametrization": sj.Neural(epochs=20, layers=(256, 256), batch_size=1000)},
}
COUPLINGS = {**{name: kind() for name, kind in SOLVERS.items()}, "batched": sj.Batched(size=50)}
COUPLINGS["sinkhorn"] = sj.Sinkhorn(epsilon=0.1)


def results(adata, names, fits):
    """Couplings by every solver, and the fields of fits, as arrays by name."""
    x = adata.obsm["X_latent"].astype(np.float64)
    points = [x[adata.obs["day"] == day] for day in (2, 4)]
    found = {}
    for name in names:
        (plan,) = couple(points, solve=COUPLINGS[name])
        found[name] = np.stack([plan.source, plan.target, plan.weight])
    for name in fits:
        made = sj.tl.fit_energy(adata, "day", progress=False, copy=True, **FITS[name])
        for field in ("jko_velocity", "jko_predicted"):
            found[f"{name} {field}"] = made.obsm[field]
        found[f"{name} jko_potential"] = made.obs["jko_potential"].to_numpy()
        found[f"{name} loss"] = made.uns["jko"]["history"]["loss"]
    return found


ONE_THREAD = """
import os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"
import anndata, json, numpy as np
sys.path.insert(0, sys.argv[1])
import test_threads
names, fits = json.loads(sys.argv[4])
np.savez(sys.argv[3], **test_threads.results(anndata.read_h5ad(sys.argv[2]), names, fits))
"""


def on_one_thread(adata, tmp_path, names, fits):
    adata.write_h5ad(tmp_path / "cells.h5ad")
    arguments = [os.path.dirname(__file__), tmp_path / "cells.h5ad", tmp_path / "out.npz", json.dumps([names, fits])]
    subprocess.run([sys.executable, "-c", ONE_THREAD, *map(str, arguments)], check=True, capture_output=True)
    return np.load(tmp_path / "out.npz"), results(anndata.read_h5ad(tmp_path / "cells.h5ad"), names, fits)


CASES = [
    pytest.param(("exact", "multiscale", "batched"), EXACT, id="default"),
    pytest.param(tuple(SOLVERS), MORE_EXACT, id="more", marks=pytest.mark.nightly),
]


@pytest.mark.usefixtures("mixed_ranks")
@pytest.mark.parametrize(("names", "fits"), CASES)
def test_couplings_and_fits_are_the_same_to_the_bit(adata, tmp_path, names, fits):
    one, many = on_one_thread(adata, tmp_path, names, fits)
    assert set(one) == set(many) and len(many) == len(names) + 4 * len(fits)
    for name, values in many.items():
        np.testing.assert_array_equal(one[name], values, err_msg=name)


@pytest.mark.nightly
def test_interactions_of_networks_and_wide_layers_are_the_same_up_to_rounding(adata, tmp_path):
    one, many = on_one_thread(adata, tmp_path, [], ROUNDED)
    for name, values in many.items():
        # Float32 sums in another order, amplified by a hundred updates.
        np.testing.assert_allclose(one[name], values, rtol=0, atol=1e-3 * np.abs(values).max(), err_msg=name)
    again = results(adata, [], ROUNDED)
    for name, values in many.items():
        np.testing.assert_array_equal(again[name], values, err_msg=f"{name}, twice on as many threads")
