"""Bad heads, geometry and parameters of postprocessing: a typed error that names what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import FAMILIES, efficient_nms_outputs, end2end_head, yolov8_head

forced_implementation = on_each_implementation("box_decode")


def zeros(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.zeros(shape, dtype)


def changed(family: str, **parts: Any) -> dict[str, np.ndarray]:
    """The family's sample with other parts: functions of its tensors."""
    head = FAMILIES[family].images(1)[0]
    return head | {name: np.ascontiguousarray(part(head[name])) for name, part in parts.items()}


def unknown_class(class_id: int) -> dict[str, np.ndarray]:
    def change(classes: np.ndarray) -> np.ndarray:
        return np.where(np.arange(len(classes)) == 0, class_id, classes)

    return changed("detections", classes=change)


FOUR, SIX = "1x1,1x1,1x1,1x1", "1x1,1x1,1x1,1x1,1x1,1x1"
SSD300 = {
    "anchors": "grid",
    "anchor_grid": f"8:{FOUR};16:{SIX};32:{SIX};64:{SIX};100:{FOUR};300:{FOUR}",
    "input_size": 300,
}
LARGE_CLASS = efficient_nms_outputs(1)
LARGE_CLASS["classes"] = LARGE_CLASS["classes"].astype(np.int64) + 2**32
# Name -> parameters, head, and what the error names. A sample's own parameters are added.
BAD_HEADS: dict[str, tuple[dict[str, Any], Any, str]] = {
    "num_classes": ({"num_classes": 80}, zeros(4 + 79, 20), r"\[84, \*\]"),
    "transposed": ({"num_classes": 80}, zeros(20, 84), r"\[84, \*\]"),
    "rank 1": ({"num_classes": 80}, zeros(84), "head"),
    "rank 4": ({"num_classes": 80}, zeros(1, 1, 84, 20), "head"),
    "float64": ({"num_classes": 3}, zeros(7, 20, dtype=np.float64), "float64"),
    "int32": ({"num_classes": 3}, zeros(7, 20, dtype=np.int32), "int32"),
    "yolov5 columns": ({"head": "yolov5", "num_classes": 80}, zeros(20, 84), "85"),
    "end2end columns": ({"head": "end2end"}, zeros(20, 7), "6"),
    "end2end class": (
        {"head": "end2end", "num_classes": 2},
        end2end_head(1, rows=40, num_classes=9),
        "class",
    ),
    "a count beyond the rows": (
        {"head": "efficient_nms"},
        efficient_nms_outputs(21, rows=20),
        "num_detections",
    ),
    "a negative count": (
        {"head": "efficient_nms"},
        efficient_nms_outputs(-1, rows=20),
        "num_detections",
    ),
    "one tensor of four": ({"head": "efficient_nms"}, zeros(20, 6), "4 inputs"),
    "a class beyond 32 bits": ({"head": "efficient_nms"}, LARGE_CLASS, "class"),
    **{
        f"class {class_id}, background {background}": (
            {"head": "detections", "background": background},
            unknown_class(class_id),
            "row 0 has class",
        )
        for class_id in (-1, 8, 2**31)
        for background in ("none", "first")
    },
    "keypoints": (
        {"head": "yolov8_pose", "num_keypoints": 6},
        changed("yolov8_pose"),
        r"\[29, \*\]",
    ),
    "coefficients": ({"head": "yolov8_seg"}, changed("yolov8_seg", head=lambda h: h[1:]), "head"),
    "prototypes": ({"head": "yolov8_seg"}, changed("yolov8_seg", protos=lambda p: p[1:]), "protos"),
    "masks of queries": (
        {"head": "rtdetr_seg"},
        changed("rtdetr_seg", masks=lambda m: m[1:]),
        "masks",
    ),
    "rows of masks": (
        {"head": "rtdetr_seg"},
        changed("rtdetr_seg", masks=lambda m: m[:, 1:]),
        "masks",
    ),
    "lengths": (
        {"head": "rtdetr"},
        changed("rtdetr", boxes=lambda b: b[1:]),
        "60 rows and boxes has 59",
    ),
    "cells": ({"head": "yolox"}, changed("yolox", head=lambda h: h[1:]), r"252, 12"),
    "anchors of a grid": (
        {"head": "ssd", **SSD300, "num_classes": 90},
        {"boxes": zeros(8000, 4), "scores": zeros(8000, 91)},
        "8732",
    ),
    "logits": ({"head": "classification", "num_classes": 10}, zeros(11), "10"),
}


@pytest.mark.parametrize("name", BAD_HEADS)
def test_bad_heads_are_refused(name: str) -> None:
    fields, head, named = BAD_HEADS[name]
    family = fields.get("head", "yolov8")
    options = {"num_classes": 7, **FAMILIES[family].parameters, **fields}
    with pytest.raises(endcap.InvalidArgumentError, match=named):
        endcap.Postprocessor(**options)(head)


