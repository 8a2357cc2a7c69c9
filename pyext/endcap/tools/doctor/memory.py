"""Memory: /dev/shm, through which Python-backend models get their tensors, and the machine's."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from endcap._system.scratch import root_path
from endcap.errors import UnsupportedError
from endcap.server.leftovers import abandoned, shared_memory_prefix, shared_memory_regions
from endcap.tools.doctor.cgroup import memory_limit
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.subject import Subject
from endcap.triton.model_folder import ModelFolder

_MIB = 2**20
# A container of Docker has 64 MiB unless told otherwise: too little for one full batch of 640x640.
_ENOUGH_SHARED_BYTES = 256 * _MIB
# The shipped repository's server and its one stub hold 280 MiB while they answer.
_ENOUGH_BYTES = 512 * _MIB
_INSTANCES = re.compile(r"\binstance_group\s*:?\s*\[?\s*\{[^}]*?\bcount\s*:\s*(\d+)")
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

LEFTOVERS = Topic(
    name="leftovers",
    group=Group.SYSTEM,
    title="leftovers",
    meaning="A launcher that was killed leaves its scratch folder behind, and its server's regions "
    "in /dev/shm, which hold memory until someone removes them.",
    problems={
        "found": Problem(
            when="There are such leftovers.",
            severity=Severity.WARNING,
            remedy="the next `endcap serve` removes them; or now: `rm -r {files}`",
        ),
        "unusable": Problem(
            when="The folder of temporary folders is a link, another user's, or open to others.",
            severity=Severity.ERROR,
            remedy="look at what `ls -la {root}` shows, and move it away; or set TMPDIR to a "
            "folder of your own",
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


def check_shared_memory(subject: Subject) -> Finding:
    """Whether the tensors of Python models have room."""
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
    needed = sum(model.tensor_bytes * _instances(model) for model in in_python)
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
    return SHARED_MEMORY.fine(f"{found}; the models fill {_mib(needed)} at their largest batch")


def check_leftovers(subject: Subject) -> Finding:
    """What dead servers hold."""
    files: list[Path] = []
    held = 0
    try:
        for scratch, _ in abandoned():
            regions = shared_memory_regions(shared_memory_prefix(scratch))
            held += sum(region.stat().st_size for region in regions)
            files += [scratch, *regions]
    except UnsupportedError as error:
        return LEFTOVERS.problem("unusable", "unusable", reason_of(error), root=root_path())
    if files:
        return LEFTOVERS.problem(
            "found",
            f"{len(files)} files and folders, {_mib(held)}",
            f"a killed launcher left {', '.join(map(str, files))}",
            files=files,
        )
    return LEFTOVERS.fine("none")


def check_memory(subject: Subject) -> Finding:
    """What the server may take."""
    rows = Path("/proc/meminfo").read_text().splitlines()
    kib = {name: int(rest.split()[0]) for name, rest in (row.split(":", 1) for row in rows)}
    total, available = kib["MemTotal"] * 1024, kib["MemAvailable"] * 1024
    limit = memory_limit()
    found = f"{_mib(total)}, {_mib(available)} available"
    if limit is not None:
        found += f", limited to {_mib(limit)}"
    if min(available, limit or available) < _ENOUGH_BYTES:
        return MEMORY.problem("small", found, f"less than {_mib(_ENOUGH_BYTES)} can be used")
    return MEMORY.fine(found)


def _instances(model: ModelFolder) -> int:
    return sum(int(count) for count in _INSTANCES.findall(model.config)) or 1


def _mib(size: int) -> str:
    return f"{-(-size // _MIB)} MiB"
