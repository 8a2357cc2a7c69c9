"""Postprocessing on a GPU gives the CPU's detections, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from both_devices import GEOMETRY, assert_same, both
from sample_heads import (
    efficient_nms_outputs,
    end2end_head,
    obb_head,
    pose_head,
    rtdetr_outputs,
    ssd_outputs,
    yolov5_head,
    yolov8_head,
)

import endcap


def heads(count: int, anchors: int = 700, num_classes: int = 5, levels: int = 0) -> np.ndarray:
    return np.stack(
        [
            yolov8_head(seed, anchors=anchors, num_classes=num_classes, levels=levels)
            for seed in range(count)
        ]
    )


@pytest.mark.parametrize("levels", [0, 4], ids=["", "ties"])
@pytest.mark.parametrize("multi_label", [False, True], ids=["", "multi_label"])
@pytest.mark.parametrize("class_agnostic", [False, True], ids=["", "class_agnostic"])
def test_yolov8(levels: int, multi_label: bool, class_agnostic: bool) -> None:
    detections = both(
        heads(3, levels=levels),
        np.repeat(GEOMETRY, 3, axis=0),
        num_classes=5,
        multi_label=multi_label,
        class_agnostic=class_agnostic,
        iou_threshold=0.5,
    )
    assert (detections.num_detections > 5).all()


@pytest.mark.parametrize("anchors", [1, 31, 33, 1023, 1025, 8400])
def test_yolov8_of_any_length(anchors: int) -> None:
    both(heads(2, anchors=anchors, num_classes=3), num_classes=3)


def test_float16() -> None:
    both(heads(2).astype(np.float16), num_classes=5)


@pytest.mark.parametrize("max_candidates", [1, 10, 200])
def test_the_best_candidates_are_taken(max_candidates: int) -> None:
    detections = both(
        heads(2, levels=3), num_classes=5, max_candidates=max_candidates, score_threshold=0.01
    )
    assert detections.truncated is not None
    assert detections.truncated.all()


def test_few_rows_and_none() -> None:
    both(heads(2), num_classes=5, max_detections=3)
    none = both(heads(2), num_classes=5, score_threshold=1.0)
    assert (none.num_detections == 0).all()


def test_yolov5() -> None:
    head = np.stack([yolov5_head(seed, anchors=300, num_classes=4) for seed in range(2)])
    both(head, np.repeat(GEOMETRY, 2, axis=0), head="yolov5", num_classes=4)
    both(head, head="yolov5", num_classes=4, multi_label=True, activation="sigmoid")


@pytest.mark.parametrize("values", [2, 3])
def test_pose(values: int) -> None:
    head = np.stack(
        [
            pose_head(seed, anchors=1500, num_classes=2, keypoints=17, values=values)
            for seed in range(3)
        ]
    )
    fields: dict[str, Any] = {"num_classes": 2, "keypoint_values": values, "max_detections": 40}
    detections = both(head, np.repeat(GEOMETRY, 3, axis=0), head="yolov8_pose", **fields)
    assert detections.keypoints is not None
    assert (detections.num_detections == 40).all()
    both(head.astype(np.float16), head="yolov8_pose", **fields)


@pytest.mark.parametrize("method", ["polygon", "probiou", "probiou_fast"])
@pytest.mark.parametrize("anchors", [33, 1025, 8400])
def test_rotated_boxes(method: str, anchors: int) -> None:
    head = np.stack([obb_head(seed, anchors=anchors, num_classes=3) for seed in range(3)])
    head[:, :2] *= 10
    geometry = np.array([[0.5, 0.5, 16, 8, 1200, 1000, 1, 0]] * 3, np.float32)
    geometry[1, 1] = 0.7
    fields: dict[str, Any] = {"head": "yolov8_obb", "num_classes": 3, "rotated_nms": method}
    for threshold in (0.1, 0.5):
        detections = both(head, geometry, **fields, iou_threshold=threshold, max_detections=1100)
        assert (detections.num_detections > 0).all()
    both(head.astype(np.float16), **fields, multi_label=True, class_agnostic=True)


def test_thirty_thousand_rotated_boxes_of_few_objects() -> None:
    random = np.random.default_rng(7)
    place = np.arange(30000) % 200
    head = np.stack(
        [
            *(place % 20 * 60, place // 20 * 60, np.full(30000, 50), np.full(30000, 22)),
            random.uniform(0.01, 0.99, 30000),
            place,
        ]
    )
    head += random.uniform(-1, 1, head.shape) * np.array([[2, 2, 5, 2, 0, 0.1]]).T
    for method in ("polygon", "probiou", "probiou_fast"):
        detections = both(
            head.astype(np.float32)[None],
            None,
            head="yolov8_obb",
            num_classes=1,
            rotated_nms=method,
            score_threshold=0.001,
            iou_threshold=0.4,
        )
        assert 200 <= detections.num_detections[0] < 300


def test_end2end() -> None:
    head = np.stack([end2end_head(seed, rows=60, num_classes=4) for seed in range(2)])
    both(head, np.repeat(GEOMETRY, 2, axis=0), head="end2end", num_classes=4)


def batch_of(images: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    return {name: np.stack([image[name] for image in images]) for name in images[0]}


@pytest.mark.parametrize("activation", ["sigmoid", "softmax"])
@pytest.mark.parametrize("background", ["none", "first", "last"])
@pytest.mark.parametrize("multi_label", [False, True], ids=["", "multi_label"])
def test_rtdetr(activation: str, background: str, multi_label: bool) -> None:
    columns = 80 if background == "none" else 81
    outputs = batch_of(
        [rtdetr_outputs(seed, queries=300, num_classes=80, columns=columns) for seed in range(3)]
    )
    options: dict[str, Any] = {
        **{"head": "rtdetr", "num_classes": 80, "score_threshold": 0.1},
        **{"activation": activation, "background": background, "multi_label": multi_label},
    }
    detections = both(outputs, np.repeat(GEOMETRY, 3, axis=0), **options)
    assert (detections.num_detections > 5).all()
    head = np.concatenate([outputs["boxes"], outputs["logits"]], axis=2)
    both(head, joined=True, **options)
    both(head.astype(np.float16), joined=True, **options)


@pytest.mark.parametrize(("anchors", "columns"), [(8732, 21), (1917, 91), (37, 3)])
@pytest.mark.parametrize("activation", ["softmax", "sigmoid", "none"])
def test_ssd(anchors: int, columns: int, activation: str) -> None:
    outputs = batch_of([ssd_outputs(seed, anchors=anchors, columns=columns) for seed in range(2)])
    options: dict[str, Any] = {
        **{"head": "ssd", "num_classes": columns - 1, "activation": activation},
        **{"iou_threshold": 0.5, "score_threshold": 0.3},
    }
    detections = both(outputs, np.repeat(GEOMETRY, 2, axis=0), **options)
    assert (detections.num_detections > 2).all()
    both(outputs, **options, multi_label=False, box_format="cxcywh", box_unit="normalized")
    both({name: values.astype(np.float16) for name, values in outputs.items()}, **options)
    del outputs["anchors"]
    both(outputs, **options, anchors="none")


def test_ssd_of_a_grid() -> None:
    levels = "8:32x32,40x25;16:64x64,80x50;32:128x128"
    outputs = ssd_outputs(3, anchors=2 * 80 * 80 + 2 * 40 * 40 + 20 * 20, columns=91)
    del outputs["anchors"]
    detections = both(
        outputs, GEOMETRY[0], head="ssd", num_classes=90, anchors="grid", anchor_grid=levels
    )
    assert (detections.num_detections > 5).all()


def test_efficient_nms() -> None:
    both(efficient_nms_outputs(13), GEOMETRY[0], head="efficient_nms", num_classes=7)


@pytest.mark.parametrize(
    ("activation", "multi_label"),
    [("none", False), ("sigmoid", False), ("softmax", False), ("none", True), ("sigmoid", True)],
)
def test_classification(activation: str, multi_label: bool) -> None:
    logits = np.random.default_rng(5).normal(0, 3, (4, 1000)).astype(np.float32)
    options: dict[str, Any] = {
        "head": "classification",
        "num_classes": 1000,
        "activation": activation,
        "multi_label": multi_label,
        "score_threshold": 0.9,
        "top_k": 70,
    }
    expected = endcap.Postprocessor(**options)(logits)
    actual = endcap.Postprocessor(**options, device="cuda")(logits).to_numpy()
    for field in ("scores", "class_ids", "probabilities", "status"):
        np.testing.assert_array_equal(getattr(actual, field), getattr(expected, field), field)


def test_a_bad_head_touches_no_other() -> None:
    batch = heads(3)
    batch[1, 6, 100] = np.nan
    expected = endcap.Postprocessor(num_classes=5)(batch[[0, 2]])
    actual = endcap.Postprocessor(num_classes=5, device="cuda").enqueue(batch).to_numpy()
    assert actual.status.tolist() == [0, int(endcap.Status.INVALID_ARGUMENT), 0]
    assert actual.num_detections[1] == 0
    np.testing.assert_array_equal(actual.boxes[[0, 2]], expected.boxes)
    with pytest.raises(endcap.InvalidArgumentError, match="NaN"):
        endcap.Postprocessor(num_classes=5, device="cuda")(batch)


def test_images_that_failed_have_no_detections() -> None:
    status = np.array([0, int(endcap.Status.CORRUPT_IMAGE)], np.int32)
    options: dict[str, Any] = {"num_classes": 5}
    expected = endcap.Postprocessor(**options)(heads(2), None, status)
    actual = endcap.Postprocessor(**options, device="cuda")(heads(2), None, status)
    assert_same(actual, expected)
    assert expected.num_detections[1] == 0


def test_results_stay_when_the_next_batch_runs() -> None:
    postprocessor = endcap.Postprocessor(num_classes=5, device="cuda")
    reference = endcap.Postprocessor(num_classes=5)
    batches = [heads(3)[:count] for count in (1, 3, 2, 1)]
    results = [postprocessor(batch) for batch in batches]
    for batch, result in zip(batches, results, strict=True):
        assert_same(result, reference(batch))
