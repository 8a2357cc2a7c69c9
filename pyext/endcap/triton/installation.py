"""What this machine and this installation have for a server: GPUs, and endcap's own backends."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Collection
from pathlib import Path

from endcap._pip_commands import package_folders, reinstall_command
from endcap.errors import ServerError

OUR_BACKENDS = (
    "endcap_preprocess",
    "endcap_postprocess",
    "endcap_onnx",
    "endcap_bls",
    "endcap_track",
)
# A folder of compiled backends that is used instead of the package's: a build with a sanitizer.
BACKENDS_VARIABLE = "ENDCAP_BACKENDS"
DRIVER_GPUS = Path("/proc/driver/nvidia/gpus")


def find_our_backends(needed: Collection[str] = OUR_BACKENDS) -> dict[str, Path]:
    """Return the folder of each compiled backend of this package.

    The environment variable ENDCAP_BACKENDS names a folder to use instead of the package's.

    Args:
        needed: Backends that must be there. `make demo` builds those of the demo only.

    Raises:
        ServerError: One of these is missing.
    """
    chosen = os.environ.get(BACKENDS_VARIABLE)
    folders = [Path(chosen)] if chosen else [root / "backends" for root in package_folders()]
    found: dict[str, Path] = {}
    for name in OUR_BACKENDS:
        for folder in folders:
            if (folder / name / f"libtriton_{name}.so").is_file():
                found[name] = folder / name
                break
        if name in needed and name not in found:
            searched = ", ".join(map(str, folders))
            remedy = (
                f"unset {BACKENDS_VARIABLE}, or build the backends there"
                if chosen
                else f"reinstall it with `{reinstall_command()}`"
            )
            raise ServerError(
                f"the compiled backend {name} is not in this installation of endcap "
                f"(searched {searched}); {remedy}"
            )
    return found


def gpu_count() -> int:
    """Return the number of usable NVIDIA GPUs, 0 without a driver."""
    present = _gpus_of_driver()
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return present
    # CUDA stops reading the list at the first entry that names no device.
    named = itertools.takewhile(lambda device: device not in ("", "-1"), visible.split(","))
    return min(present, len(list(named)))


def _gpus_of_driver() -> int:
    program = shutil.which("nvidia-smi")
    if program is not None:
        listing = subprocess.run(
            [program, "-L"], capture_output=True, text=True, timeout=60, check=False
        )
        return sum(line.startswith("GPU ") for line in listing.stdout.splitlines())
    return sum(1 for _ in DRIVER_GPUS.iterdir()) if DRIVER_GPUS.is_dir() else 0
