"""Raw heads -> detections: against the oracles, mapped back to the source, packed and batched."""

from __future__ import annotations

import dataclasses
import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import endcap
from tests.reference import heads
from tests.reference.detections import Rows, pack
from tests.reference.placement import letterbox
from tests.support import jpegs, tolerances
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import efficient_nms_outputs, end2end_head, yolov8_head

forced_implementation = on_each_implementation("preprocess", "box_decode", "nms")

GEOMETRY = letterbox(427, 641, 640, 640, upscale=True, pad_align="center").geometry(427, 641)


def assert_rows(actual: Any, expected: Rows, *, image: int = 0) -> None:
    """All K rows of one image of `actual`, unused ones included."""
    assert actual.num_detections.dtype == np.int32
    assert actual.num_detections[image] == expected.num_detections
    np.testing.assert_array_equal(actual.indices[image], expected.indices)
    np.testing.assert_array_equal(actual.class_ids[image], expected.class_ids)
    np.testing.assert_array_equal(actual.scores[image], expected.scores)
    np.testing.assert_array_equal(actual.boxes[image], expected.boxes)


@pytest.mark.parametrize(
    ("head", "shapes"),
    [
        ("yolov8", [(84, 3)]),
        ("yolov8_pose", [(135, 3)]),
        ("yolov8_obb", [(85, 3)]),
        ("yolov8_seg", [(116, 3), (32, 160, 160)]),
    ],
)
def test_results_have_every_field(head: str, shapes: list[tuple[int, ...]]) -> None:
    tensors = [np.zeros(shape, np.float32) for shape in shapes]
    result = endcap.Postprocessor(head)(tensors if len(tensors) > 1 else tensors[0])
    assert isinstance(result, endcap.Detections)
    assert set(vars(result)) == {field.name for field in dataclasses.fields(endcap.Detections)}
    assert repr(result) == "<Detections: 1 images, at most 300 detections each, cpu>"


@pytest.mark.parametrize("geometry", [None, GEOMETRY], ids=["model_pixels", "source_pixels"])
@pytest.mark.parametrize("class_agnostic", [False, True])
@pytest.mark.parametrize("multi_label", [False, True])
def test_yolov8(multi_label: bool, class_agnostic: bool, geometry: np.ndarray | None) -> None:
    head = yolov8_head(21, anchors=120, num_classes=5)
    ranked, _ = heads.best(heads.yolov8(head, score_threshold=0.3, multi_label=multi_label), 30000)
    expected = pack(
        ranked,
        max_detections=60,
        geometry=geometry,
        iou_threshold=0.45,
        class_agnostic=class_agnostic,
    )
    postprocessor = endcap.Postprocessor(
        num_classes=5,
        score_threshold=0.3,
        iou_threshold=0.45,
        max_detections=60,
        multi_label=multi_label,
        class_agnostic=class_agnostic,
    )
    actual = postprocessor(head, geometry)
    assert 0 < expected.num_detections < len(ranked)
    assert_rows(actual, expected)
    assert actual.status.tolist() == [0]
    assert actual.truncated.tolist() == [False]


def test_efficient_nms_is_mapped_back() -> None:
    outputs = efficient_nms_outputs(9)
    ranked = [
        heads.Candidate(outputs["boxes"][i], outputs["scores"][i], int(outputs["classes"][i]), i)
        for i in range(9)
        if outputs["scores"][i] > 0.25
    ]
    expected = pack(ranked, max_detections=300, geometry=GEOMETRY)
    actual = endcap.Postprocessor("efficient_nms", num_classes=7)(outputs, GEOMETRY)
    assert_rows(actual, expected)


@given(
    seed=st.integers(0, 2**32 - 1),
    anchors=st.integers(0, 40),
    iou_threshold=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    max_detections=st.integers(1, 20),
    max_candidates=st.integers(1, 60),
    levels=st.sampled_from([0, 3]),
)
def test_any_yolov8_head_equals_oracle(
    seed: int,
    anchors: int,
    iou_threshold: float,
    max_detections: int,
    max_candidates: int,
    levels: int,
) -> None:
    head = yolov8_head(seed, anchors=anchors, num_classes=3, levels=levels)
    ranked, truncated = heads.best(heads.yolov8(head, score_threshold=0.25), max_candidates)
    expected = pack(
        ranked, max_detections=max_detections, geometry=GEOMETRY, iou_threshold=iou_threshold
    )
    actual = endcap.Postprocessor(
        num_classes=3,
        iou_threshold=iou_threshold,
        max_detections=max_detections,
        max_candidates=max_candidates,
    )(head, GEOMETRY)
    assert_rows(actual, expected)
    assert actual.truncated.tolist() == [truncated]


