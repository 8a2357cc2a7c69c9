"""`endcap evaluate` with the shipped repository on a real server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from endcap.server import ServerSettings, TritonServer
from tests.support.cli_runs import endcap
from tests.support.tolerances import SERVED_MAP_DIFFERENCE
from tests.triton.running_server import FREE_PORTS

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = ROOT / "model_repository"
NETWORK = REPOSITORY / "detector" / "1" / "model.onnx"
SAMPLES = sorted((REPOSITORY / "detect" / "samples").glob("*.jpg"))
TRUTH = json.loads((ROOT / "tests" / "data" / "sample_objects.json").read_text(encoding="utf-8"))
# Ids with gaps, and in another order than the labels of `detect`.
CATEGORY_IDS = {"ring": 2, "Circle": 3, "square": 5, "cross": 8, "triangle": 13, "star": 90}


@dataclass(frozen=True)
class Data:
    """Annotated images."""

    images: Path
    annotations: Path
    count: int


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    folder = tmp_path_factory.mktemp("images")
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    for path in SAMPLES:
        image = {"id": len(images) + 1, "file_name": path.name}
        images.append(image)
        (folder / path.name).write_bytes(path.read_bytes())
        for thing in TRUTH[path.name]:
            x1, y1, x2, y2 = thing["box"]
            annotations.append(
                {
                    "id": len(annotations),
                    "image_id": image["id"],
                    "category_id": {k.lower(): v for k, v in CATEGORY_IDS.items()}[thing["label"]],
                    "bbox": [x1, y1, x2 - x1, y2 - y1],
                    "iscrowd": 0,
                }
            )
    categories = [{"id": number, "name": name} for name, number in CATEGORY_IDS.items()]
    content = {"images": images, "annotations": annotations, "categories": categories}
    path = folder / "annotations.json"
    path.write_text(json.dumps(content))
    return Data(folder, path, len(images))


@pytest.fixture(scope="module")
def server() -> Iterator[TritonServer]:
    with TritonServer(REPOSITORY, ServerSettings(ports=FREE_PORTS)) as running:
        yield running


def evaluate(data: Data, *arguments: object) -> Result:
    return endcap("evaluate", data.images, data.annotations, *arguments)


def figures(result: Result) -> Any:
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def repository_run(data: Data, tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """One evaluation of the repository, and the detections that it saved."""
    saved = tmp_path_factory.mktemp("results") / "results.json"
    options = ["--repository", REPOSITORY, "--reference", NETWORK, "--json"]
    limits = ["--max-difference", SERVED_MAP_DIFFERENCE, "--min-map50", 0.8]
    return evaluate(data, *options, *limits, "--save-predictions", saved), saved


def test_serving_costs_no_accuracy(repository_run: tuple[Result, Path], data: Data) -> None:
    result, _ = repository_run
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    found = figures(result)
    assert found["images"] == data.count
    assert found["objects"] == sum(each["objects"] for each in found["served"]["classes"])
    assert abs(found["difference"]["map50"]) <= SERVED_MAP_DIFFERENCE
    assert abs(found["difference"]["map50_95"]) <= SERVED_MAP_DIFFERENCE
    names = {each["category_id"]: each["name"] for each in found["served"]["classes"]}
    assert names == {number: name for name, number in CATEGORY_IDS.items()}
    assert min(each["ap50"] for each in found["served"]["classes"]) > 0.5, "no class is mixed up"
    assert (found["failures"], found["notes"], found["problems"]) == ([], [], [])
    # The threshold was lowered in a copy.
    assert 0.001 < found["lowest_score"] < 0.01
    assert '"0.4"' in (REPOSITORY / "postprocess" / "config.pbtxt").read_text(encoding="utf-8")


def test_saved_detections_measure_as_they_did(
    repository_run: tuple[Result, Path], data: Data, server: TritonServer
) -> None:
    first, saved = repository_run
    result = evaluate(data, "--url", server.grpc_url, "--predictions", saved, "--json")
    assert result.exit_code == 0
    assert figures(result)["other"] == figures(first)["served"]


def test_high_threshold_of_the_server_is_reported(
    repository_run: tuple[Result, Path], data: Data, server: TritonServer
) -> None:
    result = evaluate(data, "--url", server.http_url)
    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert "no detection below a score of 0.4" in text
    assert "set score_threshold to 0.001 in its endcap_postprocess model" in text
    assert max(map(len, result.stdout.splitlines())) <= 80
    lines = result.stdout.splitlines()
    (map50,) = [float(line.split()[1]) for line in lines if line.startswith("mAP50 ")]
    assert map50 < figures(repository_run[0])["served"]["map50"]
