"""Heads of networks that suppress by themselves and give more than boxes.

Rows of ``end2end_seg``, ``end2end_pose`` and ``end2end_obb`` are made of the anchors of the yolov8
head of the same kind: without suppression both give the same detections, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import endcap
from tests.reference.placement import letterbox
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import (
    detections_outputs,
    end2end_obb_head,
    end2end_pose_head,
    end2end_seg_outputs,
    obb_head,
    pose_head,
    seg_outputs,
)

forced_implementation = on_each_implementation("box_decode", "nms", "masks")

CLASSES = 3
ANCHORS = 60
GEOMETRY = letterbox(427, 641, 640, 640, upscale=True, pad_align="center").geometry(427, 641)
NO_SUPPRESSION: dict[str, Any] = {"iou_threshold": 1.0, "class_agnostic": False}
SEG: dict[str, Any] = {
    "mask_coefficients": 8,
    "prototype_size": (40, 80),
    "input_size": (320, 640),
}


def to_rows(head: npt.NDArray[Any], *, as_corners: bool) -> npt.NDArray[Any]:
    """Rows [A, 6 + extra] of a head [4 + C + extra, A]: each anchor's best class."""
    boxes, scores, extra = head[:4].T, head[4 : 4 + CLASSES].T, head[4 + CLASSES :].T
    if as_corners:
        half = boxes[:, 2:] / np.float32(2)
        boxes = np.hstack([boxes[:, :2] - half, boxes[:, :2] + half])
    best = scores.argmax(1)
    columns = [boxes, scores.max(1)[:, None], best[:, None], extra]
    return np.ascontiguousarray(np.hstack(columns).astype(head.dtype))


def detect(family: str, head: Any, **options: Any) -> endcap.ImageDetections:
    engine = endcap.Postprocessor(family, num_classes=CLASSES, max_detections=50, **options)
    return engine(head, geometry=GEOMETRY)[0]


def assert_same(actual: endcap.ImageDetections, expected: endcap.ImageDetections) -> None:
    assert len(expected) > 10
    np.testing.assert_array_equal(actual.indices, expected.indices)
    np.testing.assert_array_equal(actual.class_ids, expected.class_ids)
    np.testing.assert_array_equal(actual.scores, expected.scores)
    np.testing.assert_array_equal(actual.boxes, expected.boxes)


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_keypoints(values: int, dtype: type) -> None:
    head = pose_head(1, anchors=ANCHORS, num_classes=CLASSES, keypoints=5, values=values)
    # Boxes of whole pixels: corners and centres say the same in either form and precision.
    head[:4] = np.round(head[:4] / 4) * 4
    head = head.astype(dtype)
    options = {"num_keypoints": 5, "keypoint_values": values}
    expected = detect("yolov8_pose", head, **NO_SUPPRESSION, **options)
    actual = detect("end2end_pose", to_rows(head, as_corners=True), **options)
    assert_same(actual, expected)
    assert actual.keypoints is not None
    np.testing.assert_array_equal(actual.keypoints, expected.keypoints)
    assert len(np.unique(actual.keypoints)) > 50


@pytest.mark.parametrize("resolution", ["input", "source"])
def test_masks(resolution: str) -> None:
    parts = seg_outputs(2, anchors=ANCHORS, num_classes=CLASSES, size=(40, 80))
    head = parts["head"]
    head[:4] = np.round(head[:4] / 4) * 4
    options = {**SEG, "mask_resolution": resolution}
    expected = detect("yolov8_seg", parts, **NO_SUPPRESSION, **options)
    rows = {"head": to_rows(head, as_corners=True), "protos": parts["protos"]}
    actual = detect("end2end_seg", rows, **options)
    assert_same(actual, expected)
    assert actual.masks is not None
    assert expected.masks is not None
    np.testing.assert_array_equal(actual.masks, expected.masks)
    assert actual.masks.any()


@pytest.mark.parametrize("unit", ["pixel", "normalized"])
def test_angles(unit: str) -> None:
    head = obb_head(3, anchors=ANCHORS, num_classes=CLASSES)
    if unit == "normalized":
        head[:4] /= np.float32(640)
    options = {"box_unit": unit, "input_size": (640, 640)}
    expected = detect("yolov8_obb", head, **NO_SUPPRESSION, **options)
    actual = detect("end2end_obb", to_rows(head, as_corners=False), **options)
    assert_same(actual, expected)
    assert actual.angles is not None
    np.testing.assert_array_equal(actual.angles, expected.angles)
    assert len(np.unique(actual.angles)) > 10


