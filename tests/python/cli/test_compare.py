"""`endcap infer --compare`: its errors before any request, and its table."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from endcap.cli.compare import write_comparison
from endcap.client import ImageResult
from endcap.evaluation.side_by_side import Comparison
from tests.support.cli_runs import assert_error_message, endcap

SHIPPED = Path(__file__).resolve().parents[3] / "model_repository"
NOBODY = ("--url", "127.0.0.1:9")  # no server is there


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--network", "model.onnx"], "--network needs --compare REPOSITORY: give both"),
        (["--compare", SHIPPED, "--csv"], "--compare prints a table or --json, not --csv"),
        (["--compare", SHIPPED, "--coco"], "--compare prints a table or --json, not --coco"),
        (["--track", "--coco"], "--coco has no track ids: give --json or --csv with --track"),
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


def test_each_image_is_a_line_where_no_terminal_shows_it() -> None:
    names = ["shapes_1920x1080.jpg", "a folder/" + "long " * 40 + "name.jpg"]
    results = [ImageResult(image=name, status="ok") for name in names]
    compared = {
        name: Comparison(served=8, reference=9, matched=7, box_difference_pixels=0.5)
        for name in names
    }
    table = io.StringIO()
    write_comparison(results, compared, table, json=False)
    _, *rows = table.getvalue().splitlines()
    assert [row[: -len(row.split(names[i])[1])] for i, row in enumerate(rows[:2])] == names
    assert rows[2].split() == [
        "all",
        "2",
        "compared",
        "images",
        "16",
        "18",
        "14",
        "0",
        "0",
        "0.50",
        "px",
        "-",
    ]
