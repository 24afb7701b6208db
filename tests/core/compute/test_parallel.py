"""Work side by side: on threads, on several devices, and on a Dask cluster that loses a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from threadpoolctl import threadpool_info

import scjko as sj
from scjko.core.compute import parallel
from scjko.core.compute.parallel import check_client, one_thread, side_by_side
from scjko.core.transport import couple


def test_linear_algebra_is_kept_to_one_thread_and_let_go_again():
    def threads():
        return [library["num_threads"] for library in threadpool_info()]

    parallel._libraries.cache_clear()  # other tests may have loaded more of them since they were looked for
    before = threads()
    with one_thread():
        assert set(threads()) == {1}
    assert threads() == before


def test_overlapping_limits_end_with_the_last_of_them():
    def threads():
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before, inside, leave = threads(), threading.Event(), threading.Event()

    def other():
        with one_thread():
            inside.set()
            leave.wait(10)

    thread = threading.Thread(target=other)
    with one_thread():
        thread.start()
        assert inside.wait(10)
    assert set(threads()) == {1}, "the other thread is not done"
    leave.set()
    thread.join()
    assert threads() == before


def test_results_stand_in_the_order_of_the_items():
    done = []
    found = side_by_side(lambda k: (time.sleep(0.02 * (3 - k)), k)[1], range(4), lambda: done.append(1))
    assert found == [0, 1, 2, 3] and len(done) == 4


def most_at_once(**options):
    """The largest number of six pieces of work that were under way at the same time."""
    under_way, most, lock = [0], [0], threading.Lock()

    def work(_):
        with lock:
            under_way[0] += 1
            most[0] = max(most[0], under_way[0])
        time.sleep(0.02)
        with lock:
            under_way[0] -= 1

    side_by_side(work, range(6), **options)
    return most[0]


def test_no_more_are_under_way_than_at_once_says():
    assert most_at_once(at_once=1) == 1


def test_by_default_as_many_are_under_way_as_this_process_has_cores(monkeypatch):
    for cores in (1, 3):
        monkeypatch.setattr(parallel, "n_cores", lambda cores=cores: cores)
        assert most_at_once() == cores


def test_an_error_of_one_is_that_of_all():
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda k: 1 / k, [1, 0, 2])


DEVICES = """
import sys
import numpy as np, jax
import scjko as sj
assert len(jax.devices()) == 4
adata = sj.datasets.simulated(400)
options = dict(use_rep="X_latent", progress=False, terms=("potential", "interaction"))
found = []
for n_devices in (1, None):  # all, by default
    sj.tl.fit_energy(adata, "day", parametrization=sj.Neural(epochs=2, layers=(16, 16), n_devices=n_devices), **options)
    found.append(adata.obsm["jko_predicted"].copy())
moved = np.abs(found[0] - adata.obsm["X_jko"]).max()
# Sums over four parts are rounded otherwise than sums over one: float32, a few hundred updates.
print(np.abs(found[0] - found[1]).max() / moved)
try:
    sj.tl.fit_energy(adata, "day", parametrization=sj.Neural(epochs=3, n_devices=5), **options)
except ValueError as error:
    assert "n_devices=5, but JAX has 4" in str(error)
else:
    sys.exit("five devices of four")
"""


def test_four_devices_share_the_batches_and_give_the_same_fit():
    """With a batch size, 250, that four do not divide, and with random partners."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run([sys.executable, "-c", DEVICES], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    assert float(done.stdout) < 1e-3


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        yield client


def test_a_fit_on_a_cluster_is_the_same(adata, client):
    options = {"use_rep": "X_latent", "parametrization": sj.Neural(epochs=5), "progress": False}
    here = sj.tl.fit_energy(adata, "day", copy=True, **options)
    there = sj.tl.fit_energy(adata, "day", copy=True, client=client, **options)
    np.testing.assert_array_equal(here.obsm["jko_predicted"], there.obsm["jko_predicted"])
    assert "client" not in there.uns["jko"]["params"]


def course(n_snapshots):
    """Snapshots whose couplings are cut into several blocks, with unequal weights."""
    rng = np.random.default_rng(0)
    points = [rng.normal(size=(2400 - 100 * k, 6)) * (1 + 0.3 * k) + 0.5 * k for k in range(n_snapshots)]
    return points, [rng.uniform(0.5, 2, size=len(x)) for x in points]


def assert_same_couplings(ones, others):
    assert len(ones) == len(others)
    for one, other in zip(ones, others, strict=True):
        for name in ("source", "target", "weight"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        for mine, theirs in zip(one.duals, other.duals, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        assert (one.cost, one.bound, one.dropped) == (other.cost, other.bound, other.dropped)


@pytest.mark.parametrize("solver", [sj.Multiscale(), sj.Exact(), sj.Partial(price=1.5)], ids=lambda solver: solver.name)
def test_large_couplings_on_a_cluster_are_the_same_to_the_bit(client, solver):
    points, weights = course(3)
    here, there = (couple(points, weights, solver, client=where) for where in (None, client))
    assert_same_couplings(here, there)


def test_a_worker_that_is_killed_loses_no_coupling(client):
    """It is killed when a coupling is done: that may be one it held, and others are under way."""
    points, weights = course(6)
    before, killed = list(client.run(os.getpid).values()), []

    def kill():
        if not killed:
            killed.append(before[0])
            os.kill(before[0], signal.SIGKILL)

    there = couple(points, weights, sj.Multiscale(), kill, client=client)
    assert_same_couplings(couple(points, weights, sj.Multiscale()), there)
    assert killed and killed[0] not in client.run(os.getpid).values()


def test_a_validation_on_a_cluster_is_the_same(adata, client):
    options = {"use_rep": "X_latent", "parametrization": sj.Neural(epochs=3), "n_splits": 2, "progress": False}
    here = sj.tl.validate(adata, "day", **options)
    there = sj.tl.validate(adata, "day", client=client, **options)
    np.testing.assert_array_equal(here["method"], there["method"])
    # Two processes on one machine: the same programs, to the bit.
    np.testing.assert_allclose(here["emd"], there["emd"], rtol=1e-6)


def test_a_worker_that_is_killed_does_not_lose_the_run(client):
    def work(k: int) -> tuple[int, int]:
        import os
        import time

        time.sleep(0.5)
        return k, os.getpid()

    workers = list(client.run(os.getpid).values())
    killer = threading.Timer(0.7, os.kill, (workers[0], signal.SIGKILL))
    killer.start()
    found = side_by_side(work, range(6), client=client)
    killer.join()
    assert [k for k, _ in found] == list(range(6))
    assert {pid for _, pid in found} != set(workers), "nobody was killed"


def test_a_client_that_cannot_do_the_work_is_named(client, monkeypatch):
    with pytest.raises(TypeError, match=r"must be a distributed\.Client, not str"):
        check_client("localhost:8786")

    class Client:
        answers: dict = {}
        submit = gather = scheduler_info = None

        def run(self, function):
            return self.answers

    with pytest.raises(ValueError, match="without workers"):
        check_client(Client())
    Client.answers = {"tcp://a": True, "tcp://b": False}
    with pytest.raises(ValueError, match="not installed on 1 of 2 workers of the client, such as tcp://b"):
        check_client(Client())
    check_client(client)
