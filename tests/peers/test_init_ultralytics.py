"""Networks of ultralytics, exported by itself, behind `endcap init`: its post-processing agrees.

Weights are random, with final layers that spread scores over 0 to 1: what is compared is how a head
is read, and that needs many boxes of all scores, not right ones.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ultralytics import YOLO
from ultralytics.utils import nms, ops

from endcap.masks import decode_rle
from tests.peers.exporting import SERVER_PYTHON, SIDE, WITHOUT_SERVER, export, serve
from tests.support.tolerances import (
    PEER_BOX_PIXELS,
    PEER_CLASS_SCORE,
    PEER_MASK_IOU,
    PEER_NETWORK_SCORE,
    PEER_SCORE,
    ROTATED_ANGLE,
)

pytestmark = pytest.mark.skipif(SERVER_PYTHON is None, reason=WITHOUT_SERVER)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # the exporter writes where it stands
    return tmp_path


def assert_detections(response: dict[str, Any], expected: Any, *, at_least: int) -> None:
    """expected: rows x1, y1, x2, y2, score, class in pixels of the picture, best first."""
    count = int(response["num_detections"][0, 0])
    rows = expected.numpy()
    assert count == len(rows) >= at_least
    scores, boxes = response["detection_scores"][0, :count], response["detection_boxes"][0, :count]
    np.testing.assert_allclose(scores, rows[:, 4], rtol=0, atol=PEER_SCORE)
    np.testing.assert_allclose(boxes, rows[:, :4], rtol=0, atol=PEER_BOX_PIXELS)
    np.testing.assert_array_equal(response["detection_classes"][0, :count], rows[:, 5])


def picture_shape(response: dict[str, Any]) -> tuple[int, int]:
    width, height = response["geometry"][0, 4:6]
    return int(height), int(width)


@pytest.mark.parametrize("yaml", ["yolov8n.yaml", "yolov5n.yaml"])
def test_heads_with_suppression_behind_them(folder: Path, yaml: str) -> None:
    model, _ = export(folder, yaml, dynamic=True)
    response = serve(model)
    head = torch.from_numpy(response["output0"])
    (expected,) = nms.non_max_suppression(head, 0.25, 0.7, max_time_img=60)
    ops.scale_boxes((SIDE, SIDE), expected[:, :4], picture_shape(response))
    assert_detections(response, expected, at_least=20)


def has_area(boxes: Any) -> Any:
    """Which boxes x1, y1, x2, y2 have an area; Ultralytics keeps the others, too."""
    return (boxes[:, 0] < boxes[:, 2]) & (boxes[:, 1] < boxes[:, 3])


# Both ways to suppression inside the network: behind its head, and a branch that needs none.
INSIDE = [("yolov8n", {"nms": True}), ("yolo26n", {"end2end": True})]


def predicted_by(model: Path, task: str, **options: Any) -> Any:
    """What the package's own pipeline finds with an ONNX file in the picture beside it."""
    picture = model.with_suffix(".jpg")
    (found,) = YOLO(model, task=task).predict(
        picture, imgsz=SIDE, conf=0.25, verbose=False, **options
    )
    return found


@pytest.mark.parametrize(("name", "options"), INSIDE)
def test_masks_with_suppression_inside(folder: Path, name: str, options: dict[str, bool]) -> None:
    model, _ = export(folder, f"{name}-seg.yaml", **options)
    response = serve(model)
    found = predicted_by(model, "segment", retina_masks=True)
    size = picture_shape(response)
    count = int(response["num_detections"][0, 0])
    texts = response["detection_rle"][0, :count].tolist()
    given = np.array([decode_rle(text, size) for text in texts])
    # The package leaves out detections whose mask has no pixel.
    shown = np.flatnonzero(given.any((1, 2)))
    given = given[shown]
    parts = {f"detection_{name}" for name in ("boxes", "scores", "classes")}
    kept = {name: response[name][:, shown] for name in parts}
    kept["num_detections"] = np.array([[len(shown)]])
    assert_detections(kept, found.boxes.data, at_least=20)
    expected = found.masks.data.numpy() > 0
    both, either = (given & expected).sum((1, 2)), (given | expected).sum((1, 2))
    assert (either > 500).sum() > 10
    assert (both[either > 500] / either[either > 500]).min() > PEER_MASK_IOU


@pytest.mark.parametrize(("name", "options"), INSIDE)
def test_keypoints_with_suppression_inside(
    folder: Path, name: str, options: dict[str, bool]
) -> None:
    model, _ = export(folder, f"{name}-pose.yaml", **options)
    response = serve(model)
    found = predicted_by(model, "pose")
    kept = has_area(found.boxes.data)
    assert_detections(response, found.boxes.data[kept], at_least=20)
    expected = found.keypoints.data[kept].numpy()
    given = response["detection_keypoints"][0, : len(expected)]
    np.testing.assert_allclose(given[..., :2], expected[..., :2], rtol=0, atol=PEER_BOX_PIXELS)
    np.testing.assert_allclose(given[..., 2], expected[..., 2], rtol=0, atol=PEER_SCORE)


@pytest.mark.parametrize(("name", "options"), INSIDE)
def test_rotated_boxes_with_suppression_inside(
    folder: Path, name: str, options: dict[str, bool]
) -> None:
    model, _ = export(folder, f"{name}-obb.yaml", **options)
    response = serve(model)
    rows = predicted_by(model, "obb").obb.data  # x, y, w, h, angle, score, class
    corners = ops.xywh2xyxy(rows[:, :4])
    assert_detections(response, torch.cat([corners, rows[:, 5:7]], dim=1), at_least=20)
    angles = response["detection_angles"][0, : len(rows)]
    np.testing.assert_allclose(angles, rows[:, 4].numpy(), rtol=0, atol=ROTATED_ANGLE)


def test_rtdetr(folder: Path) -> None:
    model, network = export(folder, "rtdetr-l.yaml")
    response = serve(model)
    (rows,) = torch.from_numpy(response["output0"])
    kept = rows[rows[:, 4] > 0.25]
    height, width = picture_shape(response)
    boxes = ops.xywh2xyxy(kept[:, :4]) * torch.tensor([width, height, width, height])
    boxes[:, 0::2] = boxes[:, 0::2].clamp(0, width)
    boxes[:, 1::2] = boxes[:, 1::2].clamp(0, height)
    expected = torch.cat([boxes, kept[:, 4:]], dim=1)
    assert_detections(response, expected, at_least=20)
    # The whole way, too: its images are stretched by another recipe than those of the others.
    (predicted,) = network.predict(model.with_suffix(".jpg"), imgsz=SIDE, verbose=False, conf=0.25)
    scores = np.sort(response["detection_scores"][0, : len(kept)])
    np.testing.assert_allclose(
        scores, np.sort(predicted.boxes.conf.numpy()), rtol=0, atol=PEER_NETWORK_SCORE
    )


def test_classifier(folder: Path) -> None:
    model, network = export(folder, "yolov8n-cls.yaml")
    response = serve(model)
    (predicted,) = network.predict(model.with_suffix(".jpg"), imgsz=SIDE, verbose=False)
    expected = predicted.probs.data.numpy()
    given = response["class_probabilities"][0]
    np.testing.assert_allclose(given, expected, rtol=0, atol=PEER_CLASS_SCORE)
    assert response["class_ids"][0, 0] == given.argmax()
