"""Runs `endcap infer --compare`, and says when the two ways agree."""

from __future__ import annotations

import json
from typing import Any

from typer.testing import CliRunner, Result

from endcap.cli.app import app
from endcap.server import TritonServer
from tests.support.tolerances import COMPARED_BOX_PIXELS, COMPARED_SCORE


def infer(server: TritonServer, *arguments: object) -> Result:
    command = ["infer", *arguments, "--url", server.grpc_url]
    return CliRunner(env={"COLUMNS": "80"}).invoke(app, [str(each) for each in command])


def comparisons(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [row["comparison"] for row in json.loads(result.stdout)]


def unmatched(found: list[dict[str, Any]]) -> int:
    return sum(len(each["only_served"]) + len(each["only_reference"]) for each in found)


def assert_alike(found: list[dict[str, Any]]) -> None:
    assert unmatched(found) == 0
    for each in found:
        assert each["served"] == each["reference"] == each["matched"] > 0
        assert each["largest_score_difference"] <= COMPARED_SCORE
        assert (each["largest_box_difference_pixels"] or 0) <= COMPARED_BOX_PIXELS
