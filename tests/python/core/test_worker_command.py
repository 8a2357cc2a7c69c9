"""Processes that endcap starts with its own Python, in a folder full of somebody's modules."""

from __future__ import annotations

import contextlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from endcap._python_process import worker_command
from endcap.doctor.finding import Problem
from endcap.doctor.gpu import check_dali
from endcap.errors import ServerError
from endcap.server.backends import find_operators
from tests.support import family_networks as families
from tests.support.doctor_world import subject
from tests.support.init_runs import init

NEEDS_DALI = pytest.mark.skipif(
    importlib.util.find_spec("nvidia") is None or importlib.util.find_spec("nvidia.dali") is None,
    reason="nvidia.dali is not installed",
)


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that appears when a module of the current folder is run."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    ran = tmp_path / "ran"
    for name in sys.stdlib_module_names | {"numpy", "onnx", "endcap"}:
        (folder / f"{name}.py").write_text(f"open({str(ran)!r}, 'a').write(__name__ + ' ')\n")
    monkeypatch.chdir(folder)
    return ran


def test_the_trap_works(trap: Path) -> None:
    subprocess.run([sys.executable, "-c", "import json"], check=False, capture_output=True)
    assert trap.exists()


def test_a_worker_imports_nothing_from_the_current_folder(trap: Path) -> None:
    command = worker_command("endcap.repository.network_worker")
    subprocess.run(command, input=b"", check=False, capture_output=True)
    assert not trap.exists()


def test_init_imports_nothing_from_the_current_folder(trap: Path, tmp_path: Path) -> None:
    done = init(families.yolov8().write(tmp_path / "model.onnx"))
    assert done.exit_code == 0, done.stderr
    assert not trap.exists()


@NEEDS_DALI
def test_the_doctor_imports_nothing_from_the_current_folder(trap: Path) -> None:
    with contextlib.suppress(Problem):  # where the operators are not built
        check_dali(subject(Path()))
    assert not trap.exists()


@NEEDS_DALI
def test_the_search_for_operators_imports_nothing_from_the_current_folder(trap: Path) -> None:
    with contextlib.suppress(
        ServerError
    ):  # where the operators are not built, as its own test says
        find_operators()
    assert not trap.exists()
