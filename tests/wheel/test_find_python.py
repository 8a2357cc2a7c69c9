"""Interpreters are found by name, path and among pyenv's versions."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "find_python.py"
sys.path.insert(0, str(SCRIPT.parent))

import find_python  # noqa: E402

FAILING_SHIM = "echo 'pyenv: command not found' >&2; exit 127"


def make_program(path: Path, version: str) -> Path:
    """Makes a program that describes itself as an interpreter of this version."""
    return make_script(path, f"echo {version}; echo {path}")


def make_script(path: Path, body: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """A folder with bin/, which is PATH, and pyenv/."""
    (tmp_path / "bin").mkdir()
    return tmp_path


def find(world: Path, asked: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": str(world / "bin"), "PYENV_ROOT": str(world / "pyenv")}
    command = [sys.executable, str(SCRIPT), str(asked)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def test_the_first_on_path_of_that_version_is_taken(world: Path) -> None:
    expected = make_program(world / "bin/python3.12", "3.12")
    make_program(world / "pyenv/versions/3.12.1/bin/python3.12", "3.12")
    assert find(world, "python3.12").stdout.strip() == str(expected)


@pytest.mark.parametrize("shim", [True, False])
def test_a_shim_that_fails_leads_to_the_newest_installed(world: Path, shim: bool) -> None:
    if shim:
        make_script(world / "bin/python3.12", FAILING_SHIM)
    for patch in ("3.12.9", "3.12.11", "3.12.dev"):
        make_program(world / f"pyenv/versions/{patch}/bin/python3.12", "3.12")
    make_program(world / "pyenv/versions/3.11.7/bin/python3.12", "3.11")
    found = find(world, "python3.12").stdout.strip()
    assert found == str(world / "pyenv/versions/3.12.11/bin/python3.12")


def test_free_threaded_pythons_have_a_version_of_their_own(world: Path) -> None:
    make_program(world / "bin/python3.14", "3.14t")
    make_program(world / "pyenv/versions/3.14.3/bin/python3.14t", "3.14")
    for patch in ("3.14.1t", "3.14.2t"):
        make_program(world / f"pyenv/versions/{patch}/bin/python3.14t", "3.14t")
    found = find(world, "python3.14t").stdout.strip()
    assert found == str(world / "pyenv/versions/3.14.2t/bin/python3.14t")
    assert find(world, "python3.14").returncode == 1


def test_a_path_is_taken_as_it_is(world: Path) -> None:
    odd = make_program(world / "opt/python3.12", "3.13")
    make_program(world / "bin/python3.12", "3.12")
    assert find(world, odd).stdout.strip() == str(odd)
    assert find(world, sys.executable).returncode == 0


def test_all_of_the_supported_versions_that_run(world: Path) -> None:
    make_script(world / "bin/python3.10", FAILING_SHIM)
    make_program(world / "bin/python3.9", "3.9")
    make_program(world / "bin/python3.14", "3.14")
    make_program(world / "pyenv/versions/3.11.7/bin/python3.11", "3.11")
    make_program(world / "pyenv/versions/3.13.0t/bin/python3.13t", "3.13t")
    assert find(world, "--all").stdout.split() == ["python3.11", "python3.14"]


def test_the_supported_versions_are_those_of_the_metadata() -> None:
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    classifiers = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', metadata)
    assert list(find_python.SUPPORTED) == classifiers


def test_a_release_has_wheels_for_the_supported_versions() -> None:
    tags = [f"cp{version.replace('.', '')}" for version in find_python.SUPPORTED]
    metadata = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (built,) = re.findall(r"^build = \[(.*)\]$", metadata, re.MULTILINE)
    assert built == ", ".join(f'"{tag}-*"' for tag in tags)
    workflow = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", workflow, re.MULTILINE)
    assert matrix == ", ".join(tags)


def test_none_is_an_error_with_a_remedy(world: Path) -> None:
    done = find(world, "python3.12")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "python3.12 is not on PATH" in done.stderr
    assert "pyenv install 3.12" in done.stderr
    assert "GPU_PYTHON=" in done.stderr


def test_what_was_tried_is_in_the_error(world: Path) -> None:
    shim = make_script(world / "bin/python3.12", FAILING_SHIM)
    done = find(world, "python3.12")
    assert done.returncode == 1
    assert f"{shim} cannot be run: pyenv: command not found" in done.stderr
    make_program(shim, "3.11")
    assert f"{shim} is Python 3.11" in find(world, "python3.12").stderr
    missing = find(world, world / "none/python3.12")
    assert missing.returncode == 1
    assert "No such file" in missing.stderr
    assert "Traceback" not in missing.stderr
