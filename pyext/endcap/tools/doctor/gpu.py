"""The NVIDIA driver, its GPUs, and the libraries that can use them; serving works without any."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

import endcap
from endcap.tools.doctor.finding import Finding, Group, Problem, Severity, Topic, reason_of
from endcap.tools.doctor.subject import Subject
from endcap.triton.installation import gpu_count

_KERNEL_MODULE = Path("/proc/driver/nvidia/version")
_OLDEST_CUDA = 13000  # as cuDriverGetVersion writes it
_SYSTEM_LIBRARIES = ("/usr/local/cuda*/lib64", "/usr/lib/*-linux-gnu", "/usr/lib64")
_NVJPEG_NAMES = ("libnvjpeg.so.13", "libnvjpeg.so.12")  # in the order of the search
_EVERY_GPU = "`docker run --gpus all`"

DRIVER = Topic(
    name="cuda_driver",
    group=Group.GPU,
    title="driver",
    meaning="The NVIDIA driver, and the newest CUDA that it can run. CUDA 13 code needs driver 580 "
    "or later. Without a driver everything runs on the CPU.",
    problems={
        "absent": Problem(
            when="There is no driver.",
            severity=Severity.NOTE,
            remedy=f"nothing, where there is no GPU; in a container: {_EVERY_GPU}",
        ),
        "no_library": Problem(
            when="GPU devices are there, but `libcuda.so.1` is not found.",
            severity=Severity.WARNING,
            remedy="install the driver's libraries; in a container: "
            "`docker run --gpus all -e NVIDIA_DRIVER_CAPABILITIES=compute,utility`",
        ),
        "old": Problem(
            when="The driver is older than 580.",
            severity=Severity.WARNING,
            remedy="install NVIDIA driver 580 or later",
        ),
    },
)

GPUS = Topic(
    name="gpus",
    group=Group.GPU,
    title="GPUs",
    meaning="The GPUs that the driver shows, and how many of them CUDA_VISIBLE_DEVICES leaves.",
    problems={
        "unanswered": Problem(
            when="`nvidia-smi` fails.",
            severity=Severity.WARNING,
            remedy="`nvidia-smi` says why; after an update of the driver, restart the machine",
        ),
        "hidden": Problem(
            when="CUDA_VISIBLE_DEVICES hides every GPU.",
            severity=Severity.NOTE,
            remedy="`unset CUDA_VISIBLE_DEVICES`",
        ),
    },
)

NVJPEG = Topic(
    name="nvjpeg",
    group=Group.GPU,
    title="nvJPEG",
    meaning="NVIDIA's library for the JPEG engine of data center GPUs, from a wheel or from the "
    'CUDA toolkit: its version and file. Only `decode="fast"` uses it.',
    problems={
        "absent": Problem(
            when="It is not installed.",
            severity=Severity.NOTE,
            remedy="only for decoding by a GPU's JPEG engine: `pip install 'endcap[cuda]'`",
        ),
        "unusable": Problem(
            when="It cannot be used, or the GPU has no JPEG engine.",
            severity=Severity.NOTE,
            remedy="nothing: CPU threads decode what the engine does not; A100, A30, and GPUs of "
            "the Ada, Hopper and Blackwell architectures have an engine",
        ),
    },
)


def check_driver(subject: Subject) -> Finding:
    """The driver's version, and that its library is there."""
    version = _cuda_of_driver()
    text = _KERNEL_MODULE.read_text() if _KERNEL_MODULE.is_file() else ""
    release = release_of_driver(text)
    if version is None:
        if gpu_devices := sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*")):
            message = f"{', '.join(gpu_devices)} are there, but libcuda.so.1 is not found"
            return DRIVER.problem("no_library", release or "incomplete", message)
        return DRIVER.problem("absent", "none", "no NVIDIA driver is here, so models run on CPUs")
    found = f"{release or 'release unknown'}, CUDA {written_cuda(version)}"
    if version < _OLDEST_CUDA:
        message = f"the driver runs CUDA {written_cuda(version)}; CUDA 13 needs driver 580"
        return DRIVER.problem("old", found, message)
    return DRIVER.fine(found)


def check_gpus(subject: Subject) -> Finding:
    """The GPUs by name."""
    program = shutil.which("nvidia-smi")
    if program is None:
        count = gpu_count()
        return GPUS.fine(str(count)) if count else GPUS.note("none")
    listing = subprocess.run(
        [program, "-L"], capture_output=True, text=True, timeout=60, check=False
    )
    names = names_of_gpus(listing.stdout)
    if listing.returncode != 0:
        said = " ".join((listing.stdout + listing.stderr).split()) or "nothing"
        message = f"{program} -L ended with exit code {listing.returncode} and said: {said}"
        return GPUS.problem("unanswered", "unknown", message)
    if names and gpu_count() == 0:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        message = f"CUDA_VISIBLE_DEVICES is '{hidden}', which leaves none"
        return GPUS.problem("hidden", ", ".join(names), message)
    return GPUS.fine(f"{gpu_count()} of {', '.join(names)}") if names else GPUS.note("none")


def check_nvjpeg(subject: Subject) -> Finding:
    """nvJPEG as it is loaded, or where there is no usable GPU the file that would be."""
    cuda = endcap.cuda_state()
    if cuda.available:
        state = endcap.nvjpeg_state(next(device.id for device in cuda.devices if device.covered))
        found = f"{state.version}, {state.library_path}"
        if state.available:
            return NVJPEG.fine(found)
        reason = reason_of(Exception(state.reason))
        if state.library_path:
            return NVJPEG.problem("unusable", found, reason)
        return NVJPEG.problem("absent", "none", reason)
    for name in _NVJPEG_NAMES:
        for folder in _nvjpeg_folders():
            for library in sorted(Path("/").glob(f"{folder.strip('/')}/{name}")):
                return NVJPEG.fine(str(library))
    return NVJPEG.problem("absent", "none", "libnvjpeg.so is neither in a wheel nor in the system")


def _nvjpeg_folders() -> list[str]:
    """Return glob patterns of the folders that may hold nvJPEG, wheels first."""
    nvidia = importlib.util.find_spec("nvidia")
    roots = (nvidia.submodule_search_locations or ()) if nvidia else ()
    searched = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return list(filter(None, [*(f"{root}/*/lib" for root in roots), *_SYSTEM_LIBRARIES, *searched]))


def release_of_driver(text: str) -> str | None:
    """Return the release, such as "580.65.06", in what the kernel module tells of itself."""
    found = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", text)
    return found.group() if found else None


def written_cuda(version: int) -> str:
    """Return "12.4" for 12040, as CUDA counts versions."""
    return f"{version // 1000}.{version % 1000 // 10}"


def names_of_gpus(listing: str) -> list[str]:
    """Return the names in the output of `nvidia-smi -L`."""
    return re.findall(r"^GPU \d+: (.+?)(?: \(UUID: .*\))?$", listing, re.MULTILINE)


def _cuda_of_driver() -> int | None:
    """What the driver can run, None without one."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    code = library.cuDriverGetVersion(ctypes.byref(version))
    if code != 0:
        raise OSError(f"libcuda.so.1 does not tell its version: error {code}")
    return version.value
