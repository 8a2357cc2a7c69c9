"""endcap's installation, and room for tensors in shared memory."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from importlib import metadata

import endcap._core as _core
from endcap._pip_commands import package_folders
from endcap._version import __version__
from endcap.doctor.finding import Problem, Severity
from endcap.doctor.subject import Subject
from endcap.triton.installation import find_our_backends

_MIB = 2**20
# A container of Docker has 64 MiB by default: too little for one full batch of 640x640.
_MIN_SHARED_BYTES = 256 * _MIB
_SHM_SIZE = (
    "in Docker `docker run --shm-size=1g`, in Kubernetes an emptyDir of medium Memory at {0}, "
    "elsewhere `mount -t tmpfs -o size=1g tmpfs {0}`"
)


def check_installation(subject: Subject) -> str:
    """Check the version, the kind of installation, and the backends.

    The version, where it is installed, the Python that runs it, the vector instructions that it
    uses, and the compiled backends.
    """
    origin = metadata.distribution("endcap").read_text("direct_url.json")
    described = json.loads(origin) if origin else {}
    is_editable = described.get("dir_info", {}).get("editable", False)
    how = "editable, from" if is_editable else "installed in"
    place = described["url"].removeprefix("file://") if is_editable else package_folders()[0]
    backends = ", ".join(find_our_backends())
    return (
        f"{__version__}, {how} {place}; Python {platform.python_version()}; "
        f"{_core.simd_target()}; {backends}"
    )


def check_shared_memory(subject: Subject) -> str:
    """Check the room for tensors of Python models.

    The Python backend hands tensors to its stubs through files in /dev/shm. There should be
    room for the fixed-size tensors of the Python models at their largest batch, and at least
    256 MiB; without room requests fail.
    """
    folder = subject.shared_memory
    remedy = _SHM_SIZE.format(folder)
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="endcap_doctor_"):
            pass
    except OSError as error:
        message = f"{folder} cannot be written: {error.strerror}; {remedy}"
        raise Problem("unusable", message) from error
    space = os.statvfs(folder)
    free = space.f_bavail * space.f_frsize
    found = f"{_mib(space.f_blocks * space.f_frsize)}, {_mib(free)} free"
    in_python = [model for model in subject.models if model.backend == "python"]
    needed = sum(model.tensor_bytes * model.instances for model in in_python)
    if free < max(needed, _MIN_SHARED_BYTES):
        raise Problem(
            found,
            f"{_mib(free)} are free in {folder}, and Python models should have "
            f"{_mib(max(needed, _MIN_SHARED_BYTES))}; {remedy}, or lower max_batch_size",
            Severity.WARNING if in_python else Severity.NOTE,
        )
    return f"{found}; the models fill {_mib(needed)} at their largest batch"


def _mib(size: int) -> str:
    return f"{-(-size // _MIB)} MiB"