def test_ssd300_has_8732_anchors() -> None:
    head = {"boxes": zeros(8732, 4), "scores": zeros(8732, 91)}
    assert len(endcap.Postprocessor("ssd", 90, **SSD300)(head)[0]) == 0


# --- Numbers that are not finite


# Family and part -> a view of it with one entry for each row.
PARTS: dict[tuple[str, str], Any] = {
    ("yolov8", "boxes"): lambda image: image["head"][:4].T,
    ("yolov5", "boxes"): lambda image: image["head"][:, :4],
    ("end2end", "boxes"): lambda image: image["head"][:, :4],
    ("rtdetr", "boxes"): lambda image: image["boxes"],
    ("detections", "boxes"): lambda image: image["boxes"],
    ("ssd", "boxes"): lambda image: image["boxes"],
    ("ssd", "anchors"): lambda image: image["anchors"],
    ("yolov8_obb", "angles"): lambda image: image["head"][11:].T,
    ("yolov8_pose", "keypoints"): lambda image: image["head"][11:].T,
    ("yolov8_seg", "coefficients"): lambda image: image["head"][11:].T,
    ("end2end_obb", "angles"): lambda image: image["head"][:, 6:],
    ("end2end_pose", "keypoints"): lambda image: image["head"][:, 6:],
    ("end2end_seg", "coefficients"): lambda image: image["head"][:, 6:],
    ("rtdetr_seg", "masks"): lambda image: image["masks"],
}


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(("family", "part"), PARTS)
def test_values_of_detections_must_be_numbers(family: str, part: str, value: float) -> None:
    """Those of rows under the threshold, or for masks and keypoints not kept, are not read."""
    image = FAMILIES[family].images(1)[0]
    options = {"num_classes": 7, **FAMILIES[family].parameters, "score_threshold": 0.5}
    options["max_detections"] = 5 if part in ("keypoints", "masks", "coefficients") else 300
    postprocessor = endcap.Postprocessor(family, **options)
    kept = postprocessor(image)[0].indices
    read = kept
    if not family.startswith(("yolov8_pose", "yolov8_seg", "rtdetr_seg")):
        options |= {"max_detections": 300, "iou_threshold": 1.0}
        read = endcap.Postprocessor(family, **options)(image)[0].indices
    values = PARTS[family, part](image)
    others = np.setdiff1d(np.arange(len(values)), read)
    assert len(others) > 5
    if part not in ("boxes", "anchors") or not np.isnan(value):
        values[others] = value
        assert postprocessor(image)[0].indices.tolist() == kept.tolist()
    values[kept[1]].flat[0] = value
    with pytest.raises(endcap.InvalidArgumentError, match=rf"\b{kept[1]}\b|NaN at element"):
        postprocessor(image)


def test_a_nan_in_a_head_is_refused_with_its_image() -> None:
    batch = np.stack([yolov8_head(s, anchors=20, num_classes=3) for s in range(3)])
    batch[1, 3, 11] = np.nan
    with pytest.raises(endcap.InvalidArgumentError, match=r"image index 1 of 3: .*NaN"):
        endcap.Postprocessor(num_classes=3)(batch)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_rows_behind_the_count_of_efficient_nms_do_not_matter(value: float) -> None:
    outputs = efficient_nms_outputs(3, rows=20)
    expected = endcap.Postprocessor("efficient_nms")(outputs)
    outputs["boxes"][3:] = value
    outputs["scores"][3:] = value
    actual = endcap.Postprocessor("efficient_nms")(outputs)
    np.testing.assert_array_equal(actual.boxes, expected.boxes)
    outputs["boxes"][2, 1] = np.nan
    with pytest.raises(endcap.InvalidArgumentError, match="NaN"):
        endcap.Postprocessor("efficient_nms")(outputs)


def row(*values: float) -> np.ndarray:
    return np.float32([values])


NOT_FINITE: dict[str, tuple[str, Any, dict[str, Any], str]] = {
    "inf * 0": ("yolov5", row(5, 5, 4, 4, np.inf, 0.0, 0.9), {}, "score of anchor 0"),
    "inf": ("yolov8", row(5, 5, 4, 4, np.inf, 0.0).T, {}, "score of candidate 0"),
    "NaN": ("end2end", row(5, 5, 9, 9, np.nan, 0), {}, "NaN at element 4"),
    "a class": (
        "classification",
        np.float32([0.0, np.inf]),
        {"activation": "none"},
        "score of class 1",
    ),
    "a logit": (
        "rtdetr",
        {"logits": row(np.nan, 0), "boxes": row(0.5, 0.5, 0.1, 0.1)},
        {},
        "logits is NaN",
    ),
    "a softmax": (
        "rtdetr",
        {"logits": row(np.inf, 0), "boxes": row(0.5, 0.5, 0.1, 0.1)},
        {"activation": "softmax"},
        "greatest score of row 0",
    ),
    "a size": (
        "yolox",
        row(0, 0, 100, 0, 1, 1, 0),
        {"input_size": 8, "anchor_grid": "8:8x8"},
        "candidate 0 is not finite",
    ),
}


