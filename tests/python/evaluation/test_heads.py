"""The reference's heads and suppression against endcap's own stages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jpegs
import numpy as np
import pytest
from onnx_heads import write_network
from sample_heads import Floats, yolov5_head, yolov8_head
from tolerances import ROUND_TRIP_PIXELS

import endcap
from endcap.errors import InvalidArgumentError
from endcap.evaluation.annotations import AnnotatedImage, Dataset
from endcap.evaluation.categories import ClassMap
from endcap.evaluation.numpy_heads import read_head, suppress
from endcap.evaluation.reference import Reference, predict_reference
from endcap.evaluation.reference_settings import HeadName, ReferenceSettings

SIZE = (320, 416)  # height, width

HEADS: dict[HeadName, Callable[..., Floats]] = {
    HeadName.yolov8: yolov8_head,
    HeadName.yolov5: yolov5_head,
}


@pytest.mark.parametrize("family", list(HEADS))
@pytest.mark.parametrize(
    "options",
    [
        {"score_threshold": 0.001},
        {"score_threshold": 0.25, "iou_threshold": 0.45},
        {"score_threshold": 0.3, "multi_label": True},
        {"score_threshold": 0.3, "class_agnostic": True, "max_detections": 20},
        {"score_threshold": 0.01, "max_candidates": 100},
        {"score_threshold": 1.0},
    ],
)
def test_detections_are_those_of_postprocess(
    tmp_path: Path, family: HeadName, options: dict[str, Any]
) -> None:
    head = HEADS[family](7, anchors=800, num_classes=5)
    image = jpegs.photo_jpeg(300, 500)
    network = write_network(tmp_path / "model.onnx", head, image=[1, 3, *SIZE])
    settings = ReferenceSettings(head=family, **options)
    boxes, scores, class_ids = Reference(network, settings).detect(image)
    geometry = endcap.preprocess(image, preset="ultralytics", size=SIZE).geometry
    postprocess = endcap.Postprocessor(family.value, num_classes=5, **options)
    expected = postprocess(head[None], geometry)[0]
    assert class_ids.tolist() == expected.class_ids.tolist()
    assert scores.astype(np.float32).tolist() == expected.scores.tolist()
    np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=ROUND_TRIP_PIXELS)
    assert (len(boxes) > 0) == (options["score_threshold"] < 1.0)


@pytest.mark.parametrize("seed", range(3))
def test_suppression_is_that_of_batched_nms(seed: int) -> None:
    random = np.random.default_rng(seed)
    corners = random.uniform(0, 200, (600, 2))
    boxes = np.concatenate([corners, corners + random.uniform(0, 80, (600, 2))], 1)
    boxes[:5, 2:] = boxes[:5, :2]  # empty ones, two of them equal
    boxes[1] = boxes[0]
    class_ids = random.integers(0, 4, 600)
    scores = np.linspace(1, 0, 600, dtype=np.float32)
    kept = suppress(boxes, class_ids, iou_threshold=0.4, max_detections=600)
    single = boxes.astype(np.float32)
    expected = endcap.batched_nms(single, scores, class_ids.astype(np.int32), iou_threshold=0.4)
    assert kept.tolist() == list(expected)


def two_boxes(second: list[float], scores: list[list[float]]) -> Floats:
    """Head yolov8 [4 + C, 2] of a box at 32, 32 of 20 x 20 and another one; scores [2, C]."""
    rows = [[32, 32, 20, 20, *scores[0]], [*second, *scores[1]]]
    return np.ascontiguousarray(np.array(rows, np.float32).T)


SHIFTED = [34.0, 32.0, 20.0, 20.0]  # IoU 18 / 22


@pytest.mark.parametrize(("class_agnostic", "left"), [(False, [0, 1]), (True, [0])])
def test_classes_suppress_each_other_where_they_are_one(
    tmp_path: Path, class_agnostic: bool, left: list[int]
) -> None:
    head = two_boxes(SHIFTED, [[0.9, 0.0], [0.0, 0.8]])
    network = write_network(tmp_path / "model.onnx", head, image=[1, 3, 64, 64])
    settings = ReferenceSettings(num_classes=2, class_agnostic=class_agnostic)
    _, _, class_ids = Reference(network, settings).detect(jpegs.photo_jpeg(64, 64))
    postprocess = endcap.Postprocessor(
        num_classes=2, score_threshold=0.001, class_agnostic=class_agnostic
    )
    assert class_ids.tolist() == left == postprocess(head[None])[0].class_ids.tolist()


def test_a_pair_exactly_at_the_threshold_stays() -> None:
    boxes = np.array([[0.0, 0, 10, 10], [0, 0, 10, 5]])
    for threshold, left in ((0.5, [0, 1]), (np.nextafter(0.5, 0.0), [0])):
        kept = suppress(boxes, np.zeros(2, np.int64), iou_threshold=threshold, max_detections=9)
        assert kept.tolist() == left
    expected = endcap.nms(boxes.astype(np.float32), np.array([0.9, 0.8], np.float32), 0.5)
    assert list(expected) == [0, 1]


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_score_exactly_at_the_threshold_is_no_candidate(multi_label: bool) -> None:
    head = two_boxes([10.0, 10.0, 4.0, 4.0], [[0.5, 0.1], [0.75, 0.5]])
    settings = ReferenceSettings(num_classes=2, score_threshold=0.5, multi_label=multi_label)
    postprocess = endcap.Postprocessor(num_classes=2, score_threshold=0.5, multi_label=multi_label)
    _, scores, _ = read_head(head, settings)
    assert scores.tolist() == [0.75] == postprocess(head[None])[0].scores.tolist()


@pytest.mark.parametrize("family", list(HEADS))
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("column", range(7))
@pytest.mark.parametrize("anchor", [0, 1])
def test_what_is_no_finite_number_is_refused_where_postprocess_does(
    family: HeadName, value: float, column: int, anchor: int
) -> None:
    rows = np.array([[32, 32, 20, 20, 0.9, 0.8, 0.5], [9, 9, 4, 4, 0.1, 0.0, 0.1]], np.float32)
    rows[anchor, column] = value
    head = rows if family is HeadName.yolov5 else np.ascontiguousarray(rows.T)
    num_classes = 2 if family is HeadName.yolov5 else 3
    postprocess = endcap.Postprocessor(family.value, num_classes=num_classes, score_threshold=0.2)
    settings = ReferenceSettings(head=family, num_classes=num_classes, score_threshold=0.2)
    try:
        expected = postprocess(head[None])[0]
    except InvalidArgumentError:
        with pytest.raises(InvalidArgumentError, match=r"is not finite|is NaN"):
            read_head(head, settings)
        return
    boxes, scores, class_ids = read_head(head, settings)
    assert not np.isnan(value)
    assert boxes.tolist() == expected.boxes.tolist()
    assert scores.astype(np.float32).tolist() == expected.scores.tolist()
    assert class_ids.tolist() == expected.class_ids.tolist()


def test_an_image_whose_head_is_no_number_fails_alone(tmp_path: Path) -> None:
    """A white image makes the head of this network infinite, a black one adds 0."""
    head = two_boxes(SHIFTED, [[0.9], [0.8]])
    size = [1, 3, 64, 64]
    network = write_network(tmp_path / "model.onnx", head, image=size, factor=3e38)
    for image_id, level in ((1, 0), (2, 255)):
        pixels = np.full((64, 64, 3), level, np.uint8)
        (tmp_path / f"{image_id}.jpg").write_bytes(jpegs.encode(pixels))
    images = tuple(AnnotatedImage(i, tmp_path / f"{i}.jpg") for i in (1, 2))
    settings = ReferenceSettings(scale=1.0)
    found = predict_reference(
        Reference(network, settings),
        Dataset(images, {3: "cat"}, ()),
        ClassMap({0: 3}, allow_unmatched=False),
        on_image=lambda: None,
    )
    assert list(found.by_image) == [1]
    (failure,) = found.failures
    assert (failure.image, failure.status) == (str(tmp_path / "2.jpg"), "invalid_argument")
    assert "is not finite" in failure.error
