"""Cores and memory within the limits of containers: cgroups of both versions, faked as files."""

from __future__ import annotations

import os

import pytest

from scjko.core.compute import limits
from scjko.core.compute.limits import affinity, cgroups, machine_memory, n_cores, physical_memory

GB = 2**30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of 16 cores and 64 GB whose files are the ones that are written to it."""
    monkeypatch.setattr(limits, "affinity", lambda: 16)
    monkeypatch.setattr(limits, "physical_memory", lambda: 64 * GB)

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{text}\n")
        return tmp_path

    return write


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        pytest.param({}, 16, 64 * GB, id="no cgroups"),
        pytest.param({"proc/self/cgroup": "0::/"}, 16, 64 * GB, id="no files"),
        pytest.param(
            {
                "proc/self/cgroup": "0::/job/step",
                "sys/fs/cgroup/job/step/cpu.max": "max 100000",
                "sys/fs/cgroup/job/step/memory.max": "max",
            },
            16,
            64 * GB,
            id="no limit",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/",
                "sys/fs/cgroup/cpu.max": "200000 100000",
                "sys/fs/cgroup/memory.max": 4 * GB,
            },
            2,
            4 * GB,
            id="a container of version 2",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/job/step",
                "sys/fs/cgroup/job/step/cpu.max": "800000 100000",
                "sys/fs/cgroup/job/cpu.max": "300000 100000",
                "sys/fs/cgroup/job/memory.max": 8 * GB,
                "sys/fs/cgroup/job/step/memory.max": 12 * GB,
                "sys/fs/cgroup/other/memory.max": 1 * GB,
            },
            3,
            8 * GB,
            id="the group around is the tighter one",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "5:cpuset:/\n4:memory:/job\n3:cpu,cpuacct:/job\n0::/",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": 6 * GB,
                "sys/fs/cgroup/memory/memory.limit_in_bytes": 2**63 - 4096,
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": 400_000,
                "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": 100_000,
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": -1,
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": 100_000,
            },
            4,
            6 * GB,
            id="version 1",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/docker/8f3a\n3:cpu:/docker/8f3a",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": 3 * GB,
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": 100_000,
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": 50_000,
            },
            2,
            3 * GB,
            id="a container of version 1 that sees its own group as the outermost",
        ),
        pytest.param(
            {
                "proc/self/cgroup": "4:memory:/job\n0::/job",
                "sys/fs/cgroup/memory/job/memory.limit_in_bytes": 5 * GB,
                "sys/fs/cgroup/unified/job/cpu.max": "700000 100000",
            },
            7,
            5 * GB,
            id="both versions",
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"}, 1, 64 * GB, id="half a core"
        ),
        pytest.param(
            {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "190000 100000"}, 1, 64 * GB, id="nearly two cores"
        ),
        pytest.param(
            {
                "proc/self/cgroup": "0::/",
                "sys/fs/cgroup/cpu.max": "3200000 100000",
                "sys/fs/cgroup/memory.max": 128 * GB,
            },
            16,
            64 * GB,
            id="more than the machine has",
        ),
    ],
)
def test_cores_and_memory_are_those_of_the_tightest_limit(machine, files, cores, memory):
    root = machine(files)
    assert n_cores(root) == cores
    assert machine_memory(root) == memory


def test_a_path_above_the_mounted_groups_does_not_leave_them(machine):
    root = machine({"proc/self/cgroup": "0::/../../outside:with/colon"})
    assert list(cgroups(root, "memory"))[0] == root / "sys/fs/cgroup/outside:with/colon"
    assert all((root / "sys/fs/cgroup") in (path, *path.parents) for path in cgroups(root, "memory"))


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="there is no affinity to set")
def test_a_process_bound_to_one_core_counts_one():
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(before)})
        assert affinity() == n_cores() == 1
    finally:
        os.sched_setaffinity(0, before)


def test_without_affinity_all_cores_count_and_without_sysconf_8_gb(monkeypatch):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.delattr(os, "sysconf", raising=False)
    assert affinity() == os.cpu_count()
    assert physical_memory() == 8 * GB


def test_this_machine_has_cores_and_memory():
    assert 1 <= n_cores() <= os.cpu_count()
    assert 2**26 < machine_memory() <= physical_memory() < 2**46