@given(
    seed=st.integers(0, 2**32 - 1),
    family=st.sampled_from(["yolov8", "end2end"]),
    max_detections=st.integers(1, 60),
)
def test_boxes_without_area_are_dropped(seed: int, family: str, max_detections: int) -> None:
    """Those in the padding, which others replace, whether the network suppresses or not."""
    if family == "yolov8":
        head = yolov8_head(seed, anchors=100, num_classes=3)
        head[2:4] /= 8
        found = heads.yolov8(head, score_threshold=0.25)
    else:
        head = end2end_head(seed, rows=60, num_classes=3)
        found = heads.end2end(head, score_threshold=0.25)
    ranked, _ = heads.best(found, 30000)
    geometry = np.float32([1.5, 1.5, 240, 100, 200, 240, 1, 0])
    iou_threshold = 0.3 if family == "yolov8" else None
    expected = pack(
        ranked, max_detections=max_detections, geometry=geometry, iou_threshold=iou_threshold
    )
    actual = endcap.Postprocessor(
        family, num_classes=3, iou_threshold=0.3, max_detections=max_detections
    )(head, geometry)
    assert_rows(actual, expected)
    boxes = actual[0].boxes
    assert (boxes[:, :2] < boxes[:, 2:]).all()


def test_what_is_dropped_is_counted_for_its_image_only() -> None:
    batch = np.stack([yolov8_head(s, anchors=80, num_classes=3) for s in range(3)])
    batch[1, 5, [3, 9]] = np.nan
    detections = endcap.Postprocessor(num_classes=3, on_nan="drop")(batch)
    assert detections.dropped is not None
    assert detections.dropped.tolist() == [0, 2, 0]
    assert detections.status.tolist() == [0, 0, 0]
    assert not np.isin(detections[1].indices, [3, 9]).any()


def test_batch_equals_single_images() -> None:
    batch = np.stack([yolov8_head(s, anchors=80, num_classes=3) for s in range(5)])
    geometry = np.stack([GEOMETRY * np.float32(1 + 0.1 * i) for i in range(5)])
    postprocessor = endcap.Postprocessor(num_classes=3, max_detections=40)
    together = postprocessor(batch, geometry)
    assert together.boxes.shape == (5, 40, 4)
    assert together.scores.shape == (5, 40)
    for i in range(5):
        alone = postprocessor(batch[i], geometry[i])
        for name in ("num_detections", "boxes", "scores", "class_ids", "indices", "status"):
            np.testing.assert_array_equal(getattr(together, name)[i], getattr(alone, name)[0])


def test_indexing_gives_the_trimmed_rows_of_one_image() -> None:
    batch = np.stack([yolov8_head(s, anchors=30, num_classes=3) for s in range(2)])
    detections = endcap.Postprocessor(num_classes=3)(batch)
    for i in range(2):
        count = int(detections.num_detections[i])
        assert 0 < count < 300
        one = detections[i]
        assert one.boxes.shape == (count, 4)
        np.testing.assert_array_equal(one.scores, detections.scores[i, :count])
        np.testing.assert_array_equal(one.class_ids, detections.class_ids[i, :count])
        np.testing.assert_array_equal(one.indices, detections.indices[i, :count])
    with pytest.raises(IndexError):
        detections[2]


def test_no_detections_is_a_normal_result() -> None:
    head = np.zeros((2, 4 + 3, 10), np.float32)
    detections = endcap.Postprocessor(num_classes=3, max_detections=7)(head)
    assert detections.num_detections.tolist() == [0, 0]
    assert detections.boxes.shape == (2, 7, 4)
    assert not detections.boxes.any()
    assert not detections.scores.any()
    assert not detections.class_ids.any()
    assert (detections.indices == -1).all()
    assert detections.status.tolist() == [0, 0]
    assert len(detections[0].boxes) == 0


def test_truncation_is_reported_for_its_image_only() -> None:
    batch = np.zeros((2, 5, 40), np.float32)
    batch[:, 2:4] = 10
    batch[0, 4] = 0.9
    batch[1, 4, :3] = 0.9
    detections = endcap.Postprocessor(num_classes=1, max_candidates=8)(batch)
    assert detections.truncated.tolist() == [True, False]


def test_a_failed_image_stays_blank_and_its_neighbours_whole() -> None:
    batch = np.stack([yolov8_head(s, anchors=80, num_classes=3) for s in range(3)])
    batch[1] = np.nan
    status = np.array([0, endcap.Status.CORRUPT_IMAGE, 0], np.int32)
    postprocessor = endcap.Postprocessor(num_classes=3)
    detections = postprocessor(batch, np.stack([GEOMETRY] * 3), status)
    assert detections.status.tolist() == [0, 1, 0]
    assert detections.num_detections[1] == 0
    assert (detections.indices[1] == -1).all()
    for i in (0, 2):
        alone = postprocessor(batch[i], GEOMETRY)
        np.testing.assert_array_equal(detections.boxes[i], alone.boxes[0])


