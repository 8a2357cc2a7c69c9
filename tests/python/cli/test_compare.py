"""Errors of `endcap infer --compare` before any request."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli_runs import assert_error_message, endcap, write_pictures

SHIPPED = Path(__file__).resolve().parents[3] / "model_repository"
NOBODY = ("--url", "127.0.0.1:9")  # no server is there


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return write_pictures(tmp_path / "pictures")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--network", "model.onnx"], "--network needs --compare REPOSITORY: give both"),
        (["--compare", SHIPPED, "--csv"], "--compare prints a table or --json, not --csv"),
        (["--compare", SHIPPED, "--coco"], "--compare prints a table or --json, not --coco"),
    ],
)
def test_options_that_do_not_go_together(
    pictures: Path, options: list[object], message: str
) -> None:
    result = endcap("infer", pictures, *NOBODY, *options, columns=200)
    assert result.exit_code == 2
    assert message in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--compare", "nowhere"], "nowhere/detect/config.pbtxt cannot be read"),
        (["--compare", SHIPPED, "--model", "other"], "other/config.pbtxt cannot be read"),
        (["--compare", SHIPPED, "--network", "no.onnx"], "no.onnx is not a file"),
    ],
)
def test_a_repository_or_a_network_that_is_not_there(
    pictures: Path, options: list[object], message: str
) -> None:
    assert_error_message(endcap("infer", pictures, *NOBODY, *options), message)


def test_a_parameter_that_cannot_be_imitated_is_named(pictures: Path, tmp_path: Path) -> None:
    repository = tmp_path / "models"
    shutil.copytree(SHIPPED, repository, ignore=shutil.ignore_patterns("samples"))
    with (repository / "preprocess" / "config.pbtxt").open("a") as config:
        config.write('parameters { key: "interpolation" value { string_value: "area" } }\n')
    result = endcap("infer", pictures, *NOBODY, "--compare", repository)
    assert_error_message(result, "interpolation is area, and the reference has only bilinear")


@pytest.mark.parametrize(
    ("package", "install"),
    [
        ("cv2", "pip install .*'opencv-python-headless>="),
        ("onnxruntime", "pip install onnxruntime`"),
    ],
)
def test_a_missing_package_is_named(pictures: Path, package: str, install: str) -> None:
    code = (
        f"import sys; sys.modules['{package}'] = None\n"  # as if it were not installed
        "from endcap.cli.app import main; main()"
    )
    arguments = ["infer", str(pictures), *NOBODY, "--compare", str(SHIPPED)]
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"takes {package}, which cannot be imported" in done.stderr
    assert re.search(install, done.stderr)


def test_the_report_is_not_written_over_the_network(pictures: Path, tmp_path: Path) -> None:
    network = tmp_path / "model.onnx"
    network.write_bytes(b"weights")
    options = ["--compare", SHIPPED, "--network", network, "--output", network]
    result = endcap("infer", pictures, *NOBODY, *options)
    assert_error_message(result, "would be overwritten: give --output another file")
    assert network.read_bytes() == b"weights"


@pytest.mark.parametrize("place", ["detector/1/model.onnx", "postprocess/config.pbtxt"])
@pytest.mark.parametrize("linked", ["", "detector", "detector/1"])
def test_the_report_is_not_written_over_the_repository(
    pictures: Path, tmp_path: Path, place: str, linked: str
) -> None:
    repository = tmp_path / "models"
    shutil.copytree(SHIPPED, repository, ignore=shutil.ignore_patterns("samples"))
    if linked:
        (repository / linked).rename(tmp_path / "elsewhere")
        (repository / linked).symlink_to(tmp_path / "elsewhere")
    target = repository / place
    before = target.read_bytes()
    result = endcap(
        "infer", pictures, *NOBODY, "--compare", repository, "--json", "--output", target
    )
    assert_error_message(result, f"{target}, which is an input, would be overwritten")
    assert target.read_bytes() == before


def test_an_older_report_in_the_repository_may_be_replaced(pictures: Path, tmp_path: Path) -> None:
    repository = tmp_path / "models"
    shutil.copytree(SHIPPED, repository, ignore=shutil.ignore_patterns("samples"))
    report = repository / "report.json"
    report.write_text("[]")
    result = endcap("infer", pictures, *NOBODY, "--compare", repository, "--output", report)
    assert_error_message(result, "no Triton server responds")
