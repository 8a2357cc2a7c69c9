"""Processor, ports and open files."""

from __future__ import annotations

import os
import platform
import re
import resource
from pathlib import Path

from endcap.server.ports import ServerPorts, resolve_ports
from endcap.server.settings import ServerSettings
from endcap.tools.doctor.cgroup import cpu_quota
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
            "intra_op_threads and `threads` to the quota",
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


def check_cpu(subject: Subject) -> Finding:
    """Cores and SIMD extensions."""
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
    return CPU.fine(found)


def check_ports(subject: Subject) -> Finding:
    """The default ports."""
    taken: list[str] = []
    reasons: list[str] = []
    wanted = {name: getattr(subject.ports, name) for name in ("http", "grpc", "metrics")}
    for service, port in wanted.items():
        others_free = {"http": 0, "grpc": 0, "metrics": 0}
        try:
            resolve_ports(ServerSettings().host, ServerPorts(**{**others_free, service: port}))
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
    return PORTS.fine(f"{', '.join(map(str, wanted.values()))} are free")


def check_open_files(subject: Subject) -> Finding:
    """The limit of this process, which a server that it starts inherits."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    found = f"{_limit(soft)}, may be raised to {_limit(hard)}" if soft != hard else _limit(soft)
    if soft != resource.RLIM_INFINITY and soft < _ENOUGH_FILES:
        return OPEN_FILES.problem("few", found, f"a process may have only {soft} files open")
    return OPEN_FILES.fine(found)


def _limit(value: int) -> str:
    return "unlimited" if value == resource.RLIM_INFINITY else str(value)
