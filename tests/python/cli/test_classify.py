"""endcap infer of a classifier, against a real Triton server with known responses."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from endcap.drawing.draw import class_color
from endcap.server import ServerPorts, ServerSettings, TritonServer
from tests.support import classifying_model
from tests.support.cli_runs import assert_error_message, endcap, write_pictures
from tests.support.echo_model import write_echo_model, write_model

CLASSES = [
    {"class_id": 1, "label": "dog, small", "score": 0.75},
    {"class_id": 2, "label": "fish", "score": 0.25},
]


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("models")
    config, code = classifying_model.CONFIG, classifying_model.MODEL
    write_model(folder, "classify", config + classifying_model.LABELS, code)
    write_echo_model(folder)  # has another task
    settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
    with TritonServer(folder, settings) as server:
        yield {"grpc": server.grpc_url, "http": server.http_url}


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return write_pictures(tmp_path / "pictures")


def classify(url: str, *arguments: object) -> Any:
    return endcap("infer", *arguments, "--url", url, "--model", "classify", columns=200)


def test_json_has_classes(urls: dict[str, str], pictures: Path) -> None:
    result = classify(urls["grpc"], pictures, "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == [
        {"image": str(pictures / name), "status": "ok", "classes": CLASSES}
        for name in ("a.JPEG", "b.jpg")
    ]


def test_the_table_shows_labels_and_scores(urls: dict[str, str], pictures: Path) -> None:
    result = classify(urls["grpc"], pictures)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[0] == ["score"]
    assert lines[2:4] == [["dog,", "small", "0.750"], ["fish", "0.250"]]
    assert result.stdout.splitlines()[-1] == "2 images: 2 dog, small"


def test_csv_has_a_row_for_each_class_without_a_box(urls: dict[str, str], pictures: Path) -> None:
    result = classify(urls["grpc"], pictures / "b.jpg", "--csv")
    _, *rows = csv.reader(io.StringIO(result.stdout))
    photo = str(pictures / "b.jpg")
    assert rows == [
        [photo, "ok", "1", "dog, small", "0.75", "", "", "", ""],
        [photo, "ok", "2", "fish", "0.25", "", "", "", ""],
    ]


def test_coco_is_refused_and_a_file_stays_as_it_was(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    file = tmp_path / "report"
    file.write_text("from before")
    result = classify(urls["grpc"], pictures, "--coco", "--output", file)
    assert_error_message(result, "model 'classify' is a classifier; give --json or --csv")
    assert file.read_text() == "from before"


def test_the_best_class_stands_in_the_pictures_corner(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    result = classify(urls["grpc"], pictures, "--draw", tmp_path / "drawn")
    assert result.exit_code == 0, result.output
    with Image.open(tmp_path / "drawn" / "b_detections.jpg") as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    assert pixels.shape[:2] == (480, 640)
    near = np.abs(pixels - class_color(1)).max(axis=2) < 40  # JPEG moves colours
    assert near[1:15, 1:100].mean() > 0.4
    assert not near[40:].any()
    assert not near[:, 320:].any()


@pytest.mark.parametrize("model", ["detect", "echo"])
def test_the_only_suitable_model_is_named(urls: dict[str, str], pictures: Path, model: str) -> None:
    result = endcap("infer", pictures, "--url", urls["grpc"], "--model", model)
    assert_error_message(result, f"'{model}' ", "the server has classify: --model classify")


def test_broken_labels_and_several_models_are_errors(pictures: Path, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    config, code = classifying_model.CONFIG, classifying_model.MODEL
    write_model(folder, "broken", config + classifying_model.BROKEN_LABELS, code)
    write_model(folder, "classify", config, code)
    names = tmp_path / "labels.txt"
    names.write_text("zero\none\n")
    settings = ServerSettings(ports=ServerPorts(http=0, grpc=0, metrics=0))
    with TritonServer(folder, settings) as server:
        arguments = ["infer", pictures, "--url", server.grpc_url]
        assert_error_message(
            endcap(*arguments, "--model", "broken"),
            "in the parameter labels of model 'broken', the labels begin with [",
        )
        named = endcap(*arguments, "--model", "broken", "--labels", names, "--json")
        assert_error_message(endcap(*arguments), "--model (`model=` in Python): broken, classify")
    assert named.exit_code == 0, "labels given on the command line are not requested"
    assert [each["label"] for each in json.loads(named.stdout)[0]["classes"]] == ["one", "fish"]


def test_evaluate_refuses_a_classifier(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    annotations = tmp_path / "annotations.json"
    image = {"id": 1, "file_name": "b.jpg"}
    rows = [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [0, 0, 9, 9], "iscrowd": 0}]
    annotations.write_text(
        json.dumps(
            {"images": [image], "annotations": rows, "categories": [{"id": 1, "name": "cat"}]}
        )
    )
    result = endcap("evaluate", pictures, annotations, "--url", urls["grpc"], "--model", "classify")
    assert_error_message(result, "this model returns classes; name a detector with --model")
