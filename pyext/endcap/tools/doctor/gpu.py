"""The NVIDIA driver, its GPUs, and the libraries that can use them; serving works without any."""

from __future__ import annotations

import ctypes
import importlib.util
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import endcap
from endcap._python_process import worker_command
from endcap.server.private_server import installed_dali
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
        "nvidia_smi_fails": Problem(
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
            remedy="only for decoding by a GPU's JPEG engine: `{install:cuda}`",
        ),
        "unusable": Problem(
            when="It cannot be used, or the GPU has no JPEG engine.",
            severity=Severity.NOTE,
            remedy="nothing: CPU threads decode what the engine does not; A100, A30, and GPUs of "
            "the Ada, Hopper and Blackwell architectures have an engine",
        ),
    },
)
CUDA_LIBRARY = Topic(
    name="cuda_library",
    group=Group.GPU,
    title="GPU code",
    meaning='The library `libendcap_cuda.so`, which `device="cuda"` and GPU instances of the '
    "backends take: the CUDA that it was built with, and the compute capabilities that its code is "
    "for (`90-virtual` is PTX, for 9.0 and all later ones).",
    problems={
        "absent": Problem(
            when="This installation has none.",
            severity=Severity.NOTE,
            remedy="nothing, where there is no GPU; else install a wheel with GPU code, or build "
            "it where CUDA 13 is",
        ),
        "uncovered": Problem(
            when="It has no code for one of the GPUs.",
            severity=Severity.NOTE,
            remedy="hide the GPU by CUDA_VISIBLE_DEVICES, or build endcap with "
            "`-DENDCAP_CUDA_ARCHITECTURES=...`",
        ),
        "unusable": Problem(
            when="There is a driver, but the code cannot be used.",
            severity=Severity.WARNING,
            remedy="`nvidia-smi` shows what the driver sees; the other findings below GPU say more",
        ),
        "broken": Problem(
            when="The library is there, but cannot be loaded.",
            severity=Severity.ERROR,
            remedy="`unset ENDCAP_CUDA_LIBRARY`, or reinstall: `{reinstall}`",
        ),
    },
)
_DALI_TIMEOUT_S = 120.0
DALI = Topic(
    name="dali",
    group=Group.GPU,
    title="DALI",
    meaning="NVIDIA's library of data pipelines, for models such as `preprocess_dali`: it can "
    "be imported, and endcap's operators for it are built and can be loaded.",
    problems={
        "absent": Problem(
            when="It is not installed.",
            severity=Severity.NOTE,
            remedy="only for DALI pipelines: `{install:dali}`",
        ),
        "unusable": Problem(
            when="It cannot be imported, or is too old.",
            severity=Severity.WARNING,
            remedy="`{install:dali --upgrade}`",
        ),
        "no_operators": Problem(
            when="endcap's operators are not built for it, or cannot be loaded.",
            severity=Severity.NOTE,
            remedy="only for DALI pipelines: `endcap dali build`",
        ),
    },
)


def check_driver(subject: Subject) -> Finding:
    """Check the driver's version and library."""
    version = _cuda_of_driver()
    text = _KERNEL_MODULE.read_text() if _KERNEL_MODULE.is_file() else ""
    release = release_of_driver(text)
    if version is None:
        if gpu_devices := sorted(path.name for path in Path("/dev").glob("nvidia[0-9]*")):
            message = f"{', '.join(gpu_devices)} are there, but libcuda.so.1 is not found"
            return DRIVER.problem("no_library", release or "incomplete", message)
        return DRIVER.problem("absent", "none", "no NVIDIA driver is here, so models run on CPUs")
    found = f"{release or 'release unknown'}, CUDA {format_cuda_version(version)}"
    if version < _OLDEST_CUDA:
        message = f"the driver runs CUDA {format_cuda_version(version)}; CUDA 13 needs driver 580"
        return DRIVER.problem("old", found, message)
    return DRIVER.ok(found)


def check_gpus(subject: Subject) -> Finding:
    """Check the visible GPUs."""
    program = shutil.which("nvidia-smi")
    if program is None:
        count = gpu_count()
        return GPUS.ok(str(count)) if count else GPUS.note("none")
    listing = subprocess.run(
        [program, "-L"], capture_output=True, text=True, timeout=60, check=False
    )
    names = names_of_gpus(listing.stdout)
    if listing.returncode != 0:
        output = " ".join((listing.stdout + listing.stderr).split()) or "nothing"
        message = f"{program} -L ended with exit code {listing.returncode} and printed: {output}"
        return GPUS.problem("nvidia_smi_fails", "unknown", message)
    if names and gpu_count() == 0:
        hidden = os.environ.get("CUDA_VISIBLE_DEVICES")
        message = f"CUDA_VISIBLE_DEVICES is '{hidden}', which leaves none"
        return GPUS.problem("hidden", ", ".join(names), message)
    return GPUS.ok(f"{gpu_count()} of {', '.join(names)}") if names else GPUS.note("none")