def test_geometry_takes_boxes_back_to_the_source() -> None:
    # A box in source pixels, carried into the tensor by preprocess' geometry, must come back.
    preprocessed = endcap.preprocess(jpegs.encode(jpegs.photo(300, 500), orientation=6))
    scale_x, scale_y, pad_x, pad_y = preprocessed.geometry[0, :4]
    assert preprocessed.geometry[0, 4:7].tolist() == [300, 500, 6]
    source = np.array([20, 30, 250, 480], np.float32)
    scale = np.array([scale_x, scale_y, scale_x, scale_y])
    pad = np.array([pad_x, pad_y, pad_x, pad_y])
    head = np.array([[*(source * scale + pad), 0.9, 0]], np.float32)
    detections = endcap.Postprocessor("end2end", num_classes=1)(head, preprocessed.geometry)
    np.testing.assert_allclose(
        detections[0].boxes[0], source, rtol=0, atol=tolerances.ROUND_TRIP_PIXELS
    )


def test_boxes_are_clipped_to_the_source() -> None:
    head = np.array([[-500, -500, 5000, 5000, 0.9, 0]], np.float32)
    detections = endcap.Postprocessor("end2end", num_classes=1)(head, GEOMETRY)
    assert detections.boxes[0, 0].tolist() == [0, 0, 641, 427]


@pytest.mark.parametrize("activation", ["default", "none", "sigmoid", "softmax"])
def test_classification(activation: str) -> None:
    logits = np.random.default_rng(31).normal(0, 4, (3, 50)).astype(np.float32)
    function = {"sigmoid": heads.sigmoid, "none": np.asarray}.get(activation, heads.softmax)
    result = endcap.Postprocessor("classification", num_classes=50, activation=activation, top_k=7)(
        logits
    )
    assert result.scores.shape == (3, 7)
    assert result.class_ids.shape == (3, 7)
    for i, row in enumerate(logits):
        expected = heads.top_classes(row, 7)
        np.testing.assert_array_equal(result.class_ids[i], expected)
        np.testing.assert_allclose(
            result.scores[i], function(row)[expected], rtol=tolerances.ACTIVATION_RTOL
        )
    assert result.status.tolist() == [0, 0, 0]


def test_a_classifier_of_few_classes_ranks_them_all() -> None:
    ranked = endcap.Postprocessor("classification", num_classes=2)(np.float32([0.1, 2.0]))
    assert isinstance(ranked, endcap.Classification)
    assert ranked.class_ids.tolist() == [[1, 0]]
    assert endcap.Postprocessor("classification", num_classes=80).parameters["top_k"] == "5"


def test_probabilities_stand_in_class_order() -> None:
    logits = np.float32([[1, 5, 2, -3, 0], [0, 0, 0, 0, 9]])
    ranked = endcap.Postprocessor("classification", num_classes=5, top_k=2)(logits)
    assert isinstance(ranked, endcap.Classification)
    assert ranked.probabilities.shape == (2, 5)
    assert ranked.probabilities.argmax(axis=1).tolist() == [1, 4]
    for image in range(2):
        in_order = ranked.probabilities[image, ranked.class_ids[image]]
        np.testing.assert_array_equal(in_order, ranked.scores[image])


def test_classification_ties_go_to_the_lower_class() -> None:
    result = endcap.Postprocessor("classification", num_classes=6, top_k=4)(
        np.array([1, 3, 1, 3, 1, 1], np.float32)
    )
    assert result.class_ids[0].tolist() == [1, 3, 0, 2]


def test_softmax_of_huge_logits_is_finite() -> None:
    logits = np.array([10000, 9999, -10000], np.float32)
    result = endcap.Postprocessor("classification", num_classes=3, top_k=3)(logits)
    np.testing.assert_allclose(
        result.scores[0], heads.softmax(logits), rtol=tolerances.ACTIVATION_RTOL
    )


def test_to_supervision_carries_the_rows_or_says_what_is_missing() -> None:
    detections = endcap.Postprocessor(num_classes=3)(yolov8_head(42, anchors=30, num_classes=3))
    if importlib.util.find_spec("supervision") is None:
        with pytest.raises(endcap.UnsupportedError, match="supervision"):
            detections[0].to_supervision()
        return
    converted = detections[0].to_supervision()
    np.testing.assert_array_equal(converted.xyxy, detections[0].boxes)
    np.testing.assert_array_equal(converted.confidence, detections[0].scores)
    np.testing.assert_array_equal(converted.class_id, detections[0].class_ids)
