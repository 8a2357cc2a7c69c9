"""The limits that a container sets: processor time and memory, of control groups v1 and v2."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED_BYTES = 2**60  # v1 writes a number near 2^63 where there is no limit


def cpu_quota(root: Path = ROOT, membership: Path = MEMBERSHIP) -> float | None:
    """Return how many cores' worth of time this process may use, None without a limit."""
    quotas = []
    for folder in _folders("cpu", root, membership):
        limit = _words(folder / "cpu.max")
        quota = limit or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
        if len(quota) == 2 and quota[0].isdecimal():  # else "max" or -1
            quotas.append(int(quota[0]) / int(quota[1]))
    return min(quotas, default=None)


def memory_limit(root: Path = ROOT, membership: Path = MEMBERSHIP) -> int | None:
    """Return how many bytes this process and its neighbours may use, None without a limit."""
    limits = []
    for folder in _folders("memory", root, membership):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limits += [int(word) for word in _words(folder / name) if word.isdecimal()]
    return min((limit for limit in limits if limit < _UNLIMITED_BYTES), default=None)


def _folders(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """The folders whose limits hold for this process: its own group's and those above it."""
    for line in membership.read_text().splitlines() if membership.is_file() else ():
        number, controllers, group = line.split(":", 2)
        if number == "0":
            top = root
        elif controller in controllers.split(","):
            top = root / controllers
        else:
            continue
        folder = top / group.lstrip("/")
        while True:
            if ".." not in folder.parts:  # a group outside of what this container sees
                yield folder
            if folder == top:
                break
            folder = folder.parent


def _words(file: Path) -> list[str]:
    return file.read_text().split() if file.is_file() else []
