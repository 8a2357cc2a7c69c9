"""Errors of `endcap infer --compare` before any request."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_runs import assert_error_message, endcap

SHIPPED = Path(__file__).resolve().parents[3] / "model_repository"
NOBODY = ("--url", "127.0.0.1:9")  # no server is there


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
def test_missing_repository_or_network(pictures: Path, options: list[object], message: str) -> None:
    assert_error_message(endcap("infer", pictures, *NOBODY, *options), message)
