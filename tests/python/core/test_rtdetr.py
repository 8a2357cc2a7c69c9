"""RT-DETR's queries, and DETR's, against the oracle."""

from __future__ import annotations

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
from tests.support.sample_heads import rtdetr_outputs

forced_implementation = on_each_implementation("box_decode")

SIZE = (480, 640)
PIXELS = np.float32([640, 480, 640, 480])


def assert_candidates(actual: Any, expected: list[Candidate], *, exact_scores: bool) -> None:
    assert actual.indices.tolist() == [c.index for c in expected]
    assert actual.class_ids.tolist() == [c.class_id for c in expected]
    scores = np.array([c.score for c in expected], np.float32)
    rtol = 0 if exact_scores else tolerances.ACTIVATION_RTOL
    np.testing.assert_allclose(actual.scores, scores, rtol=rtol)
    boxes = np.array([c.box for c in expected], np.float32).reshape(-1, 4)
    np.testing.assert_allclose(
        actual.boxes, boxes, rtol=0, atol=tolerances.NORMALISED_BOX_RTOL * max(SIZE)
    )


@pytest.mark.parametrize("multi_label", [None, True, False])
@pytest.mark.parametrize("num_classes", [1, 3, 80])
def test_logits_and_boxes(num_classes: int, multi_label: bool | None) -> None:
    head = rtdetr_outputs(1, queries=200, num_classes=num_classes)
    found = heads.rtdetr(
        heads.sigmoid(head["logits"]),
        head["boxes"] * PIXELS,
        score_threshold=0.25,
        multi_label=multi_label is not False,
    )
    expected, _ = heads.best(found, 30000)
    assert len(expected) > 5
    actual = endcap.box_decode(
        head, family="rtdetr", num_classes=num_classes, multi_label=multi_label, input_size=SIZE
    )
    assert_candidates(actual, expected, exact_scores=False)


def test_joined_scores_are_taken_as_they_are() -> None:
    parts = rtdetr_outputs(2, queries=90, num_classes=7)
    scores = heads.sigmoid(parts["logits"])
    found = heads.rtdetr(scores, parts["boxes"] * PIXELS, score_threshold=0.25)
    expected, _ = heads.best(found, 30000)
    actual = endcap.box_decode(
        np.hstack([parts["boxes"], scores]),
        family="rtdetr",
        num_classes=7,
        joined=True,
        input_size=SIZE,
    )
    assert_candidates(actual, expected, exact_scores=True)


@pytest.mark.parametrize("background", ["first", "last"])
@pytest.mark.parametrize("multi_label", [True, False])
@pytest.mark.parametrize("score_threshold", [0.0, 0.05, 0.5, 0.9])
def test_softmax_with_a_background_is_detr(
    background: str, multi_label: bool, score_threshold: float
) -> None:
    head = rtdetr_outputs(3, queries=120, num_classes=6, columns=7)
    head["logits"] *= 2
    found = heads.rtdetr(
        heads.activated(head["logits"], "softmax", background),
        head["boxes"] * PIXELS,
        score_threshold=score_threshold,
        multi_label=multi_label,
    )
    expected, _ = heads.best(found, 30000)
    actual = endcap.box_decode(
        head,
        family="rtdetr",
        num_classes=6,
        background=background,
        activation="softmax",
        multi_label=multi_label,
        score_threshold=score_threshold,
        input_size=SIZE,
    )
    assert expected
    assert_candidates(actual, expected, exact_scores=False)


def test_nothing_is_suppressed_and_the_best_max_detections_are_rows() -> None:
    head = rtdetr_outputs(4, queries=100, num_classes=4)
    head["boxes"][:] = head["boxes"][0]
    found = heads.rtdetr(
        heads.sigmoid(head["logits"]), head["boxes"] * PIXELS, score_threshold=0.25
    )
    ranked, _ = heads.best(found, 30000)
    assert len(ranked) > 20
    rows = endcap.Postprocessor(
        "rtdetr", num_classes=4, input_size=SIZE, iou_threshold=0.1, max_detections=20
    )(head)[0]
    assert rows.indices.tolist() == [c.index for c in ranked[:20]]
    assert rows.class_ids.tolist() == [c.class_id for c in ranked[:20]]


@given(
    seed=st.integers(0, 2**32 - 1),
    queries=st.integers(0, 30),
    num_classes=st.integers(1, 20),
    score_threshold=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
    max_candidates=st.integers(1, 40),
    levels=st.sampled_from([0, 3]),
)
def test_any_scores_equal_the_oracle(
    seed: int,
    queries: int,
    num_classes: int,
    score_threshold: float,
    max_candidates: int,
    levels: int,
) -> None:
    parts = rtdetr_outputs(seed, queries=queries, num_classes=num_classes)
    scores = heads.sigmoid(parts["logits"] + 2)
    if levels:
        scores = np.round(scores * levels) / np.float32(levels)
    found = heads.rtdetr(scores, parts["boxes"] * PIXELS, score_threshold=score_threshold)
    expected, truncated = heads.best(found, max_candidates)
    actual = endcap.box_decode(
        {"logits": scores, "boxes": parts["boxes"]},
        family="rtdetr",
        num_classes=num_classes,
        activation="none",
        score_threshold=score_threshold,
        max_candidates=max_candidates,
        input_size=SIZE,
    )
    assert_candidates(actual, expected, exact_scores=True)
    assert actual.truncated == truncated


def test_float16() -> None:
    parts = rtdetr_outputs(5, queries=60, num_classes=9)
    halves = {name: array.astype(np.float16) for name, array in parts.items()}
    wide = {name: array.astype(np.float32) for name, array in halves.items()}
    options: dict[str, Any] = {"family": "rtdetr", "num_classes": 9}
    actual, expected = endcap.box_decode(halves, **options), endcap.box_decode(wide, **options)
    assert len(actual.scores) > 5
    np.testing.assert_array_equal(actual.boxes, expected.boxes)
    np.testing.assert_array_equal(actual.scores, expected.scores)


@pytest.mark.parametrize("name", ["logits", "boxes"])
def test_nan_is_refused(name: str) -> None:
    head = rtdetr_outputs(6, queries=60, num_classes=9)
    head[name][33, 2] = np.nan
    with pytest.raises(endcap.InvalidArgumentError, match=rf"{name} is NaN at element"):
        endcap.box_decode(head, family="rtdetr", num_classes=9)


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_logits(value: float) -> None:
    head = rtdetr_outputs(7, queries=60, num_classes=9)
    head["logits"][5] = value
    saturated = endcap.box_decode(head, family="rtdetr", num_classes=9, score_threshold=0.9)
    assert (saturated.indices == 5).sum() == (9 if value > 0 else 0)
    assert (saturated.scores[saturated.indices == 5] == 1).all()
    with pytest.raises(endcap.InvalidArgumentError, match="greatest score of row 5"):
        endcap.box_decode(head, family="rtdetr", num_classes=9, activation="softmax")


def test_tensors_of_different_lengths_are_refused() -> None:
    head = rtdetr_outputs(8, queries=60, num_classes=9)
    head["boxes"] = head["boxes"][:59]
    with pytest.raises(
        endcap.InvalidArgumentError,
        match="logits has 60 rows and boxes has 59: they must have as many",
    ):
        endcap.Postprocessor("rtdetr", num_classes=9)(head)
