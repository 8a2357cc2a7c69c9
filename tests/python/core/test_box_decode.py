"""Raw heads -> candidates, against the oracles of reference/heads.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import endcap
from tests.reference import heads
from tests.reference.heads import Candidate
from tests.support import tolerances
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import (
    FAMILIES,
    efficient_nms_outputs,
    end2end_head,
    yolov5_head,
    yolov8_head,
)

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


def row_parts(family: str, image: dict[str, np.ndarray]) -> list[np.ndarray]:
    """Boxes, scores and extra values of each row, views of the image's tensors."""
    if "head" not in image:
        scores = image["logits"] if "logits" in image else image["scores"]
        return [image["boxes"], scores.reshape(len(image["boxes"]), -1), image["boxes"][:, :0]]
    rows = image["head"].T if family.startswith("yolov8") else image["head"]
    end = {"yolov8": 11, "end2end": 6}.get(family.split("_")[0], rows.shape[1])
    return [rows[:, :4], rows[:, 4:end], rows[:, end:]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("family", [each for each in FAMILIES if each != "classification"])
def test_rows_that_are_not_finite_are_dropped(family: str, dtype: type) -> None:
    random = np.random.default_rng(5)
    image = {
        name: values.astype(dtype) if values.dtype == np.float32 else values
        for name, values in FAMILIES[family].images(10)[9].items()
    }
    fields: dict[str, Any] = {"family": family, "num_classes": 7, **FAMILIES[family].parameters}
    for name in ("mask_resolution", "max_detections"):
        fields.pop(name, None)
    clean = endcap.box_decode(image, **fields)
    parts = row_parts(family, image)
    count = int(image.get("num_detections", [len(parts[0])])[0])
    over = np.isin(np.arange(count), clean.indices)
    for row in random.permutation(count)[: count // 3]:
        values = parts[random.integers(3 if parts[2].size else 2)][row]
        values[random.integers(len(values))] = np.nan
    for row in random.permutation(count)[: count // 8]:
        parts[0][row, random.integers(2)] = random.choice([-np.inf, np.inf])
    dropped = heads.dropped_rows(*(part[:count] for part in parts), over)
    assert len(dropped) <= count / 2
    assert 0 < over[dropped].sum() < over.sum()
    actual = endcap.box_decode(image, **fields, on_nan="drop")
    kept = ~np.isin(clean.indices, dropped)
    for name in ("boxes", "scores", "class_ids", "indices"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(clean, name)[kept])
    assert actual.dropped == len(dropped)
    with pytest.raises(endcap.InvalidArgumentError):
        endcap.box_decode(image, **fields)


@pytest.mark.parametrize("multi_label", [False, True])
def test_numbers_that_are_not_finite_and_do_no_harm_stay(multi_label: bool) -> None:
    head = yolov8_head(6, anchors=50, num_classes=3)
    head[4:] = head[4:] * 12 - 8
    head[4, ::5] = -np.inf
    head[5, ::7] = np.inf
    head[0, np.flatnonzero((head[4:] < -3).all(0))] = np.inf
    fields: dict[str, Any] = {"num_classes": 3, "activation": "sigmoid", "multi_label": multi_label}
    expected = endcap.box_decode(head, **fields)
    actual = endcap.box_decode(head, **fields, on_nan="drop")
    assert actual.dropped == 0
    assert (actual.scores == 1).any()
    np.testing.assert_array_equal(actual.indices, expected.indices)


def test_scores_that_are_not_defined_drop_their_rows() -> None:
    rows = np.float32([[9, 9, 4, 4, 0, np.inf], [9, 9, 4, 4, 1, 0.5], [9, 9, 4, 4, np.inf, 0.5]])
    head = np.vstack([rows, rows[1:2]])
    actual = endcap.box_decode(head, family="yolov5", num_classes=1, on_nan="drop")
    assert (actual.indices.tolist(), actual.dropped) == ([1, 3], 2)
    logits = np.float32([[np.inf, 0], [2, 0], [-np.inf, -np.inf], [-np.inf, 2]])
    actual = endcap.box_decode(
        {"logits": logits, "boxes": np.full((4, 4), 0.5, np.float32)},
        family="rtdetr",
        num_classes=2,
        activation="softmax",
        on_nan="drop",
    )
    assert (actual.indices.tolist(), actual.dropped) == ([3, 1], 2)


def test_an_image_of_which_more_than_half_is_not_finite_fails() -> None:
    head = yolov8_head(7, anchors=41, num_classes=2)
    clean = endcap.box_decode(head, num_classes=2)
    head[5, :20] = np.nan
    actual = endcap.box_decode(head, num_classes=2, on_nan="drop")
    assert actual.dropped == 20
    assert actual.indices.tolist() == [index for index in clean.indices if index >= 20]
    head[0, 20] = np.nan
    with pytest.raises(endcap.InvalidArgumentError, match="21 of 41 anchors"):
        endcap.box_decode(head, num_classes=2, on_nan="drop")


def test_the_next_candidates_take_the_places_of_dropped_ones() -> None:
    head = np.full((5, 12), 9, np.float32)
    head[4] = np.linspace(0.9, 0.3, 12)
    head[0, :3] = np.inf
    actual = endcap.box_decode(head, num_classes=1, max_candidates=4, on_nan="drop")
    assert actual.indices.tolist() == [3, 4, 5, 6]
    assert (actual.truncated, actual.dropped) == (True, 3)


# Heads of three boxes of one class, by their scores.
ONE_CLASS: dict[str, Callable[[Any, Any], Any]] = {
    "yolov8": lambda boxes, scores: np.vstack([boxes.T, scores]),
    "yolov5": lambda boxes, scores: np.column_stack([boxes, np.float32([1, 1, 1]), scores]),
    "end2end": lambda boxes, scores: np.column_stack([boxes, scores, np.zeros(3, np.float32)]),
    "detections": lambda boxes, scores: (boxes, scores, np.zeros(3, np.int32)),
    "rtdetr": lambda boxes, scores: {"logits": scores[:, None], "boxes": boxes},
    "ssd": lambda boxes, scores: {"boxes": boxes, "scores": scores[:, None]},
}
AS_SCORES: dict[str, dict[str, Any]] = {
    "rtdetr": {"activation": "none"},
    "ssd": {"activation": "none", "anchors": "none", "background": "none"},
}


@pytest.mark.parametrize("family", ONE_CLASS)
def test_a_score_equal_to_the_threshold_is_no_candidate(family: str) -> None:
    scores = np.float32([0.25, np.nextafter(np.float32(0.25), np.float32(1)), 0.2499])
    head = ONE_CLASS[family](np.full((3, 4), 9, np.float32), scores)
    options = {"num_classes": 1, "score_threshold": 0.25, **AS_SCORES.get(family, {})}
    assert endcap.box_decode(head, family=family, **options).indices.tolist() == [1]


@pytest.mark.parametrize("family", ["yolov8", "yolov5", "rtdetr", "ssd"])
def test_of_equal_scores_the_lower_class_counts(family: str) -> None:
    scores = np.float32([[0.5, 0.9, 0.9], [0.8, 0.8, 0.8], [0.7, 0.2, 0.7]])
    boxes = np.float32([[9, 9, 4, 4]] * 3)
    head: Any = {
        "yolov8": np.vstack([boxes.T, scores.T]),
        "yolov5": np.hstack([boxes, np.ones((3, 1), np.float32), scores]),
        "rtdetr": {"logits": scores, "boxes": boxes},
        "ssd": {"boxes": boxes, "scores": scores},
    }[family]
    options = {"multi_label": False, **AS_SCORES.get(family, {})}
    actual = endcap.box_decode(head, family=family, num_classes=3, **options)
    assert actual.indices.tolist() == [0, 1, 2]
    assert actual.class_ids.tolist() == [1, 0, 0]


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
