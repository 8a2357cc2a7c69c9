"""What endcap validate prints, and its exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli_runs import assert_error_message, endcap
from tests.support.damage import SHIPPED, copy_model
from tests.support.damaged_repositories import DAMAGES


def damaged(tmp_path: Path, *names: str) -> Path:
    for model in ("preprocess", "detector", "postprocess", "detect"):
        copy_model(model, tmp_path)
    for name in names:
        DAMAGES[name].apply(tmp_path / DAMAGES[name].model.removesuffix("_python"))
    return tmp_path


def test_nothing_wrong() -> None:
    result = endcap("validate", SHIPPED)
    assert result.exit_code == 0
    count = sum(path.is_dir() for path in SHIPPED.iterdir())
    assert result.stdout == f"{count} models, 0 errors, 0 warnings\n"


def test_a_line_for_each_finding(tmp_path: Path) -> None:
    repository = damaged(tmp_path, "larger_batch", "iou_threshold", "no_version", "fewer_labels")
    result = endcap("validate", repository)
    assert result.exit_code == 1
    assert result.stderr == ""
    batch, labels, *lines, last = result.stdout.splitlines()
    assert batch.startswith(f"{repository}/detect/config.pbtxt:7: error: the ensemble's max_batch")
    assert labels.startswith(f"{repository}/detect/config.pbtxt:86: warning: labels has 5 names")
    assert [line.partition(": ")[0] for line in lines] == [
        f"{repository}/postprocess/config.pbtxt:7",
        f"{repository}/preprocess",
    ]
    assert lines[0].endswith(" error: iou_threshold is '1.5'; give a number from 0 to 1")
    assert last == "4 models, 3 errors, 1 warning"


def test_warning_is_an_error_only_with_strict(tmp_path: Path) -> None:
    repository = damaged(tmp_path, "fewer_labels")
    result = endcap("validate", repository)
    assert result.exit_code == 0
    assert result.stdout.endswith("\n4 models, 0 errors, 1 warning\n")
    result = endcap("validate", repository, "--strict")
    assert result.exit_code == 1
    assert ": error: labels has 5 names" in result.stdout
    assert result.stdout.endswith("\n4 models, 1 error, 0 warnings\n")


def test_json(tmp_path: Path) -> None:
    repository = damaged(tmp_path, "iou_threshold", "no_version")
    result = endcap("validate", repository, "--json")
    assert result.exit_code == 1
    by_parameter, by_folder = json.loads(result.stdout)
    assert by_parameter == {
        "file": f"{repository}/postprocess/config.pbtxt",
        "line": 7,
        "severity": "error",
        "model": "postprocess",
        "problem": "iou_threshold is '1.5'",
        "remedy": "give a number from 0 to 1",
    }
    assert (by_folder["file"], by_folder["line"]) == (f"{repository}/preprocess", None)
    assert json.loads(endcap("validate", SHIPPED, "--json").stdout) == []


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("nowhere", "is not a folder"),
        ("empty", "holds no model"),
        ("detect", "is a model's folder; give the folder around it"),
    ],
)
def test_what_cannot_be_looked_at(tmp_path: Path, path: str, says: str) -> None:
    (tmp_path / "empty").mkdir()
    copy_model("detect", tmp_path)
    assert_error_message(endcap("validate", tmp_path / path), says)


def without(module: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs the command in a Python that cannot import the module."""
    code = f"import sys; sys.modules[{module!r}] = None; from endcap.cli.app import main; main()"
    command = [sys.executable, "-c", code, "validate", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_without_tritons_client() -> None:
    result = without("tritonclient.grpc", SHIPPED)
    assert (result.returncode, result.stdout) == (2, "")
    assert re.search(r"`pip install .*'tritonclient\[grpc,http\]>=", result.stderr)


def test_without_onnx_the_rest_is_checked(tmp_path: Path) -> None:
    result = without("onnx", damaged(tmp_path, "iou_threshold", "network_dims"))
    by_ensemble, note, by_parameter, last = result.stdout.splitlines()
    assert result.returncode == 1
    assert ": error: step detector takes images as FP32 [3, 320, 320], and " in by_ensemble
    assert note.startswith(f"{tmp_path}/detector/1/model.onnx: note: the network was not checked")
    assert re.search("`pip install .*'onnx>=", note)
    assert ": error: iou_threshold is " in by_parameter
    assert last == "4 models, 2 errors, 0 warnings, 1 note"
