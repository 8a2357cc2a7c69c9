"""How served responses and the reference's find each other."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from endcap.cli.compare import comparison_row, comparison_table, describe_reference_failures
from endcap.client import ClassScore, Detection, ImageDetections, ImageResult, Task
from endcap.errors import InvalidArgumentError
from endcap.evaluation.reference import Reference
from endcap.evaluation.side_by_side import (
    Comparison,
    check_task,
    compare,
    match_classes,
    match_detections,
)
from endcap.predictions import Box
from tests.support import jpegs
from tests.support.onnx_heads import write_classifier, write_network
from tests.support.sample_heads import yolov8_head

SQUARE: Box = (0.0, 0.0, 10.0, 10.0)


def one(box: Box = SQUARE, score: float = 0.5, class_id: int = 0) -> Detection:
    return Detection(box, score, class_id, None, 0)


def moved(pixels: float) -> Box:
    return (pixels, 0.0, 10.0 + pixels, 10.0)


def test_equal_responses_match_without_a_difference() -> None:
    found = [one(), one(moved(50), 0.75, 1)]
    compared = match_detections(found, found)
    assert (compared.served, compared.reference, compared.matched) == (2, 2, 2)
    assert list(compared.only_served) == list(compared.only_reference) == []
    assert (compared.box_difference_pixels, compared.score_difference) == (0, 0)


def test_the_largest_differences_are_of_single_edges_and_scores() -> None:
    served = [one((0.0, 0.0, 10.0, 10.0), 0.5), one((50.0, 50.0, 90.0, 90.0), 0.25)]
    other = [one((0.5, 0.25, 10.0, 10.0), 0.375), one((50.0, 50.0, 90.0, 92.0), 0.25)]
    compared = match_detections(served, other)
    assert (compared.box_difference_pixels, compared.score_difference) == (2.0, 0.125)


@pytest.mark.parametrize(("pixels", "matched"), [(3.0, 1), (10 / 3, 0), (4.0, 0)])
def test_a_pair_matches_above_an_iou_of_a_half(pixels: float, matched: int) -> None:
    """Moved by a third of its side, a square has an IoU of 1/2 with itself."""
    compared = match_detections([one()], [one(moved(pixels))])
    assert compared.matched == matched
    assert len(compared.only_served) == len(compared.only_reference) == 1 - matched
    assert (compared.box_difference_pixels is None) == (matched == 0)


def test_other_classes_do_not_match() -> None:
    compared = match_detections([one(class_id=1)], [one(class_id=2)])
    assert compared.matched == 0
    assert [each.class_id for each in compared.only_served] == [1]
    assert [each.class_id for each in compared.only_reference] == [2]
    assert compared.score_difference is None


def test_the_best_score_chooses_first_and_takes_the_nearest() -> None:
    worse, better = one(moved(1), 0.4), one(moved(0), 0.9)
    near, far = one(moved(0.5), 0.8), one(moved(3), 0.3)
    compared = match_detections([worse, better], [far, near])
    assert compared.matched == 2
    assert compared.box_difference_pixels == 2.0, "better with near, worse with what is left"
    alone = match_detections([worse, better], [near])
    assert list(alone.only_served) == [worse]


def test_nothing_on_one_side_or_both() -> None:
    assert match_detections([], []).matched == 0
    assert list(match_detections([one()], []).only_served) == [one()]
    assert list(match_detections([], [one()]).only_reference) == [one()]


def test_classes_match_by_their_id() -> None:
    served = [ClassScore(3, 0.5, "cat"), ClassScore(1, 0.25, None)]
    other = [ClassScore(1, 0.5, None), ClassScore(4, 0.125, None)]
    compared = match_classes(served, other)
    assert (compared.served, compared.reference, compared.matched) == (2, 2, 1)
    assert list(compared.only_served) == served[:1]
    assert list(compared.only_reference) == other[1:]
    assert (compared.box_difference_pixels, compared.score_difference) == (None, 0.25)


# --- with a network -------------------------------------------------------------------------------


def detector(tmp_path: Path) -> Reference:
    head = yolov8_head(0, anchors=64, num_classes=3)
    head[:4] /= 10  # in the image
    network = write_network(tmp_path / "model.onnx", head)
    after = {"num_classes": 3, "score_threshold": 0.5}
    return Reference(network, {"size": (64, 96)}, after, {"head": "head0"})


def test_what_only_the_reference_found_has_its_name(tmp_path: Path) -> None:
    photo = tmp_path / "photo.jpg"
    photo.write_bytes(jpegs.photo_jpeg(64, 96))
    result = ImageResult(str(photo), "ok")
    compared = compare(detector(tmp_path), result, ["cat", "dog"])
    assert compared.ok
    assert compared.reference == len(compared.only_reference) > 0
    names = {each.class_id: each.label for each in compared.only_reference}
    assert names == {0: "cat", 1: "dog", 2: None}


def test_an_image_that_the_reference_cannot_read_fails_alone(tmp_path: Path) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(b"\xff\xd8 nothing that OpenCV reads")
    reference = detector(tmp_path)
    gone = compare(reference, ImageResult(str(tmp_path / "gone.jpg"), "ok"), None)
    assert (gone.ok, gone.status) == (False, "unreadable")
    compared = compare(
        reference, ImageResult(str(broken), "ok", ImageDetections.from_list([one()])), None
    )
    assert compared.to_json() == {
        "status": "corrupt_image", "error": "OpenCV cannot decode it"
    }  # fmt: skip
    assert describe_reference_failures({"a": Comparison(served=1), "b": compared}) == (
        "the reference failed for 1 of 2 images, first b (corrupt_image: OpenCV cannot decode it)"
    )
    assert describe_reference_failures({"a": Comparison(served=1)}) is None


def test_detectors_and_classifiers_are_not_compared(tmp_path: Path) -> None:
    after = {"head": "classification", "num_classes": 3}
    classifier = Reference(write_classifier(tmp_path / "c.onnx"), {"size": (64, 96)}, after)
    check_task(classifier, Task.classification)
    check_task(detector(tmp_path), Task.detection)
    with pytest.raises(InvalidArgumentError, match="does detection and the repository"):
        check_task(classifier, Task.detection)
    with pytest.raises(InvalidArgumentError, match="does classification and the repository"):
        check_task(detector(tmp_path), Task.classification)


# --- reports --------------------------------------------------------------------------------------

RESULTS = [
    ImageResult("a.jpg", "ok", ImageDetections.from_list([one()])),
    ImageResult("b.jpg", "ok", ImageDetections.from_list([one(), one(class_id=1)])),
    ImageResult("c.jpg", "timeout", error="late"),
    ImageResult("d.jpg", "ok"),
]
COMPARISONS = {
    "a.jpg": match_detections([one()], [one(moved(1), 0.4375)]),
    "b.jpg": match_detections([one(), one(class_id=1)], [one(moved(0.25), 0.25)]),
    "d.jpg": Comparison(served=0, status="corrupt_image", error="OpenCV cannot decode it"),
}


def test_the_table_has_a_line_for_each_image_and_the_worst_last() -> None:
    text = io.StringIO()
    table = comparison_table(RESULTS, COMPARISONS)
    Console(file=text, width=80, highlight=False).print(table, crop=False)
    lines = text.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert [line.split() for line in lines[2:]] == [
        ["a.jpg", "1", "1", "1", "0", "0", "1.00", "px", "0.0625"],
        ["b.jpg", "2", "1", "1", "1", "0", "0.25", "px", "0.2500"],
        ["c.jpg", "timeout"],
        ["d.jpg", "0", "corrupt_i"],
        ["mage"],
        ["all", "2", "3", "2", "2", "1", "0", "1.00", "px", "0.2500"],
        ["compared"],
        ["images"],
    ]


def test_json_has_a_comparison_for_each_image() -> None:
    rows = [comparison_row(each, COMPARISONS) for each in RESULTS]
    assert rows[1]["detections"] == RESULTS[1].to_dict()["detections"]
    assert rows[1]["comparison"] == {
        "status": "ok",
        "served": 2,
        "reference": 1,
        "matched": 1,
        "only_served": [{"box": [*SQUARE], "score": 0.5, "class_id": 1, "label": None}],
        "only_reference": [],
        "largest_box_difference_pixels": 0.25,
        "largest_score_difference": 0.25,
    }
    assert rows[2]["comparison"] is None
    assert rows[3]["comparison"]["status"] == "corrupt_image"
    assert np.isfinite(rows[0]["comparison"]["largest_score_difference"])