def check_nvjpeg(subject: Subject) -> Finding:
    """Check nvJPEG as it is loaded or, without a usable GPU, the file that would be."""
    cuda = endcap.cuda_state()
    if cuda.available:
        state = endcap.nvjpeg_state(next(device.id for device in cuda.devices if device.covered))
        found = f"{state.version}, {state.library_path}"
        if state.available:
            return NVJPEG.ok(found)
        reason = reason_of(Exception(state.reason))
        if state.library_path:
            return NVJPEG.problem("unusable", found, reason)
        return NVJPEG.problem("absent", "none", reason)
    for name in _NVJPEG_NAMES:
        for folder in _nvjpeg_folders():
            for library in sorted(Path("/").glob(f"{folder.strip('/')}/{name}")):
                return NVJPEG.ok(str(library))
    return NVJPEG.problem("absent", "none", "libnvjpeg.so is neither in a wheel nor in the system")


def _nvjpeg_folders() -> list[str]:
    """Return glob patterns of the folders that may hold nvJPEG, wheels first."""
    nvidia = importlib.util.find_spec("nvidia")
    roots = (nvidia.submodule_search_locations or ()) if nvidia else ()
    searched = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return list(filter(None, [*(f"{root}/*/lib" for root in roots), *_SYSTEM_LIBRARIES, *searched]))


def release_of_driver(text: str) -> str | None:
    """Return the release, such as "580.65.06", in the version text of the kernel module."""
    found = re.search(r"\b\d{3}\.\d+(?:\.\d+)?\b", text)
    return found.group() if found else None


def format_cuda_version(version: int) -> str:
    """Return "12.4" for 12040, as CUDA counts versions."""
    return f"{version // 1000}.{version % 1000 // 10}"


def names_of_gpus(listing: str) -> list[str]:
    """Return the names in the output of `nvidia-smi -L`."""
    return re.findall(r"^GPU \d+: (.+?)(?: \(UUID: .*\))?$", listing, re.MULTILINE)


def _cuda_of_driver() -> int | None:
    """Return the newest CUDA that the driver can run, None without a driver."""
    try:
        library = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    version = ctypes.c_int()
    code = library.cuDriverGetVersion(ctypes.byref(version))
    if code != 0:
        raise OSError(f"libcuda.so.1 gives no version: error {code}")
    return version.value


def check_cuda_library(subject: Subject) -> Finding:
    """Check that the library covers the GPUs."""
    state = endcap.cuda_state()
    if not state.runtime_version:
        key = "broken" if state.library_path else "absent"
        return CUDA_LIBRARY.problem(key, "none", reason_of(Exception(state.reason)))
    found = f"CUDA {format_cuda_version(state.runtime_version)} for {state.architectures}"
    if state.available:
        uncovered = [device for device in state.devices if not device.covered]
        if not uncovered:
            return CUDA_LIBRARY.ok(found)
        names = ", ".join(f"cuda:{device.id} ({device.name})" for device in uncovered)
        return CUDA_LIBRARY.problem("uncovered", found, f"there is no code for {names}")
    if not state.driver_version:
        return CUDA_LIBRARY.note(f"{found}, without a driver")
    return CUDA_LIBRARY.problem("unusable", found, reason_of(Exception(state.reason)))


def check_dali(subject: Subject) -> Finding:
    """Check DALI and the operators, in a process of their own."""
    if not importlib.util.find_spec("nvidia") or not importlib.util.find_spec("nvidia.dali"):
        return DALI.problem("absent", "none", "nvidia.dali is not installed")
    found = ", ".join(installed_dali()).replace("==", " ") or "of unknown version"
    report = subprocess.run(
        worker_command("endcap.dali.report"),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_DALI_TIMEOUT_S,
        check=False,
    )
    if report.returncode != 0:
        reason = report.stderr.strip().splitlines()[-1:] or [f"exit code {report.returncode}"]
        return DALI.problem("unusable", found, f"importing it fails: {reason[0]}")
    parts = {part["name"]: part for part in json.loads(report.stdout.splitlines()[-1])}
    for name, key in (("DALI", "unusable"), ("operators", "no_operators")):
        if problem := parts[name]["problem"]:
            return DALI.problem(key, found, reason_of(Exception(problem)))
    return DALI.ok(f"{found}, operators in {parts['operators']['found']}")
