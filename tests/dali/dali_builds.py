"""Builds of DALI operators in folders of their own, from next to no sources."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from endcap.dali.installation import find_sources

BUILD = """
import sys
from pathlib import Path
from endcap.dali.building import build_from
built = build_from(Path(sys.argv[1]))
print(built.path, built.cached)
"""


def write_sources(folder: Path, text: str = "") -> Path:
    """Writes the file that says what a library was built for, and one with `text`."""
    folder.mkdir(exist_ok=True)
    (folder / "built_for.cc").write_bytes((find_sources() / "built_for.cc").read_bytes())
    (folder / "other.cc").write_text(text)
    return folder


def write_compiler(file: Path, script: str) -> str:
    """Writes a shell script that stands for a compiler; returns its path."""
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return str(file)


def start_build(sources: Path) -> subprocess.Popen[str]:
    """Starts a process that builds; it prints the library, and whether that was there before."""
    return start_python(BUILD, sources)


def start_python(code: str, *arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_response(process: subprocess.Popen[str]) -> str:
    """What a process prints; it must end well."""
    response, error = process.communicate(timeout=120)
    assert process.returncode == 0, error
    return response.strip()
