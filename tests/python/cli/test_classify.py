"""endcap infer of a classifier, against a real Triton server with known responses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from endcap.drawing.draw import class_color
from tests.support.cli_runs import assert_error_message, endcap

CLASSES = [
    {"class_id": 1, "label": "dog, small", "score": 0.75},
    {"class_id": 2, "label": "fish", "score": 0.25},
]


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


def test_broken_labels_are_an_error_unless_others_are_given(
    urls: dict[str, str], pictures: Path, tmp_path: Path
) -> None:
    names = tmp_path / "labels.txt"
    names.write_text("zero\none\n")
    arguments = ["infer", pictures, "--url", urls["grpc"], "--model", "broken"]
    assert_error_message(
        endcap(*arguments),
        "in the parameter labels of model 'broken', the labels begin with [",
    )
    named = endcap(*arguments, "--labels", names, "--json")
    assert named.exit_code == 0, "labels given on the command line are not requested"
    assert [each["label"] for each in json.loads(named.stdout)[0]["classes"]] == ["one", "fish"]
