"""Cores and memory that this process may use: those of the machine, within the limits of its cgroups and affinity.

Containers and batch systems limit a process by Linux control groups (cgroups), of version 1 or 2. The limits of all
groups around a group hold for it too, so the smallest counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

#: Where the files of the system stand; tests put others in their place.
ROOT = Path("/")
#: Bytes of memory assumed where the system does not say, as on Windows.
UNKNOWN_MEMORY = 8 * 2**30


def n_cores(root: Path = ROOT) -> int:
    """The number of cores that this process may keep busy, at least one.

    Of a quota of 1.5 cores one is counted: more threads than the quota allows are stopped in turn.
    """
    return max(1, min([affinity(), *map(int, cpu_quotas(root))]))


def machine_memory(root: Path = ROOT) -> int:
    """Bytes of memory that this process may use."""
    return min([physical_memory(), *memory_limits(root)])


def affinity() -> int:
    """The number of cores on which the system may run this process."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS and Windows
        return os.cpu_count() or 1


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):  # Windows
        return UNKNOWN_MEMORY


def cpu_quotas(root: Path) -> list[float]:
    """Cores that each cgroup around this process may use, where it is limited."""
    return [quota for folder in cgroups(root, "cpu") if (quota := _cpu_quota(folder)) is not None]


def memory_limits(root: Path) -> list[int]:
    """Bytes that each cgroup around this process may use, where it is limited."""
    files = [folder / name for folder in cgroups(root, "memory") for name in ("memory.max", "memory.limit_in_bytes")]
    return [values[0] for file in files if (values := _numbers(file))]


def cgroups(root: Path, controller: str) -> Iterator[Path]:
    """The folders of the cgroups of this process that hold the limits of ``controller``, and of all around them."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:  # not Linux
        return
    mounts = root / "sys/fs/cgroup"
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if not controllers:  # version 2; "unified" where both versions are mounted
            folders = [mounts, mounts / "unified"]
        elif controller in controllers.split(","):
            folders = [mounts / name for name in dict.fromkeys((controller, controllers))]
        else:
            continue
        # A container may see its own group as the outermost: then the path does not exist below, and only the folder
        # itself has files. A path that starts above it goes through "..".
        inner = PurePosixPath(*(part for part in PurePosixPath(path).parts if part not in ("/", "..")))
        yield from (folder / group for folder in folders for group in (inner, *inner.parents))


def _cpu_quota(folder: Path) -> float | None:
    """Cores that the cgroup of this folder may use, or None if it is not limited."""
    both = _numbers(folder / "cpu.max") or _numbers(folder / "cpu.cfs_quota_us") + _numbers(
        folder / "cpu.cfs_period_us"
    )
    return both[0] / both[1] if len(both) == 2 and min(both) > 0 else None  # −1 is no limit


def _numbers(file: Path) -> list[int]:
    """The whole numbers in a file; none if it cannot be read or says "max", which is no limit."""
    try:
        return [int(word) for word in file.read_text().split()]
    except (OSError, ValueError):
        return []
