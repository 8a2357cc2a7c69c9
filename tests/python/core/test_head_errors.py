"""Bad heads, geometry and parameters of postprocessing: a typed error with a message."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import efficient_nms_outputs, end2end_head, yolov8_head

forced_implementation = on_each_implementation("box_decode")

BAD_HEADS: dict[str, tuple[dict[str, Any], Any]] = {
    "num_classes": ({"num_classes": 80}, np.zeros((4 + 79, 20), np.float32)),
    "transposed": ({"num_classes": 80}, np.zeros((20, 84), np.float32)),
    "rank_1": ({"num_classes": 80}, np.zeros(84, np.float32)),
    "rank_4": ({"num_classes": 80}, np.zeros((1, 1, 84, 20), np.float32)),
    "float64": ({"num_classes": 3}, np.zeros((7, 20), np.float64)),
    "int32": ({"num_classes": 3}, np.zeros((7, 20), np.int32)),
    "yolov5_columns": ({"head": "yolov5", "num_classes": 80}, np.zeros((20, 84), np.float32)),
    "end2end_columns": ({"head": "end2end"}, np.zeros((20, 7), np.float32)),
    "end2end_class": (
        {"head": "end2end", "num_classes": 2},
        end2end_head(1, rows=40, num_classes=9),
    ),
    "efficient_nms_as_one": ({"head": "efficient_nms"}, np.zeros((20, 6), np.float32)),
    "efficient_nms_count": ({"head": "efficient_nms"}, efficient_nms_outputs(21, rows=20)),
    "efficient_nms_negative": ({"head": "efficient_nms"}, efficient_nms_outputs(-1, rows=20)),
    "classification": ({"head": "classification", "num_classes": 10}, np.zeros(11, np.float32)),
}


@pytest.mark.parametrize("name", BAD_HEADS)
def test_bad_heads_are_refused(name: str) -> None:
    fields, head = BAD_HEADS[name]
    postprocessor = endcap.Postprocessor(**fields)
    with pytest.raises(endcap.InvalidArgumentError):
        postprocessor(head)


def test_a_class_count_beyond_32_bits_is_refused() -> None:
    outputs = efficient_nms_outputs(1)
    outputs["classes"] = outputs["classes"].astype(np.int64) + 2**32
    with pytest.raises(endcap.InvalidArgumentError):
        endcap.Postprocessor("efficient_nms")(outputs)


@pytest.mark.parametrize("row", [0, 3, 4, 6])
def test_a_nan_in_a_head_is_refused_with_its_image(row: int) -> None:
    batch = np.stack([yolov8_head(s, anchors=20, num_classes=3) for s in range(3)])
    batch[1, row, 11] = np.nan
    with pytest.raises(endcap.InvalidArgumentError, match=r"image index 1 of 3: .*NaN"):
        endcap.Postprocessor(num_classes=3)(batch)
    with pytest.raises(endcap.InvalidArgumentError, match="NaN"):
        endcap.box_decode(batch[1], num_classes=3)


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


def test_scores_that_are_no_finite_numbers_are_refused() -> None:
    yolov5 = np.array([[5, 5, 4, 4, np.inf, 0.0, 0.9]], np.float32)  # inf * 0 is no number
    with pytest.raises(endcap.InvalidArgumentError, match="score of anchor 0"):
        endcap.Postprocessor("yolov5", num_classes=2)(yolov5)
    yolov8 = np.array([[5], [5], [4], [4], [np.inf]], np.float32)
    with pytest.raises(endcap.InvalidArgumentError, match="score of candidate 0"):
        endcap.Postprocessor(num_classes=1)(yolov8)
    with pytest.raises(endcap.InvalidArgumentError, match="score of class 1"):
        endcap.Postprocessor("classification", num_classes=2, activation="none")(
            np.float32([0.0, np.inf])
        )


def test_an_infinite_box_of_a_candidate_is_refused() -> None:
    head = np.full((5, 2), 0.9, np.float32)
    head[0, 1] = np.inf
    with pytest.raises(endcap.InvalidArgumentError, match="finite"):
        endcap.Postprocessor(num_classes=1)(head)
    head[4, 1] = 0.1  # no candidate any more
    assert endcap.Postprocessor(num_classes=1)(head).num_detections.tolist() == [1]


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_logits_never_become_nan_scores(value: float) -> None:
    logits = np.full(5, value, np.float32)
    postprocessor = endcap.Postprocessor("classification", num_classes=5)
    try:
        scores = postprocessor(logits).scores
    except endcap.InvalidArgumentError:
        scores = np.zeros(0)  # refusing is right as well
    assert not np.isnan(scores).any()


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
    with pytest.raises(endcap.InvalidArgumentError, match="status"):
        endcap.Postprocessor(num_classes=3)(
            yolov8_head(1, anchors=9, num_classes=3), None, np.zeros(2, np.int32)
        )


def test_several_labels_do_not_go_with_softmax() -> None:
    for fields in ({}, {"activation": "softmax"}):
        with pytest.raises(endcap.InvalidArgumentError, match="give activation=sigmoid, or none"):
            endcap.Postprocessor("classification", num_classes=3, multi_label=True, **fields)


@pytest.mark.parametrize(
    "anchor_grid",
    [";".join(["640:9x9"] * 17), ";".join(["640:" + ",".join(["9x9"] * 43)] * 3)],
    ids=["levels", "sizes"],
)
def test_a_grid_too_large_for_a_kernel_names_the_cpu(anchor_grid: str) -> None:
    options: dict[str, Any] = {"head": "ssd", "anchors": "grid", "anchor_grid": anchor_grid}
    message = "head ssd with an anchor_grid of more than 16 levels or 128 sizes is read by the CPU"
    with pytest.raises(endcap.UnsupportedError, match=message):
        endcap.Postprocessor(**options, device="cuda")
    assert endcap.Postprocessor(**options).device == "cpu"


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
    {"threads": -1},
    {"on_nan": "ignore"},
    {"on_nan": "drop", "head": "classification"},
    {"angle_range": "le180"},
]


@pytest.mark.parametrize("fields", IMPOSSIBLE, ids=str)
def test_impossible_postprocess_parameters_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(endcap.InvalidArgumentError) as caught:
        endcap.Postprocessor(**fields)
    assert any(name in str(caught.value) for name in fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"head": "yolov8_seg", "mask_resolution": "input", "input_size": 65535},
        {"head": "yolov8_pose", "num_keypoints": 10000, "max_detections": 100000},
        {
            "head": "ssd",
            "anchors": "grid",
            "anchor_grid": "1:" + ",".join(["8x8"] * 1024),
            "input_size": 65535,
        },
    ],
    ids=["masks", "keypoints", "anchors"],
)
def test_sizes_are_limited_before_anything_is_made(fields: dict[str, Any]) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match=r"limit|at most"):
        endcap.Postprocessor(**fields)


@pytest.mark.parametrize("fields", [{}, {"head": "yolov8_seg"}], ids=["no masks", "source"])
def test_masks_that_cannot_be_packed_are_an_error(fields: dict[str, Any]) -> None:
    with pytest.raises(endcap.InvalidArgumentError, match="packed_masks"):
        endcap.Postprocessor(packed_masks=True, **fields)
