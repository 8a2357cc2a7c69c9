"""Processor, memory, ports and open files, and the limits that a container sets."""

from __future__ import annotations

import os
import platform
import re
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

from endcap.server.settings import PortReservation, ServerPorts, ServerSettings
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.subject import Subject
from endcap.triton.errors import ServerError

_CPU_INFO = Path("/proc/cpuinfo")
# Those for which SIMD code is commonly compiled, on x86-64 and on ARM.
_SIMD = ("sse4_2", "avx2", "avx512f", "avx512bw", "avx512_vbmi", "asimd", "sve", "sve2")
_ENOUGH_FILES = 1024
CPU = Topic(
    name="cpu",
    group=Group.SYSTEM,
    title="CPU",
    meaning="The architecture, its SIMD extensions, and the cores that this process may use.",
    problems={
        "quota": Problem(
            when="The container may use less time than its cores have.",
            severity=Severity.NOTE,
            remedy="give it whole cores (`docker run --cpuset-cpus=0-3`), or lower "
            "intra_op_thread_count (of a Python model intra_op_threads) and `threads` to the quota",
        ),
    },
)
PORTS = Topic(
    name="ports",
    group=Group.SYSTEM,
    title="ports",
    meaning="The ports on which `endcap serve` listens by default are free on 127.0.0.1: 8000 for "
    "HTTP, 8001 for gRPC, 8002 for metrics.",
    problems={
        "taken": Problem(
            when="A port is taken; perhaps a server already runs.",
            severity=Severity.NOTE,
            remedy="end the program that holds it, or `endcap serve REPOSITORY {options}`",
        ),
    },
)
OPEN_FILES = Topic(
    name="open_files",
    group=Group.SYSTEM,
    title="open files",
    meaning="How many files and connections a process may have open; every client takes one.",
    problems={
        "few": Problem(
            when=f"The limit is below {_ENOUGH_FILES}.",
            severity=Severity.WARNING,
            remedy="`ulimit -n 65536`; in Docker `docker run --ulimit nofile=65536`",
        ),
    },
)
_MIB = 2**20
# A container of Docker has 64 MiB by default: too little for one full batch of 640x640.
_ENOUGH_SHARED_BYTES = 256 * _MIB
# The server of the shipped repository and its one stub use 280 MiB under load.
_ENOUGH_BYTES = 512 * _MIB
_SHM_SIZE = (
    "in Docker `docker run --shm-size=1g`, in Kubernetes an emptyDir of medium Memory at {path}"
)
SHARED_MEMORY = Topic(
    name="shared_memory",
    group=Group.SYSTEM,
    title="shared memory",
    meaning="The Python backend hands tensors to its stubs through a file in /dev/shm for each "
    "model instance, which begins with 1 MiB and grows to the largest batch so far. When there is "
    "no more room, requests fail: Failed to increase the shared memory pool size. Wanted is room "
    "for all fixed-size tensors of the Python models at their largest batch, at least 256 MiB.",
    problems={
        "absent": Problem(
            when="The folder is not there.",
            severity=Severity.ERROR,
            remedy="`mount -t tmpfs -o size=1g tmpfs {path}`; " + _SHM_SIZE,
        ),
        "read_only": Problem(
            when="No file can be written there.",
            severity=Severity.ERROR,
            remedy="`mount -o remount,rw {path}`, and `chmod 1777 {path}`; " + _SHM_SIZE,
        ),
        "small": Problem(
            when="Less is free than the models need.",
            severity=Severity.WARNING,
            remedy=_SHM_SIZE + "; elsewhere `mount -o remount,size=1g {path}`; or lower "
            "max_batch_size",
        ),
    },
)
MEMORY = Topic(
    name="memory",
    group=Group.SYSTEM,
    title="memory",
    meaning="What is available, and the limit that the container sets. The server on the shipped "
    "repository takes about 280 MiB.",
    problems={
        "small": Problem(
            when="Less than 512 MiB are available.",
            severity=Severity.WARNING,
            remedy="end other programs, or give the container more: `docker run --memory=2g`",
        ),
    },
)
_CGROUP_ROOT = Path("/sys/fs/cgroup")
_CGROUP_MEMBERSHIP = Path("/proc/self/cgroup")
_UNLIMITED_BYTES = 2**60  # v1 writes a number near 2^63 where there is no limit


def check_cpu(subject: Subject) -> Finding:
    """Check cores and SIMD extensions."""
    flags = re.findall(r"^(?:flags|Features)\s*:\s*(.*)$", _CPU_INFO.read_text(), re.MULTILINE)
    extensions = [name for name in _SIMD if flags and name in flags[0].split()]
    cores = len(os.sched_getaffinity(0))
    quota = cpu_quota()
    found = (
        f"{platform.machine()}, {', '.join(extensions) or 'no SIMD extension known'}; "
        f"{cores} core{'' if cores == 1 else 's'}"
    )
    if quota is not None and quota < cores:
        message = f"threads for {cores} cores share the time of {quota:g}, and wait for it in turn"
        return CPU.problem("quota", f"{found}, quota {quota:g}", message)
    return CPU.ok(found)


