"""What tests/gpu/run.sh is made of, and how it ends where there is no GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

GPU = Path(__file__).resolve().parents[1] / "gpu"


def program(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(GPU / name), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def make_wheel(folder: Path, name: str, *files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        for file in files:
            archive.writestr(file, f"FROM = {name!r}\n")


def this_python() -> str:
    return "cp{}{}".format(*sys.version_info[:2])


def test_notes_are_added_to_what_the_benchmark_wrote(tmp_path: Path) -> None:
    file = tmp_path / "gpu.json"
    assert program("note.py", file, "passed", "tests").returncode == 0
    file.write_text(json.dumps(json.loads(file.read_text()) | {"rows": [1]}))
    for kind, sentence in (("passed", "memcheck"), ("left_out", "no time")):
        assert program("note.py", file, kind, sentence).returncode == 0
    checks = {"passed": ["tests", "memcheck"], "left_out": ["no time"]}
    assert json.loads(file.read_text()) == {"checks": checks, "rows": [1]}


def test_wheels_of_this_python_are_unpacked(tmp_path: Path) -> None:
    tag = this_python()
    wheels = tmp_path / "kit" / "wheels"
    make_wheel(wheels, f"endcap-1-{tag}-{tag}-manylinux_2_35_x86_64.whl", "endcap/__init__.py")
    make_wheel(wheels, "endcap-1-cp27-cp27-manylinux_2_35_x86_64.whl", "endcap/other.py")
    make_wheel(wheels, "protobuf-1-cp39-abi3-manylinux2014_x86_64.whl", "google/protobuf.py")
    files = ("nvidia/__init__.py", "nvidia/cu13/lib/libnvjpeg.so.13")
    make_wheel(wheels, "nvidia_nvjpeg-1-py3-none-manylinux2014_x86_64.whl", *files)
    site = tmp_path / "site"
    done = program("unpack_kit.py", "wheels", tmp_path / "kit", site)
    assert done.returncode == 0, done.stderr
    found = sorted(str(path.relative_to(site)) for path in site.rglob("*") if path.is_file())
    assert found == ["endcap/__init__.py", "google/protobuf.py", "nvidia/cu13/lib/libnvjpeg.so.13"]


@pytest.mark.parametrize("what", ["wheels", "server"])
def test_a_kit_that_lacks_something_is_told(what: str, tmp_path: Path) -> None:
    done = program("unpack_kit.py", what, tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert str(tmp_path) in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("required", ["0", "1"])
def test_without_a_gpu_the_run_says_so_at_once(required: str, tmp_path: Path) -> None:
    tag = this_python()
    wheel = f"endcap-1-{tag}-{tag}-manylinux_2_35_x86_64.whl"
    make_wheel(tmp_path / "kit" / "wheels", wheel, "endcap/marker.py")
    environment = os.environ | {
        "PYTHON": sys.executable,
        "OUT": str(tmp_path / "out"),
        "ENDCAP_REQUIRE_CUDA": required,
        "ENDCAP_CUDA_LIBRARY": "/no/such/library",
    }
    command = [str(GPU / "run.sh"), str(tmp_path / "kit")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == int(required), done.stdout + done.stderr
    assert "this machine has no GPU that can be used" in done.stdout
    noted = json.loads((tmp_path / "out" / "gpu.json").read_text())
    assert noted["checks"]["left_out"] == ["everything: this machine has no GPU that can be used"]