@pytest.mark.parametrize("name", NOT_FINITE)
def test_scores_and_sizes_that_are_not_finite_are_refused(name: str) -> None:
    family, head, options, named = NOT_FINITE[name]
    with pytest.raises(endcap.InvalidArgumentError, match=named):
        endcap.Postprocessor(family, num_classes=2, **options)(head)


# --- Geometry, status, parameters


@pytest.mark.parametrize(
    "geometry",
    [
        np.zeros(7, np.float32),
        np.zeros((2, 8), np.float32),
        np.ones((2, 4), np.float32),
        np.zeros(8, np.float32),  # a scale of 0
        np.full(8, np.nan, np.float32),
        np.full(8, -1, np.float32),
    ],
)
def test_bad_geometry_is_refused(geometry: np.ndarray) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="geometry"):
        endcap.Postprocessor(num_classes=3)(yolov8_head(1, anchors=9, num_classes=3), geometry)


def test_status_of_a_wrong_length_is_refused() -> None:
    head = yolov8_head(1, anchors=9, num_classes=3)
    with pytest.raises(endcap.InvalidArgumentError, match="status"):
        endcap.Postprocessor(num_classes=3)(head, None, np.zeros(2, np.int32))


@pytest.mark.parametrize(
    "anchor_grid",
    [";".join(["640:9x9"] * 17), ";".join(["640:" + ",".join(["9x9"] * 43)] * 3)],
    ids=["levels", "sizes"],
)
def test_a_grid_too_large_for_a_kernel_names_the_cpu(anchor_grid: str) -> None:
    options: dict[str, Any] = {"head": "ssd", "anchors": "grid", "anchor_grid": anchor_grid}
    with pytest.raises(endcap.UnsupportedError, match="anchor_grid of more than 16 levels or 128"):
        endcap.Postprocessor(**options, device="cuda")
    assert endcap.Postprocessor(**options).device == "cpu"


GRID = {"anchors": "grid", "anchor_grid": "8:16x16"}
# Parameters of which the error names one.
IMPOSSIBLE: list[dict[str, Any]] = [
    {"head": "yolov99"},
    {"num_classes": 0},
    {"num_classes": -3},
    {"score_threshold": 1.5},
    {"score_threshold": float("nan")},
    {"iou_threshold": -0.1},
    {"max_candidates": 0},
    {"max_detections": 0},
    {"box_format": "corners"},
    {"box_unit": "furlong"},
    {"activation": "relu"},
    {"activation": "softmax", "head": "yolov8"},
    {"input_size": (0, 640)},
    {"head": "classification", "num_classes": 3, "top_k": 4},
    {"head": "classification", "multi_label": True},
    {"head": "classification", "multi_label": True, "activation": "softmax"},
    {"head": "classification", "score_thresholds": [0.5] * 80},
    {"threads": -1},
    {"on_nan": "ignore"},
    {"on_nan": "drop", "head": "classification"},
    {"angle_range": "le180"},
    {"rotated_nms": "fast", "head": "yolov8_obb"},
    {"box_format": "xyxy", "head": "yolov8_obb"},
    {"box_format": "xyxy", "head": "end2end_obb"},
    {"box_unit": "normalized", "head": "yolox"},
    {"classes": [80]},
    {"classes": [-1]},
    {"classes": []},
    {"classes": "dog"},
    {"score_thresholds": [0.5, 0.5]},
    {"score_thresholds": [1.5] * 80},
    {"packed_masks": True},
    {"packed_masks": True, "head": "yolov8_seg"},  # the size of a source is not known
    {"head": "ssd", "anchors": "grid"},
    {"head": "ssd", "anchor_grid": "8:16x16"},  # without anchors=grid
    {"head": "ssd", "anchors": "grid", "anchor_grid": "8"},
    {"head": "ssd", "anchors": "grid", "anchor_grid": "8:16"},
    {"head": "ssd", "anchors": "grid", "anchor_grid": "8:16xq"},
    {"head": "ssd", "anchors": "grid", "anchor_grid": "0:16x16"},
    {"head": "ssd", **GRID, "box_unit": "normalized"},
    {"head": "ssd", "variances": 0},
    {"head": "ssd", "variances": (1, 2, 3)},
    # Sizes that are refused before anything is allocated.
    {"head": "yolov8_seg", "mask_resolution": "input", "input_size": 65535},
    {"head": "yolov8_pose", "num_keypoints": 10000, "max_detections": 100000},
    {
        **{"head": "ssd", "anchors": "grid", "anchor_grid": "1:" + ",".join(["8x8"] * 1024)},
        "input_size": 65535,
    },
]


@pytest.mark.parametrize("fields", IMPOSSIBLE, ids=lambda fields: str(fields)[:60])
def test_impossible_parameters_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(endcap.InvalidArgumentError) as caught:
        endcap.Postprocessor(**fields)
    message = str(caught.value)
    assert any(name in message for name in fields if name != "head" or len(fields) == 1)