def test_only_the_best_rows_are_returned() -> None:
    head = end2end_obb_head(4, rows=200, num_classes=CLASSES)
    best = np.argsort(-head[:, 4], kind="stable")[:50]
    found = detect("end2end_obb", head, score_threshold=0.0)
    np.testing.assert_array_equal(found.indices, best)


@pytest.mark.parametrize(
    ("family", "head", "options"),
    [
        (
            "end2end_seg",
            end2end_seg_outputs(5, rows=20, num_classes=CLASSES, size=(40, 80)),
            SEG,
        ),
        (
            "end2end_pose",
            {"head": end2end_pose_head(5, rows=20, num_classes=CLASSES, keypoints=2)},
            {"num_keypoints": 2},
        ),
        ("end2end_obb", {"head": end2end_obb_head(5, rows=20, num_classes=CLASSES)}, {}),
    ],
)
def test_a_value_that_is_not_finite(family: str, head: Any, options: dict[str, Any]) -> None:
    row = int(head["head"][:, 4].argmax())
    head["head"][row, :4] = [100, 200, 300, 400]  # in the image
    head["head"][row, 6] = np.inf
    with pytest.raises(
        endcap.InvalidArgumentError, match=rf"head has inf in column 6 of row {row}"
    ):
        detect(family, head, **options)
    head["head"][row, 4] = 0  # below the threshold: its values are not read
    assert len(detect(family, head, **options)) > 0


def test_a_score_that_is_nan() -> None:
    head = end2end_pose_head(6, rows=9, num_classes=CLASSES, keypoints=2)
    head[3, 4] = np.nan
    with pytest.raises(endcap.InvalidArgumentError, match=rf"head is NaN at element {3 * 12 + 4}"):
        detect("end2end_pose", head, num_keypoints=2)


def test_corners_are_refused_for_rotated_boxes() -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="box_format is xyxy with head end2end_o"):
        endcap.Postprocessor("end2end_obb", box_format="xyxy")


@pytest.mark.parametrize("ids", [np.int32, np.int64])
def test_detections_are_efficient_nms_without_a_count(ids: type) -> None:
    parts = detections_outputs(1)
    parts["classes"] = parts["classes"].astype(ids)
    engine = endcap.Postprocessor("detections", num_classes=7)
    actual = engine(parts, geometry=GEOMETRY)[0]
    counted = {"num_detections": np.array([20], np.int32), **parts}
    expected = endcap.Postprocessor("efficient_nms", num_classes=7)(counted, geometry=GEOMETRY)[0]
    assert_same(actual, expected)


@pytest.mark.parametrize(("background", "shift", "missing"), [("first", 1, 0), ("last", 0, 6)])
def test_class_ids_for_no_object(background: str, shift: int, missing: int) -> None:
    parts = detections_outputs(2)
    all_rows = endcap.Postprocessor("detections", num_classes=7, score_threshold=0.0)(parts)[0]
    options: dict[str, Any] = {"num_classes": 6, "score_threshold": 0.0, "background": background}
    found = endcap.Postprocessor("detections", **options)(parts)[0]
    kept = all_rows.class_ids != missing
    assert 0 < kept.sum() < len(kept)
    np.testing.assert_array_equal(found.indices, all_rows.indices[kept])
    np.testing.assert_array_equal(found.class_ids, all_rows.class_ids[kept] - shift)
    np.testing.assert_array_equal(found.boxes, all_rows.boxes[kept])


@pytest.mark.parametrize("background", ["none", "first"])
@pytest.mark.parametrize("bad", [-1, 8, 2**31])
def test_an_unknown_class(background: str, bad: int) -> None:
    parts = detections_outputs(3)
    parts["classes"] = parts["classes"].copy()
    parts["classes"][0] = bad
    engine = endcap.Postprocessor("detections", num_classes=7, background=background)
    with pytest.raises(endcap.InvalidArgumentError, match=r"row 0 has class .*: num_classes is 7"):
        engine(parts)


def test_no_rows() -> None:
    parts = {name: part[:0] for name, part in detections_outputs(4).items()}
    assert len(endcap.Postprocessor("detections", num_classes=7)(parts)[0]) == 0
