"""Networks of ultralytics, exported by itself, behind `endcap init`: its post-processing agrees.

Weights are random, with final layers that spread scores over 0 to 1: what is compared is how a head
is read, and that needs many boxes of all scores, not right ones.
"""

from __future__ import annotations

import os
import subprocess
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pictures import picture
from tolerances import (
    PEER_BOX_PIXELS,
    PEER_CLASS_SCORE,
    PEER_MASK_IOU,
    PEER_NETWORK_SCORE,
    PEER_SCORE,
    TURNED_ANGLE,
)
from ultralytics import RTDETR, YOLO
from ultralytics.utils import nms, ops

from endcap.masks import decode_rle

SERVER_PYTHON = os.environ.get("ENDCAP_SERVER_PYTHON")
SIDE = 160
SCRIPT = Path(__file__).with_name("served_export.py")

pytestmark = pytest.mark.skipif(
    SERVER_PYTHON is None, reason="ENDCAP_SERVER_PYTHON names no Python with the extra `server`"
)


def export(folder: Path, yaml: str, **options: Any) -> tuple[Path, Any]:
    """Builds a network from ultralytics' YAML and has it export itself; gives file and network."""
    torch.manual_seed(0)
    network = (RTDETR if yaml.startswith("rtdetr") else YOLO)(yaml)
    spread_scores(network.model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporter, about itself
        path = network.export(format="onnx", imgsz=SIDE, simplify=False, opset=17, **options)
    target = folder / "network.onnx"
    Path(path).replace(target)
    return target, network


def spread_scores(network: Any) -> None:
    """Gives the last layers of the class scores weights with which logits are about -1 +- 2.

    So, too, those of masks, keypoints and angles, which would be nearly the same everywhere.
    """
    head = network.model[-1]
    last = ("cv3", "one2one_cv3", "cv4")
    layers = [branch[-1] for name in last for branch in getattr(head, name, ())]
    layers += [*getattr(head, "dec_score_head", ())]
    layers = [layer for layer in layers if hasattr(layer, "weight")]  # no blocks of several

    def scale(layer: Any, inputs: Any) -> None:
        features = inputs[0].transpose(1, -1) if inputs[0].dim() == 4 else inputs[0]
        deviation = float((features - features.mean(dim=(0, 1, 2)[: features.dim() - 1])).std())
        torch.nn.init.normal_(layer.weight, std=2 / deviation / layer.weight[0].numel() ** 0.5)
        mean = features.flatten(0, -2).mean(dim=0)
        layer.bias.data = -1 - layer.weight.flatten(1) @ mean

    def normalise(layer: Any, inputs: Any) -> None:
        inner = inputs[0][..., 8:-8, 8:-8]  # borders are unlike all else to such a network
        layer.running_var, layer.running_mean = torch.var_mean(inner, dim=(0, 2, 3))

    hooks = [layer.register_forward_pre_hook(scale) for layer in layers]
    if hasattr(head, "proto"):  # else a mask would be its whole box, or nothing
        hooks.append(head.proto.cv3.bn.register_forward_pre_hook(normalise))
    with torch.no_grad():
        coarse = torch.rand(1, 3, 8, 8)
        network.eval()(torch.nn.functional.interpolate(coarse, SIDE, mode="bilinear"))
    for hook in hooks:
        hook.remove()


def serve(model: Path, *options: str) -> dict[str, Any]:
    """What each hop gave; see served_export.py."""
    photograph = model.with_suffix(".jpg")
    photograph.write_bytes(picture("bus"))
    result = model.with_suffix(".npz")
    command = [SERVER_PYTHON, SCRIPT, model, photograph, result, *options]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return dict(np.load(result))


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


@pytest.mark.parametrize("yaml", ["yolov8n.yaml", "yolov5n.yaml", "yolo11n.yaml"])
@pytest.mark.parametrize("dynamic", [False, True])
def test_heads_with_suppression_behind_them(folder: Path, yaml: str, dynamic: bool) -> None:
    model, _ = export(folder, yaml, dynamic=dynamic)
    response = serve(model)
    head = torch.from_numpy(response["output0"])
    (expected,) = nms.non_max_suppression(head, 0.25, 0.7, max_time_img=60)
    ops.scale_boxes((SIDE, SIDE), expected[:, :4], picture_shape(response))
    assert_detections(response, expected, at_least=20)


def suppressed(response: dict[str, Any], classes: int, *, rotated: bool = False) -> Any:
    """Rows of box, score, class and what the head has more, in pixels of the network's images."""
    head = torch.from_numpy(response["output0"])
    (rows,) = nms.non_max_suppression(head, 0.25, 0.7, nc=classes, rotated=rotated, max_time_img=60)
    return rows


@pytest.mark.parametrize("yaml", ["yolov8n-seg.yaml", "yolo11n-seg.yaml", "yolo26n-seg.yaml"])
def test_masks(folder: Path, yaml: str) -> None:
    model, _ = export(folder, yaml)
    response = serve(model)
    rows = suppressed(response, 80)
    size = picture_shape(response)
    rows[:, :4] = ops.scale_boxes((SIDE, SIDE), rows[:, :4], size)
    assert_detections(response, rows, at_least=20)
    prototypes = torch.from_numpy(response["output1"][0])
    expected = ops.process_mask_native(prototypes, rows[:, 6:], rows[:, :4], size).numpy() > 0
    assert response["mask_size"][0].tolist() == list(size)
    texts = response["detection_rle"][0, : len(rows)].tolist()
    given = np.array([decode_rle(text, size) for text in texts])
    areas = ((rows[:, 2] - rows[:, 0]) * (rows[:, 3] - rows[:, 1])).numpy()
    shares = expected.sum((1, 2)) / np.maximum(areas, 1)  # some boxes are clipped to nothing
    assert ((shares > 0.1) & (shares < 0.9)).sum() > 10
    both, either = (given & expected).sum((1, 2)), (given | expected).sum((1, 2))
    assert (either > 500).sum() > 10
    assert (both[either > 500] / either[either > 500]).min() > PEER_MASK_IOU


@pytest.mark.parametrize("yaml", ["yolov8n-pose.yaml", "yolo26n-pose.yaml"])
def test_keypoints(folder: Path, yaml: str) -> None:
    model, network = export(folder, yaml)
    response = serve(model)
    rows = suppressed(response, len(network.names))
    size = picture_shape(response)
    rows[:, :4] = ops.scale_boxes((SIDE, SIDE), rows[:, :4], size)
    assert_detections(response, rows, at_least=20)
    expected = ops.scale_coords((SIDE, SIDE), rows[:, 6:].view(-1, 17, 3), size).numpy()
    given = response["detection_keypoints"][0, : len(rows)]
    np.testing.assert_allclose(given[..., :2], expected[..., :2], rtol=0, atol=PEER_BOX_PIXELS)
    np.testing.assert_array_equal(given[..., 2], expected[..., 2])


@pytest.mark.parametrize("yaml", ["yolov8n-obb.yaml", "yolo11n-obb.yaml", "yolo26n-obb.yaml"])
def test_rotated_boxes(folder: Path, yaml: str) -> None:
    model, _ = export(folder, yaml)
    response = serve(model)
    rows = suppressed(response, 80, rotated=True)
    boxes = ops.scale_boxes((SIDE, SIDE), rows[:, :4], picture_shape(response), xywh=True)
    corners = ops.xywh2xyxy(boxes)
    assert_detections(response, torch.cat([corners, rows[:, 4:6]], dim=1), at_least=20)
    angles = response["detection_angles"][0, : len(rows)]
    assert np.ptp(angles) > 0.5
    np.testing.assert_allclose(angles, rows[:, 6].numpy(), rtol=0, atol=TURNED_ANGLE)


@pytest.mark.parametrize("yaml", ["yolo26n-seg.yaml", "yolo26n-pose.yaml", "yolo26n-obb.yaml"])
def test_suppression_inside_with_more_is_told(folder: Path, yaml: str) -> None:
    model, _ = export(folder, yaml, end2end=True)
    command = [SERVER_PYTHON, "-m", "endcap", "init", model, "-o", folder / "models"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"end2end_{yaml[8:].removesuffix('.yaml')}" in done.stderr
    assert "without its end-to-end branch" in done.stderr


@pytest.mark.parametrize("yaml", ["yolov10n.yaml", "yolo26n.yaml"])
def test_heads_with_suppression_inside(folder: Path, yaml: str) -> None:
    model, _ = export(folder, yaml, end2end=True)
    response = serve(model)
    head = torch.from_numpy(response["output0"])
    (expected,) = nms.non_max_suppression(head, 0.25, max_det=300, end2end=True)
    ops.scale_boxes((SIDE, SIDE), expected[:, :4], picture_shape(response))
    assert_detections(response, expected, at_least=20)


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
