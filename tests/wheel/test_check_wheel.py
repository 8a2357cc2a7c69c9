"""The check of a wheel's files, by archives of empty files."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from scripts import check_wheel

NAME = "endcap-0.1.0-cp311-cp311-manylinux_2_35_x86_64.whl"


def write_wheel(path: Path, names: set[str]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, "")
    return path


@pytest.mark.parametrize(
    "missing",
    [
        "endcap/_core.cpython-311-x86_64-linux-gnu.so",
        "endcap/libendcap_cuda.so",
        "endcap/backends/endcap_track/libtriton_endcap_track.so",
        "endcap/drawing/letters.ttf",
        "endcap/deploy/compose.yaml",
        "endcap-0.1.0.dist-info/licenses/THIRD_PARTY_LICENSES.txt",
    ],
)
def test_a_missing_file_and_one_too_many_are_named(tmp_path: Path, missing: str) -> None:
    names = check_wheel.expected_files(Path(NAME)) - {missing} | {"endcap.libs/libpng.so"}
    wheel = write_wheel(tmp_path / NAME, names)
    command = [sys.executable, check_wheel.__file__, str(wheel), "--files-only"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"{NAME}: {missing} is missing",
        f"{NAME}: endcap.libs/libpng.so is neither in the source tree nor expected from the build",
    ]


@pytest.mark.parametrize("platform", ["manylinux_2_36_x86_64", "linux_x86_64"])
def test_a_wheel_for_a_newer_glibc_is_refused(platform: str) -> None:
    (problem,) = check_wheel.check_tag(Path(f"endcap-0.1.0-cp311-cp311-{platform}.whl"))
    assert "manylinux_2_35 or older" in problem
