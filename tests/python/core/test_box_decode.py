"""Raw heads -> candidates, against the oracles of reference/heads.py."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tolerances
from forced_implementations import on_each_implementation
from hypothesis import given
from hypothesis import strategies as st
from sample_heads import efficient_nms_outputs, end2end_head, yolov5_head, yolov8_head

import endcap
from reference import heads
from reference.heads import Candidate

forced_implementation = on_each_implementation("box_decode")


def assert_candidates(
    actual: Any, expected: list[Candidate], *, truncated: bool = False, box_rtol: float = 0
) -> None:
    assert actual.indices.tolist() == [c.index for c in expected]
    assert actual.class_ids.tolist() == [c.class_id for c in expected]
    assert bool(actual.truncated) == truncated
    assert actual.boxes.shape == (len(expected), 4)
    assert actual.boxes.dtype == np.float32
    assert actual.scores.dtype == np.float32
    np.testing.assert_array_equal(actual.scores, np.array([c.score for c in expected], np.float32))
    boxes = np.array([c.box for c in expected], np.float32).reshape(-1, 4)
    if box_rtol:
        np.testing.assert_allclose(actual.boxes, boxes, rtol=0, atol=box_rtol * 640)
    else:
        np.testing.assert_array_equal(actual.boxes, boxes)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("num_classes", [1, 2, 80])
@pytest.mark.parametrize("levels", [0, 8])
def test_yolov8(num_classes: int, levels: int, multi_label: bool) -> None:
    head = yolov8_head(1, anchors=200, num_classes=num_classes, levels=levels)
    found = heads.yolov8(head, score_threshold=0.25, multi_label=multi_label)
    expected, _ = heads.best(found, 30000)
    assert expected
    actual = endcap.box_decode(head, num_classes=num_classes, multi_label=multi_label)
    assert_candidates(actual, expected)


@pytest.mark.parametrize("multi_label", [False, True])
@pytest.mark.parametrize("num_classes", [1, 2, 80])
def test_yolov5(num_classes: int, multi_label: bool) -> None:
    head = yolov5_head(2, anchors=200, num_classes=num_classes)
    found = heads.yolov5(head, score_threshold=0.25, multi_label=multi_label)
    expected, _ = heads.best(found, 30000)
    assert expected
    actual = endcap.box_decode(
        head, family="yolov5", num_classes=num_classes, multi_label=multi_label
    )
    assert_candidates(actual, expected)


def test_end2end() -> None:
    head = end2end_head(3, rows=60, num_classes=7)
    expected, _ = heads.best(heads.end2end(head, score_threshold=0.25), 30000)
    actual = endcap.box_decode(head, family="end2end", num_classes=7)
    assert_candidates(actual, expected)


@pytest.mark.parametrize("count", [0, 1, 13, 20])
@pytest.mark.parametrize("as_tuple", [False, True])
def test_efficient_nms_passes_the_counted_rows(count: int, as_tuple: bool) -> None:
    outputs = efficient_nms_outputs(count)
    expected = [
        Candidate(outputs["boxes"][i], outputs["scores"][i], int(outputs["classes"][i]), i)
        for i in range(count)
        if outputs["scores"][i] > 0.25
    ]
    head = tuple(outputs.values()) if as_tuple else outputs
    actual = endcap.box_decode(head, family="efficient_nms", num_classes=7)
    assert_candidates(actual, expected)


@given(
    seed=st.integers(0, 2**32 - 1),
    anchors=st.integers(0, 40),
    num_classes=st.integers(1, 5),
    levels=st.sampled_from([0, 2, 4]),
    multi_label=st.booleans(),
    max_candidates=st.integers(1, 60),
    threshold=st.sampled_from([0.0, 0.125, 0.25, 0.5, 0.875]),
)
def test_yolov8_of_any_size(
    seed: int,
    anchors: int,
    num_classes: int,
    levels: int,
    multi_label: bool,
    max_candidates: int,
    threshold: float,
) -> None:
    head = yolov8_head(seed, anchors=anchors, num_classes=num_classes, levels=levels)
    found = heads.yolov8(head, score_threshold=threshold, multi_label=multi_label)
    expected, truncated = heads.best(found, max_candidates)
    actual = endcap.box_decode(
        head,
        num_classes=num_classes,
        score_threshold=threshold,
        multi_label=multi_label,
        max_candidates=max_candidates,
    )
    assert_candidates(actual, expected, truncated=truncated)


def test_a_score_equal_to_the_threshold_is_no_candidate() -> None:
    head = np.zeros((5, 3), np.float32)
    head[2:4] = 10
    head[4] = [0.25, np.nextafter(np.float32(0.25), np.float32(1)), 0.2499]
    actual = endcap.box_decode(head, num_classes=1, score_threshold=0.25)
    assert actual.indices.tolist() == [1]


def test_sigmoid_activation() -> None:
    logits = yolov8_head(5, anchors=50, num_classes=3)
    logits[4:] = logits[4:] * 12 - 8
    activated = logits.copy()
    activated[4:] = heads.sigmoid(logits[4:])
    expected = endcap.box_decode(activated, num_classes=3)
    actual = endcap.box_decode(logits, num_classes=3, activation="sigmoid")
    assert len(actual.scores) > 5
    np.testing.assert_array_equal(actual.indices, expected.indices)
    np.testing.assert_array_equal(actual.boxes, expected.boxes)
    np.testing.assert_allclose(actual.scores, expected.scores, rtol=tolerances.ACTIVATION_RTOL)


def test_sigmoid_of_huge_logits_saturates() -> None:
    head = np.full((4 + 1, 2), 50, np.float32)
    head[4] = [1000, -1000]
    actual = endcap.box_decode(head, num_classes=1, activation="sigmoid", score_threshold=0.0)
    assert actual.indices[0] == 0
    assert actual.scores[0] == 1
    assert len(actual.scores) == 1 or actual.scores[1] < 1e-30


def test_yolov5_sigmoid_covers_objectness() -> None:
    logits = yolov5_head(6, anchors=80, num_classes=3)
    logits[:, 4:] = logits[:, 4:] * 8 - 3
    activated = logits.copy()
    activated[:, 4:] = heads.sigmoid(logits[:, 4:])
    options = {"family": "yolov5", "num_classes": 3}
    actual = endcap.box_decode(logits, activation="sigmoid", **options)
    expected = endcap.box_decode(activated, **options)
    np.testing.assert_array_equal(actual.indices, expected.indices)
    np.testing.assert_allclose(actual.scores, expected.scores, rtol=tolerances.ACTIVATION_RTOL)


def test_box_format_xyxy() -> None:
    head = yolov8_head(7, anchors=50, num_classes=3)
    head[2:4] += head[:2]
    actual = endcap.box_decode(head, num_classes=3, box_format="xyxy")
    assert len(actual.indices) > 5
    np.testing.assert_array_equal(actual.boxes, head[:4, actual.indices].T)


@pytest.mark.parametrize("size", [(640, 640), (480, 640), (300, 199)])
def test_normalised_boxes_become_pixels(size: tuple[int, int]) -> None:
    head = yolov8_head(8, anchors=50, num_classes=3)
    normalised = head.copy()
    normalised[[0, 2]] /= np.float32(size[1])
    normalised[[1, 3]] /= np.float32(size[0])
    exact = normalised.astype(np.float64)
    exact[[0, 2]] *= size[1]
    exact[[1, 3]] *= size[0]
    found = heads.yolov8(exact.astype(np.float32), score_threshold=0.25)
    expected, _ = heads.best(found, 30000)
    actual = endcap.box_decode(normalised, num_classes=3, box_unit="normalized", input_size=size)
    assert_candidates(actual, expected, box_rtol=tolerances.NORMALISED_BOX_RTOL)


def test_float16_heads_are_read_as_they_are() -> None:
    head = yolov8_head(9, anchors=50, num_classes=3).astype(np.float16)
    actual = endcap.box_decode(head, num_classes=3)
    expected, _ = heads.best(heads.yolov8(head.astype(np.float32), score_threshold=0.25), 30000)
    assert_candidates(actual, expected)


def test_strided_heads_are_read_right_and_never_written() -> None:
    head = yolov8_head(10, anchors=50, num_classes=3)
    transposed = np.ascontiguousarray(head.T).T
    transposed.setflags(write=False)
    actual = endcap.box_decode(transposed, num_classes=3)
    expected, _ = heads.best(heads.yolov8(head, score_threshold=0.25), 30000)
    assert_candidates(actual, expected)
    np.testing.assert_array_equal(transposed, head)
