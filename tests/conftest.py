from __future__ import annotations

import os
from pathlib import Path

import jax
import matplotlib
import numpy as np
import pytest
from anndata import AnnData
from generated import CASES
from helpers import simulate
from hypothesis import HealthCheck, Phase, settings

import scjko as sj

matplotlib.use("Agg")
# Arrays of mixed rank are where numeric code goes wrong silently: in tests they are errors. (Mixed types cannot be:
# optax raises floats to integer powers.)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Cases of properties: some in `make test`, always the same, and many in `make test-nightly`, others for each SEED.
# What takes time is to compile, the first case of a shape, so that no deadline makes sense.
slow = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]
phases = [Phase.explicit, Phase.generate]  # to shrink takes minutes, and recipes are small as they are
shared = settings(deadline=None, database=None, suppress_health_check=slow, phases=phases)
settings.register_profile("test", shared, derandomize=True)
settings.register_profile("nightly", shared)
settings.load_profile("test")


def pytest_sessionfinish(session):
    """A worker hands its count of generated cases to the process that reports."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cases"] = dict(CASES)


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_testnodedown(node):
    for kind, count in getattr(node, "workeroutput", {}).get("cases", {}).items():
        CASES[kind] += count


def pytest_terminal_summary(terminalreporter):
    """Say how many cases were generated, and of the tests of a nightly run how many there were."""
    told = []
    if CASES["tried"]:
        told.append(f"generated cases: {CASES['tried']} tried, {CASES['failed']} failed")
    ran = {kind: terminalreporter.getreports(kind) for kind in ("passed", "failed", "error")}
    night = {
        kind: sum("nightly" in getattr(report, "keywords", ()) for report in reports) for kind, reports in ran.items()
    }
    if any(night.values()):
        told.append(f"nightly tests: {sum(night.values())} tried, {night['failed'] + night['error']} failed")
    for line in told:
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def _simulated() -> AnnData:
    return simulate()


@pytest.fixture(scope="session")
def _fitted() -> AnnData:
    adata = simulate(1500)
    sj.tl.fit_energy(adata, "day", use_rep="X_latent", progress=False)
    return adata


@pytest.fixture
def adata(_simulated: AnnData) -> AnnData:
    """A small simulated time course with its PCA, to do anything with."""
    return _simulated.copy()


@pytest.fixture
def fitted(_fitted: AnnData) -> AnnData:
    """A simulated time course with a default fit in its true latent space."""
    return _fitted.copy()


@pytest.fixture
def mixed_ranks():
    """Arrays of mixed rank are allowed: OTT has them."""
    jax.config.update("jax_numpy_rank_promotion", "allow")
    yield
    jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data, which is not part of the project."""
    folder = Path(os.environ.get("SCJKO_DATA", Path(__file__).parents[2] / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no real data at {folder}; set SCJKO_DATA to the folder that has them")
    return folder
