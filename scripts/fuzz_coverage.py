#!/usr/bin/env python3
"""Line coverage of a source folder by the committed corpora of the fuzz targets.

    scripts/fuzz_coverage.py csrc/decode --min-lines 95

The targets are those of `cmake --preset fuzz-coverage`; `make fuzz-coverage` builds them and calls
this. Counted are the files that the targets' libraries are built from: of csrc/decode not the host
code of nvJPEG (nvjpeg_decoder.cc, nvjpeg_library.cc), which belongs to libendcap_cuda.so.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
# Highway compiles these once for each instruction set, and llvm-cov has in their place the code for
# machines without any, which none here runs.
_VECTOR_CODE = "_simd.cc"
BUILD = ROOT / "build" / "fuzz-coverage"
# Where CMake unpacks the committed corpora.
CORPORA = BUILD / "tests" / "fuzz" / "corpus"


def collect_profiles(executables: list[Path]) -> Path:
    """Run each target over its corpus.

    Args:
        executables: The targets, named as their corpora.

    Returns:
        The merged profile.

    Raises:
        SystemExit: a target fails.
    """
    folder = BUILD / "profiles"
    folder.mkdir(exist_ok=True)
    raw = []
    for executable in executables:
        raw.append(folder / f"{executable.name}.profraw")
        environment = {**os.environ, "LLVM_PROFILE_FILE": str(raw[-1])}
        command = [executable, CORPORA / executable.name]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = "\n".join(done.stderr.splitlines()[-2:])
            raise SystemExit(f"fuzz coverage: {executable.name} fails on its corpus:\n{last}")
    profile = folder / "all.profdata"
    subprocess.run(["llvm-profdata", "merge", "-sparse", "-o", profile, *raw], check=True)
    return profile


def read_coverage(executables: list[Path], profile: Path, folder: Path) -> list[dict[str, Any]]:
    """Return llvm-cov's summary of each file below a folder, without vector code."""
    objects = [option for path in executables[1:] for option in ("-object", str(path))]
    command = ["llvm-cov", "export", "-summary-only", f"-instr-profile={profile}"]
    command += [str(executables[0]), *objects, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    files: list[dict[str, Any]] = json.loads(done.stdout)["data"][0]["files"]
    counted = [file for file in files if not file["filename"].endswith(_VECTOR_CODE)]
    return sorted(counted, key=lambda file: file["filename"])


def print_row(name: str, covered: int, lines: int) -> float:
    """Print a row of the table, and return its per cent."""
    percent = 100.0 * covered / max(lines, 1)
    print(f"{name:45} {covered:5d} of {lines:5d}  {percent:6.1f} %")
    return percent


def main() -> int:
    """Print a table, and compare the sum with the minimum.

    Returns:
        The exit status: 1 below the minimum.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("folder", help="source folder, for example csrc/decode")
    parser.add_argument("--min-lines", type=float, default=0.0, help="per cent (default 0)")
    options = parser.parse_args()
    folder = (ROOT / options.folder).resolve()
    executables = sorted(BUILD / "tests" / "fuzz" / path.name for path in CORPORA.iterdir())
    for path in executables:
        if not path.is_file():
            parser.error(f"{path} does not exist: build it with 'make fuzz-coverage'")
    lines = covered = 0
    for file in read_coverage(executables, collect_profiles(executables), folder):
        summary = file["summary"]["lines"]
        lines += summary["count"]
        covered += summary["covered"]
        print_row(
            str(Path(file["filename"]).relative_to(ROOT)), summary["covered"], summary["count"]
        )
    percent = print_row(options.folder, covered, lines)
    if percent < options.min_lines:
        print(f"fuzz coverage: {percent:.1f} % of the lines, {options.min_lines:g} % are wanted")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