def check_ports(subject: Subject) -> Finding:
    """Check that the default ports are free."""
    taken: list[str] = []
    reasons: list[str] = []
    wanted = {name: getattr(subject.ports, name) for name in ("http", "grpc", "metrics")}
    for service, port in wanted.items():
        others_free = {"http": 0, "grpc": 0, "metrics": 0}
        try:
            alone = ServerPorts(**{**others_free, service: port})
            PortReservation(ServerSettings().host, alone).close()
        except ServerError as error:
            taken.append(service)
            reasons.append(reason_of(error))
    if taken:
        return PORTS.problem(
            "taken",
            f"{len(wanted) - len(taken)} of {len(wanted)} free",
            ", ".join(reasons),
            options=" ".join(f"--{service}-port 0" for service in taken),
        )
    return PORTS.ok(f"{', '.join(map(str, wanted.values()))} are free")


def check_open_files(subject: Subject) -> Finding:
    """Check the limit of this process, which a server that it starts inherits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = (
        f"{_format_limit(soft)}, may be raised to {_format_limit(hard)}"
        if soft != hard
        else _format_limit(soft)
    )
    if soft != resource.RLIM_INFINITY and soft < _ENOUGH_FILES:
        return OPEN_FILES.problem("few", found, f"a process may have only {soft} files open")
    return OPEN_FILES.ok(found)


def _format_limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)


def check_shared_memory(subject: Subject) -> Finding:
    """Check the room for tensors of Python models."""
    folder = subject.shared_memory
    if not folder.is_dir():
        return SHARED_MEMORY.problem("absent", "none", f"{folder} is not a folder", path=folder)
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="endcap_doctor_"):
            pass
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror}"
        return SHARED_MEMORY.problem("read_only", "unusable", message, path=folder)
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    found = f"{_mib(space.f_blocks * space.f_frsize)}, {_mib(free)} free"
    in_python = [model for model in subject.models if model.backend == "python"]
    needed = sum(model.tensor_bytes * model.instances for model in in_python)
    if free < max(needed, _ENOUGH_SHARED_BYTES):
        return SHARED_MEMORY.problem(
            "small",
            found,
            f"{_mib(free)} are free in {folder}; Python models should have "
            f"{_mib(max(needed, _ENOUGH_SHARED_BYTES))}, and those of this repository fill "
            f"{_mib(needed)} at their largest batch",
            at_most=Severity.WARNING if in_python else Severity.NOTE,
            path=folder,
        )
    return SHARED_MEMORY.ok(f"{found}; the models fill {_mib(needed)} at their largest batch")


def check_memory(subject: Subject) -> Finding:
    """Check the memory that the server may use."""
    rows = Path("/proc/meminfo").read_text().splitlines()
    kib = {name: int(rest.split()[0]) for name, rest in (row.split(":", 1) for row in rows)}
    total, available = kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024
    limit = memory_limit()
    found = f"{_mib(total)}, {_mib(available)} available"
    if limit is not None:
        found += f", limited to {_mib(limit)}"
    if min(available, limit or available) < _ENOUGH_BYTES:
        return MEMORY.problem("small", found, f"less than {_mib(_ENOUGH_BYTES)} can be used")
    return MEMORY.ok(found)


def _mib(size: int) -> str:
    return f"{-(-size // _MIB)} MiB"


def cpu_quota(root: Path = _CGROUP_ROOT, membership: Path = _CGROUP_MEMBERSHIP) -> float | None:
    """Return the number of cores whose time this process may use, None without a limit."""
    quotas = []
    for folder in _cgroup_folders("cpu", root, membership):
        limit = _words(folder / "cpu.max")
        quota = limit or _words(folder / "cpu.cfs_quota_us") + _words(folder / "cpu.cfs_period_us")
        if len(quota) == 2 and quota[0].isdecimal():  # else "max" or -1
            quotas.append(int(quota[0]) / int(quota[1]))
    return min(quotas, default=None)


def memory_limit(root: Path = _CGROUP_ROOT, membership: Path = _CGROUP_MEMBERSHIP) -> int | None:
    """Return the memory limit of this process' group in bytes, None without a limit."""
    limits = []
    for folder in _cgroup_folders("memory", root, membership):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limits += [int(word) for word in _words(folder / name) if word.isdecimal()]
    return min((limit for limit in limits if limit < _UNLIMITED_BYTES), default=None)


def _cgroup_folders(controller: str, root: Path, membership: Path) -> Iterator[Path]:
    """Yield the folders whose limits apply to this process: its own group and those above."""
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
