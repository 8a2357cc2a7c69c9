"""endcap init, what it cannot do or will not guess: a message, exit code 2, nothing left."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import onnx
import pytest

from tests.support import family_networks as families
from tests.support.init_runs import init
from tests.support.refused_networks import REFUSED


@pytest.mark.parametrize("case", REFUSED)
def test_one_error_message_and_nothing_left_behind(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make, options, parts = REFUSED[case]
    monkeypatch.chdir(tmp_path)
    model = make(tmp_path / "model.onnx")
    before = sorted(tmp_path.rglob("*"))
    done = init(model, *options.split())
    assert done.exit_code == 2, done.output
    assert done.stderr.startswith("endcap: ")
    assert done.stderr.count("\n") == 1
    for part in parts.split("|"):
        assert part in done.stderr
    assert sorted(tmp_path.rglob("*")) == before


def test_a_folder_with_something_in_it_is_not_touched(tmp_path: Path) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "mine.txt").write_text("mine")
    done = init(model)
    assert done.exit_code == 2
    assert "is not empty, and nothing in it is overwritten" in done.stderr
    assert [path.name for path in (tmp_path / "models").iterdir()] == ["mine.txt"]


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    done = init(model, output=model)
    assert done.exit_code == 2
    assert "is a file" in done.stderr
    onnx.load(str(model))


def test_a_folder_that_cannot_be_made_is_an_error_message(tmp_path: Path) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    for output, part in (
        (tmp_path / "no" / "such", "is not a folder"),
        (Path("/proc/m"), "/proc/"),
    ):
        done = init(model, output=output)
        assert done.exit_code == 2
        assert part in done.stderr


@pytest.mark.parametrize("package", ["onnx", "onnxruntime", "jinja2"])
def test_a_missing_package_is_named(
    package: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = families.yolov8().write(tmp_path / "model.onnx")
    monkeypatch.setitem(sys.modules, package, None)
    done = init(model)
    assert done.exit_code == 2
    assert package in done.stderr
    assert re.search(f"`pip install .*'{package}>=", done.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
