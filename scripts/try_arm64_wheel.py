"""Import a wheel for arm64 under QEMU, and preprocess and postprocess with it.

    python scripts/try_arm64_wheel.py WHEEL SYSROOT

SYSROOT is the folder of scripts/arm64_sysroot.sh, which has the interpreter. The wheel and what it
requires are installed for arm64 into SYSROOT.site. Results have to be those of x86-64, with and
without vector code; their speed is not measured.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PYTHON = "3.11"  # of Debian 12
# What the C library of Debian 12 can load.
PLATFORMS = (
    "manylinux2014",
    "manylinux_2_17",
    "manylinux_2_28",
    "manylinux_2_34",
    "manylinux_2_35",
)
# Of the program's results, as they are on x86-64.
EXPECTED = "acbba18f2805e163fc1081bb2f7f2301c6a2b873598f0f1c77c11901bdf37c7c"
PROGRAM = """
import hashlib, platform, sys
import numpy as np
import endcap

numbers = np.arange(48 * 64 * 3, dtype=np.uint64) * 2654435761 >> 16
pixels = numbers.astype(np.uint8).reshape(48, 64, 3)
head = (numbers[: 84 * 9] % 1024).astype(np.float32).reshape(84, 9) / 1024
for implementation in ("scalar", "simd"):
    endcap.force_implementation(implementation)
    prepared = endcap.preprocess(pixels, size=40, interpolation="bicubic", antialias=True)
    found = endcap.Postprocessor("yolov8", 80, max_detections=20)(head)
    hashed = hashlib.sha256()
    for array in (prepared.images, prepared.geometry, found.boxes, found.scores, found.indices):
        hashed.update(np.ascontiguousarray(array).tobytes())
    if hashed.hexdigest() != sys.argv[1]:
        sys.exit(f"{implementation}: the results are not those of x86-64")
    print(f"endcap {endcap.__version__} on {platform.machine()}, {implementation}: as on x86-64")
"""


def main() -> int:
    """Try the wheel that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("sysroot", type=Path)
    options = parser.parse_args()
    sysroot = options.sysroot.resolve()
    with tempfile.TemporaryDirectory(prefix="endcap-arm64-") as site:
        platforms = (f"--platform={each}_aarch64" for each in PLATFORMS)
        install = ("-m", "pip", "install", "--quiet", "--only-binary=:all:", "--target", site)
        target = ("--python-version", PYTHON, "--implementation", "cp", *platforms)
        subprocess.run([sys.executable, *install, *target, options.wheel], check=True)
        interpreter = sysroot / "usr" / "bin" / f"python{PYTHON}"
        command = ["qemu-aarch64-static", "-L", sysroot, interpreter, "-c", PROGRAM, EXPECTED]
        environment = {**os.environ, "PYTHONPATH": site, "PYTHONHOME": str(sysroot / "usr")}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
