"""`endcap infer --compare` with the shipped repository on a real server."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from endcap.server import ServerSettings, TritonServer
from endcap.server.models import repository_with
from tests.support.cli_runs import endcap
from tests.support.tolerances import COMPARED_BOX_PIXELS, COMPARED_SCORE
from tests.triton.running_server import FREE_PORTS

REPOSITORY = Path(__file__).resolve().parents[2] / "model_repository"
SAMPLES = sorted((REPOSITORY / "detect" / "samples").glob("*.jpg"))


def infer(server: TritonServer, *arguments: object) -> Result:
    return endcap("infer", *arguments, "--url", server.grpc_url)


def comparisons(result: Result) -> list[dict[str, Any]]:
    assert result.exit_code == 0, result.output
    return [row["comparison"] for row in json.loads(result.stdout)]


def assert_alike(found: list[dict[str, Any]]) -> None:
    for each in found:
        assert (each["only_served"], each["only_reference"]) == ([], [])
        assert each["served"] == each["reference"] == each["matched"] > 0
        assert each["largest_score_difference"] <= COMPARED_SCORE
        assert (each["largest_box_difference_pixels"] or 0) <= COMPARED_BOX_PIXELS


@pytest.fixture(scope="module")
def shipped() -> Iterator[TritonServer]:
    with TritonServer(REPOSITORY, ServerSettings(ports=FREE_PORTS)) as running:
        yield running


def test_every_detection_of_the_samples_has_its_partner(shipped: TritonServer) -> None:
    found = comparisons(
        infer(shipped, REPOSITORY / "detect" / "samples", "--compare", REPOSITORY, "--json")
    )
    assert len(found) == len(SAMPLES) > 0
    assert_alike(found)


def test_another_threshold_of_the_server_shows(shipped: TritonServer) -> None:
    changed = {"score_threshold": "0.05"}
    with repository_with(REPOSITORY, backend="endcap_postprocess", parameters=changed) as other:
        found = comparisons(infer(shipped, *SAMPLES[:4], "--compare", other, "--json"))
    missing = [each for one in found for each in one["only_reference"]]
    assert len(missing) > 0
    assert max(each["score"] for each in missing) <= 0.4, "only what the server cuts off"
    assert sum(len(each["only_served"]) for each in found) == 0
    assert all(each["matched"] == each["served"] for each in found)


def test_a_network_may_be_given(shipped: TritonServer, tmp_path: Path) -> None:
    """Where the repository has an engine only."""
    repository = tmp_path / "models"
    shutil.copytree(REPOSITORY, repository, ignore=shutil.ignore_patterns("model.onnx"))
    result = infer(shipped, SAMPLES[0], "--compare", repository)
    assert result.exit_code == 2
    assert "detector has no ONNX file" in result.stderr
    assert "give it with --network FILE.onnx" in result.stderr
    network = REPOSITORY / "detector" / "1" / "model.onnx"
    options = ["--compare", repository, "--network", network, "--json"]
    assert_alike(comparisons(infer(shipped, SAMPLES[0], *options)))
