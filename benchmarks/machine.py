"""Machine, versions, commit and date that measured figures belong to."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import endcap
from benchmarks import ROOT
from benchmarks.timing import cpu_count

_FLAGS = ("sse4_1", "ssse3", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "avx512_vbmi")
_PACKAGES = (
    "endcap",
    "numpy",
    "opencv-python-headless",
    "Pillow",
    "simplejpeg",
    "torch",
    "torchcodec",
    "torchvision",
    "ultralytics",
    "nvidia-dali-cuda130",
    "nvidia-pytriton",
    "onnxruntime",
)


def describe() -> dict[str, Any]:
    """All of it, ready for JSON. The load average says whether others were at work meanwhile."""
    return {
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "commit": _commit(),
        "cpu": _cpu_field("model name") or platform.processor(),
        "cpu_flags": [flag for flag in _FLAGS if flag in _cpu_field("flags").split()],
        "cpus": cpu_count(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "load_average": round(os.getloadavg()[0], 2),
        "versions": _versions(),
        "implementations": [each.name for each in endcap.implementations() if each.available],
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _cpu_field(name: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return ""


def _commit() -> str:
    """Return the commit of the working tree, with a mark where files were changed since."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "unknown"
    return done.stdout.strip() or "unknown"
