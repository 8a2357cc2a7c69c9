"""The reference's heads and suppression against endcap's own stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import endcap
from endcap.evaluation.annotations import Dataset
from endcap.evaluation.categories import ClassMap
from endcap.evaluation.numpy_heads import best_classes, read_head, suppress
from endcap.evaluation.reference import Reference, predict_reference
from tests.support import jpegs
from tests.support.onnx_heads import write_heads, write_network
from tests.support.sample_heads import (
    efficient_nms_outputs,
    end2end_head,
    end2end_pose_head,
    end2end_seg_outputs,
    pose_head,
    rtdetr_outputs,
    seg_outputs,
    yolov5_head,
    yolov8_head,
)
from tests.support.tolerances import ACTIVATION_RTOL, ROUND_TRIP_PIXELS

SIZE = (320, 416)  # height, width
CLASSES = 7
PROTOTYPES = {"mask_coefficients": 8, "prototype_size": (80, 104)}
Heads = dict[str, NDArray[Any]]


def to_logits(scores: NDArray[np.float32]) -> NDArray[np.float32]:
    """Raw numbers that sigmoid makes these scores of."""
    clipped = np.clip(scores.astype(np.float64), 1e-6, 1 - 1e-6)
    return np.log(clipped / (1 - clipped)).astype(np.float32)


def yolov8(*, raw: bool = False, scale: float = 1.0, corners: bool = False) -> Heads:
    head = yolov8_head(7, anchors=400, num_classes=CLASSES)
    head[:4] *= scale
    if raw:
        head[4:] = to_logits(head[4:])
    if corners:
        head[2:4] += head[:2]
    return {"head": head}


def yolov5(*, raw: bool = False) -> Heads:
    head = yolov5_head(7, anchors=400, num_classes=CLASSES)
    if raw:
        head[:, 4:] = to_logits(head[:, 4:])
    return {"head": head}


def rtdetr(columns: int = CLASSES, *, scale: tuple[int, int] = (1, 1)) -> Heads:
    parts = rtdetr_outputs(5, queries=150, num_classes=CLASSES, columns=columns)
    return {**parts, "boxes": parts["boxes"] * np.float32([*scale, *scale])}


def joined_rtdetr() -> Heads:
    parts = rtdetr()
    scores = (1 / (1 + np.exp(-parts["logits"]))).astype(np.float32)
    return {"head": np.hstack([parts["boxes"], scores])}


CASES: list[tuple[str, Heads, dict[str, Any]]] = [
    ("yolov8", yolov8(), {}),
    ("yolov8", yolov8(), {"iou_threshold": 0.45}),
    ("yolov8", yolov8(), {"multi_label": True}),
    ("yolov8", yolov8(), {"class_agnostic": True}),
    ("yolov8", yolov8(), {"max_candidates": 9}),
    ("yolov8", yolov8(), {"max_detections": 4}),
    ("yolov8", yolov8(raw=True), {"activation": "sigmoid"}),
    ("yolov8", yolov8(scale=1 / 640), {"box_unit": "normalized", "input_size": SIZE}),
    ("yolov8", yolov8(corners=True), {"box_format": "xyxy"}),
    ("yolov8_pose", {"head": pose_head(3, anchors=300, num_classes=CLASSES, keypoints=5)},
     {"num_keypoints": 5}),
    ("yolov8_seg", seg_outputs(3, anchors=300, num_classes=CLASSES, size=(80, 104)), PROTOTYPES),
    ("yolov5", yolov5(), {}),
    ("yolov5", yolov5(), {"multi_label": True}),
    ("yolov5", yolov5(raw=True), {"activation": "sigmoid"}),
    ("end2end", {"head": end2end_head(3, rows=300, num_classes=CLASSES)}, {}),
    ("end2end", {"head": end2end_head(3, rows=300, num_classes=CLASSES)},
     {"activation": "sigmoid", "box_format": "cxcywh", "max_detections": 4}),
    ("end2end_seg", end2end_seg_outputs(3, rows=40, num_classes=CLASSES, size=(80, 104)),
     PROTOTYPES),
    ("end2end_pose", {"head": end2end_pose_head(3, rows=40, num_classes=CLASSES, keypoints=5)},
     {"num_keypoints": 5}),
    ("efficient_nms", efficient_nms_outputs(12), {}),
    ("efficient_nms", efficient_nms_outputs(0), {}),
    ("rtdetr", rtdetr(), {}),
    ("rtdetr", rtdetr(), {"multi_label": False, "max_candidates": 9}),
    ("rtdetr", rtdetr(scale=SIZE[::-1]), {"box_unit": "pixel"}),
    ("rtdetr", rtdetr(), {"activation": "softmax"}),
    ("rtdetr", rtdetr(CLASSES + 1), {"activation": "softmax", "background": "first"}),
    ("rtdetr", rtdetr(CLASSES + 1), {"activation": "softmax", "background": "last"}),
    ("rtdetr", joined_rtdetr(), {"joined": True}),
]  # fmt: skip


@pytest.mark.parametrize(("family", "heads", "options"), CASES)
def test_detections_are_those_of_postprocess(
    tmp_path: Path, family: str, heads: Heads, options: dict[str, Any]
) -> None:
    image = jpegs.photo_jpeg(300, 500)
    network = write_heads(tmp_path / "model.onnx", heads, image=[3, *SIZE])
    after = {"head": family, "num_classes": CLASSES, "score_threshold": 0.3, **options}
    if family == "rtdetr":
        after["input_size"] = SIZE
    boxes, scores, class_ids = Reference(network, {"size": SIZE}, after).detect(image)
    geometry = endcap.preprocess(image, size=SIZE).geometry
    batch: Any = {name: head[None] for name, head in heads.items()}
    given = batch["head"] if len(heads) == 1 else batch
    expected = endcap.Postprocessor(**after)(given, geometry)[0]
    assert class_ids.tolist() == expected.class_ids.tolist()
    np.testing.assert_allclose(scores, expected.scores, rtol=ACTIVATION_RTOL)
    np.testing.assert_allclose(boxes, expected.boxes, rtol=0, atol=ROUND_TRIP_PIXELS)
    nothing = family == "efficient_nms" and heads["num_detections"][0] == 0
    assert (len(boxes) > 0) != nothing


def parameters(head: str, num_classes: int, **options: Any) -> dict[str, str]:
    return endcap.Postprocessor(head, num_classes, **options).parameters


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"activation": "sigmoid", "top_k": 3},
        {"activation": "none", "top_k": CLASSES},
        {"activation": "sigmoid", "multi_label": True, "score_threshold": 0.6},
    ],
)
def test_classes_are_those_of_postprocess(options: dict[str, Any]) -> None:
    logits = np.random.default_rng(3).normal(0, 3, CLASSES).astype(np.float32)
    logits[4] = logits[1]  # of equal scores the lower class comes first
    scores, class_ids = best_classes(logits, parameters("classification", CLASSES, **options))
    expected = endcap.Postprocessor("classification", CLASSES, **options)(logits[None])
    (kept,) = np.nonzero(expected.class_ids[0] >= 0)
    assert class_ids.tolist() == expected.class_ids[0, kept].tolist()
    np.testing.assert_allclose(scores, expected.scores[0, kept], rtol=ACTIVATION_RTOL)


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


def test_a_pair_exactly_at_the_threshold_stays() -> None:
    boxes = np.array([[0.0, 0, 10, 10], [0, 0, 10, 5]])
    for threshold, left in ((0.5, [0, 1]), (np.nextafter(0.5, 0.0), [0])):
        kept = suppress(boxes, np.zeros(2, np.int64), iou_threshold=threshold, max_detections=9)
        assert kept.tolist() == left


@pytest.mark.parametrize("multi_label", [False, True])
def test_a_score_exactly_at_the_threshold_is_not_a_candidate(multi_label: bool) -> None:
    head = np.float32([[10, 10, 4, 4, 0.5, 0.1], [10, 10, 4, 4, 0.75, 0.5]]).T
    options: Any = {"score_threshold": 0.5, "multi_label": multi_label}
    _, scores, _ = read_head([head], parameters("yolov8", 2, **options))
    assert scores.tolist() == [0.75]


def test_an_image_whose_head_is_not_finite_fails_alone(tmp_path: Path) -> None:
    """A white image makes the head of this network infinite, a black one adds 0."""
    head = np.float32([[32, 32, 20, 20, 0.9], [34, 32, 20, 20, 0.8]]).T
    network = write_network(tmp_path / "model.onnx", head, image=[1, 3, 64, 64], factor=3e38)
    for image_id, level in ((1, 0), (2, 255)):
        pixels = np.full((64, 64, 3), level, np.uint8)
        (tmp_path / f"{image_id}.jpg").write_bytes(jpegs.encode(pixels))
    images = {i: tmp_path / f"{i}.jpg" for i in (1, 2)}
    before = {"size": 64, "scale": 1}
    found = predict_reference(
        Reference(network, before, {"num_classes": 1}, {"head": "head0"}),
        Dataset(images, {3: "cat"}, ()),
        ClassMap({0: 3}),
        on_image=lambda: None,
    )
    assert {row["image_id"] for row in found.rows} == {1}
    (failure,) = found.failures
    assert (failure.image, failure.status) == (str(tmp_path / "2.jpg"), "invalid_argument")
    assert "is not finite" in failure.error
