"""Heads of every family -> detections: suppressed, mapped back to the source, packed, batched."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import endcap
from tests.reference import masks
from tests.reference.detections import Rows, pack, to_source
from tests.reference.heads import Candidate
from tests.reference.placement import letterbox
from tests.support import jpegs, tolerances
from tests.support import sample_heads as samples
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import FAMILIES, yolov8_head

forced_implementation = on_each_implementation("preprocess", "box_decode", "nms")

GEOMETRY = letterbox(427, 641, 640, 640, upscale=True, pad_align="center").geometry(427, 641)
HEAD_PARAMETERS = {*endcap.parameters.HeadParameters.__annotations__, "num_classes"}


def rank(family: str, image: Any, **parameters: Any) -> list[Candidate]:
    """The candidates, which test_box_decode.py holds to their definition."""
    options = {k: v for k, v in parameters.items() if k in HEAD_PARAMETERS}
    found = endcap.box_decode(image, family=family, **options)
    columns = (found.boxes, found.scores, found.class_ids.tolist(), found.indices.tolist())
    return [Candidate(*row) for row in zip(*columns, strict=True)]


def define(family: str, image: Any, geometry: Any = None, **parameters: Any) -> Rows:
    iou_threshold = parameters.get("iou_threshold", 0.7)
    return pack(
        rank(family, image, **parameters),
        max_detections=parameters.get("max_detections", 300),
        geometry=geometry,
        iou_threshold=iou_threshold if FAMILIES[family].is_suppressed else None,
        class_agnostic=parameters.get("class_agnostic", False),
    )


def assert_rows(actual: Any, expected: Rows, *, image: int = 0) -> None:
    """All K rows of one image of `actual`, unused ones included."""
    assert actual.num_detections.dtype == np.int32
    assert actual.num_detections[image] == expected.num_detections
    for name in ("indices", "class_ids", "scores", "boxes"):
        np.testing.assert_array_equal(getattr(actual, name)[image], getattr(expected, name))


@pytest.mark.parametrize("geometry", [None, GEOMETRY], ids=["model_pixels", "source_pixels"])
@pytest.mark.parametrize(("class_agnostic", "multi_label"), [(False, False), (True, True)])
@pytest.mark.parametrize(
    "family", [each for each in FAMILIES if each != "classification" and "obb" not in each]
)
def test_rows_are_those_of_the_definition(
    family: str, class_agnostic: bool, multi_label: bool, geometry: Any
) -> None:
    parameters = {
        **{"num_classes": 7, "iou_threshold": 0.45, "max_detections": 60},
        "score_threshold": 0.7 if family.startswith("yolo") else 0.3,
        **FAMILIES[family].parameters,
        **{"class_agnostic": class_agnostic, "multi_label": multi_label},
    }
    image = FAMILIES[family].images(6)[5]
    expected = define(family, image, geometry, **parameters)
    actual = endcap.Postprocessor(family, **parameters)(image, geometry)
    assert expected.num_detections > 0
    assert_rows(actual, expected)
    assert (actual.status.tolist(), actual.truncated.tolist()) == ([0], [False])
    assert (actual.keypoints is not None) == ("pose" in family)
    assert (actual[0].rle is not None) == (actual[0].masks is not None) == ("seg" in family)


@given(
    seed=st.integers(0, 2**32 - 1),
    anchors=st.integers(0, 40),
    iou_threshold=st.sampled_from([0.0, 0.3, 0.5, 1.0]),
    max_detections=st.integers(1, 20),
    max_candidates=st.integers(1, 60),
    levels=st.sampled_from([0, 3]),
)
def test_any_yolov8_head(seed: int, anchors: int, levels: int, **options: Any) -> None:
    head = yolov8_head(seed, anchors=anchors, num_classes=3, levels=levels)
    expected = define("yolov8", head, GEOMETRY, num_classes=3, **options)
    assert_rows(endcap.Postprocessor(num_classes=3, **options)(head, GEOMETRY), expected)


@given(
    seed=st.integers(0, 2**32 - 1),
    family=st.sampled_from(["yolov8", "end2end"]),
    max_detections=st.integers(1, 60),
)
def test_boxes_without_area_are_dropped(seed: int, family: str, max_detections: int) -> None:
    """Those in the padding, which others replace, whether the network suppresses or not."""
    head = samples.end2end_head(seed, rows=60, num_classes=3)
    if family == "yolov8":
        head = yolov8_head(seed, anchors=100, num_classes=3)
        head[2:4] /= 8
    geometry = np.float32([1.5, 1.5, 240, 100, 200, 240, 1, 0])
    options = {"num_classes": 3, "iou_threshold": 0.3, "max_detections": max_detections}
    actual = endcap.Postprocessor(family, **options)(head, geometry)
    assert_rows(actual, define(family, head, geometry, **options))
    boxes = actual[0].boxes
    assert (boxes[:, :2] < boxes[:, 2:]).all()


def test_a_class_left_out_neither_suppresses_nor_fills_max_candidates() -> None:
    scores = np.array([[0.9, 0.8, 0, 0], [0.5, 0.7, 0, 0], [0.1, 0.2, 0, 0.6]], np.float32)
    head = np.vstack([np.full((4, 3), 50, np.float32), scores.T])
    options = {"num_classes": 4, "class_agnostic": True, "max_candidates": 1}
    result = endcap.Postprocessor("yolov8", **options, classes=[3])(head)
    assert result.class_ids[0, : result.num_detections[0]].tolist() == [3]
    assert not result.truncated[0]


# --- Keypoints and masks

SEG = {"mask_coefficients": 8, "prototype_size": (40, 48), "input_size": (160, 192)}
SEG_GEOMETRY = letterbox(107, 193, 160, 192, upscale=True, pad_align="center").geometry(107, 193)


@pytest.mark.parametrize("geometry", [None, GEOMETRY], ids=["input", "source"])
@pytest.mark.parametrize(("keypoints", "values"), [(1, 2), (4, 3), (17, 3), (17, 2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("family", ["yolov8_pose", "end2end_pose"])
def test_keypoints_of_the_kept(
    family: str, dtype: type, keypoints: int, values: int, geometry: Any
) -> None:
    sizes = {"num_classes": 2, "keypoints": keypoints, "values": values}
    if family == "yolov8_pose":
        head = samples.pose_head(1, anchors=90, **sizes)
        rows = head.T
    else:
        rows = head = samples.end2end_pose_head(1, rows=90, **sizes)
    head, extra = head.astype(dtype), rows[:, 6:].astype(dtype)
    options = {"num_keypoints": keypoints, "keypoint_values": values, "max_detections": 80}
    actual = endcap.Postprocessor(family, 2, **options)(head, geometry)
    assert_rows(actual, define(family, head, geometry, num_classes=2, **options))
    count = int(actual.num_detections[0])
    assert 5 < count < 80
    expected = np.ones((count, keypoints, 3), np.float32)
    kept = actual.indices[0, :count]
    expected[..., :values] = extra[kept].reshape(count, keypoints, values)
    if geometry is not None:
        corners = np.concatenate([expected[..., :2]] * 2, axis=-1).reshape(-1, 4)
        points = np.array([to_source(each, geometry)[:2] for each in corners])
        expected[..., :2] = points.reshape(count, keypoints, 2)
    assert actual.keypoints is not None
    np.testing.assert_array_equal(actual.keypoints[0, :count], expected)
    assert not actual.keypoints[0, count:].any()
    np.testing.assert_array_equal(actual[0].keypoints, expected)


def test_keypoints_in_fractions_of_the_input() -> None:
    head = samples.pose_head(2, anchors=90, num_classes=1, keypoints=5)
    options = {"num_classes": 1, "num_keypoints": 5}
    pixels = endcap.Postprocessor("yolov8_pose", **options)(head)[0]
    sides = np.float32([320, 640])[:, None]
    for first in (0, 2, *range(5, 20, 3)):
        head[first : first + 2] /= sides
    options |= {"box_unit": "normalized", "input_size": (640, 320)}
    normalized = endcap.Postprocessor("yolov8_pose", **options)(head)[0]
    assert len(pixels) > 5
    assert pixels.keypoints is not None
    error = tolerances.NORMALISED_BOX_RTOL * 640
    np.testing.assert_allclose(normalized.keypoints, pixels.keypoints, rtol=0, atol=error)


def segmented(family: str, seed: int = 8) -> tuple[dict[str, np.ndarray], Any]:
    """A head, and its prototypes and coefficients of a row, in the form of prototypes."""
    sizes = {"num_classes": 2, "size": (40, 48)}
    if family == "rtdetr_seg":
        head = samples.rtdetr_seg_outputs(seed, queries=60, **sizes)
        head["logits"][7] = 3  # a box that leaves the image, as RF-DETR's may
        head["boxes"][7] = (1.03, 0.5, 0.2, 0.2)
        return head, lambda row: (head["masks"][[row]], np.ones(1))
    if family == "yolov8_seg":
        head = samples.seg_outputs(seed, anchors=60, **sizes)
        head["head"][:4] *= np.float32(0.3)
        return head, lambda row: (head["protos"], head["head"][6:, row])
    head = samples.end2end_seg_outputs(seed, rows=30, **sizes)
    head["head"][:, :4] *= np.float32(0.3)
    return head, lambda row: (head["protos"], head["head"][row, 6:])


@pytest.mark.parametrize("geometry", [None, SEG_GEOMETRY], ids=["input", "source"])
@pytest.mark.parametrize("resolution", ["prototype", "input", "source"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("family", ["yolov8_seg", "end2end_seg", "rtdetr_seg"])
def test_masks_of_the_kept(family: str, dtype: type, resolution: str, geometry: Any) -> None:
    head, parts = segmented(family)
    for name in head:
        head[name] = head[name].astype(dtype)
    options = {"num_classes": 2, "max_detections": 22, **SEG}
    options = {k: v for k, v in options.items() if family != "rtdetr_seg" or "coeff" not in k}
    packed = resolution != "source" and family != "rtdetr_seg"
    found = endcap.Postprocessor(
        family, mask_resolution=resolution, packed_masks=packed, **options
    )(head, geometry)
    assert_rows(found, define(family, head, geometry, **options))
    rows = found[0]
    boxes = {c.index: c.box for c in rank(family, head, **options)}
    size = SEG["input_size"]
    if family == "rtdetr_seg":  # a query's mask is not cut at its box
        boxes = dict.fromkeys(boxes, np.float32([0, 0, *size[::-1]]))
    expected = np.stack(
        [
            masks.mask(
                *(part.astype(np.float32) for part in parts(index)),
                *(boxes[index], resolution, size, geometry),
            )
            for index in rows.indices.tolist()
        ]
    )
    assert 0.01 < expected.mean() < 0.9
    np.testing.assert_array_equal(rows.masks, expected)
    assert rows.rle == [masks.encode(mask) for mask in expected]
    assert rows.mask_size == expected.shape[1:]
    if packed:
        assert found.packed_masks is not None
        bits = np.unpackbits(found.packed_masks[0], axis=-1, count=expected.shape[2]).astype(bool)
        np.testing.assert_array_equal(bits[: len(rows)], expected)
        assert not bits[len(rows) :].any()


def test_each_image_of_a_batch_has_its_own_masks() -> None:
    images = [segmented("yolov8_seg", seed)[0] for seed in range(3)]
    images[1]["head"][4:6] = 0
    batch = {name: np.stack([each[name] for each in images]) for name in images[0]}
    postprocessor = endcap.Postprocessor("yolov8_seg", 2, threads=2, **SEG)
    together = postprocessor(batch, np.stack([SEG_GEOMETRY] * 3))
    for image, each in enumerate(images):
        assert together[image].rle == postprocessor(each, SEG_GEOMETRY)[0].rle
    assert together[1].masks.shape == (0, 107, 193)
    status = np.array([0, 0, endcap.Status.CORRUPT_IMAGE], np.int32)
    blank = postprocessor(batch, None, status)
    assert len(blank[0].rle or []) > 5
    assert blank[2].rle == []


# --- Batches and packing


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
    batch[2] = np.nan
    status = np.array([0, 0, endcap.Status.CORRUPT_IMAGE, 0, 0], np.int32)
    geometry = np.stack([GEOMETRY * np.float32(1 + 0.1 * i) for i in range(5)])
    postprocessor = endcap.Postprocessor(num_classes=3, max_detections=70)
    together = postprocessor(batch, geometry, status)
    assert together.status.tolist() == [0, 0, 1, 0, 0]
    for i in (0, 1, 3, 4):
        assert_rows(postprocessor(batch[i], geometry[i]), _rows(together, i))
        count = int(together.num_detections[i])
        assert 0 < count < 70
        np.testing.assert_array_equal(together[i].scores, together.scores[i, :count])
        np.testing.assert_array_equal(together[i].indices, together.indices[i, :count])
    blank = _rows(together, 2)
    assert (blank.num_detections, blank.boxes.any(), blank.scores.any()) == (0, False, False)
    assert (blank.indices == -1).all()
    assert len(together[2].boxes) == 0
    with pytest.raises(IndexError):
        together[5]


def _rows(found: endcap.Detections, i: int) -> Rows:
    columns = (found.boxes, found.scores, found.class_ids, found.indices)
    return Rows(int(found.num_detections[i]), *(column[i] for column in columns))


def test_empty_heads_are_normal() -> None:
    for shape, images in (((0, 7, 20), 0), ((2, 7, 0), 2), ((2, 7, 10), 2)):
        detections = endcap.Postprocessor(num_classes=3)(np.zeros(shape, np.float32))
        assert detections.boxes.shape == (images, 300, 4)
        assert detections.num_detections.tolist() == [0] * images
    rows = {name: part[:0] for name, part in samples.detections_outputs(4).items()}
    assert len(endcap.Postprocessor("detections", num_classes=7)(rows)[0]) == 0


def test_truncation_is_reported_for_its_image_only() -> None:
    batch = np.zeros((2, 5, 40), np.float32)
    batch[:, 2:4] = 10
    batch[0, 4] = 0.9
    batch[1, 4, :3] = 0.9
    detections = endcap.Postprocessor(num_classes=1, max_candidates=8)(batch)
    assert detections.truncated.tolist() == [True, False]


def test_geometry_takes_boxes_back_to_the_source() -> None:
    # A box in source pixels, carried into the tensor by preprocess' geometry, must come back.
    preprocessed = endcap.preprocess(jpegs.encode(jpegs.photo(300, 500), orientation=6))
    scale, pad = (np.tile(preprocessed.geometry[0, at : at + 2], 2) for at in (0, 2))
    assert preprocessed.geometry[0, 4:7].tolist() == [300, 500, 6]
    source = np.array([20, 30, 250, 480], np.float32)
    head = np.array([[*(source * scale + pad), 0.9, 0]], np.float32)
    detections = endcap.Postprocessor("end2end", num_classes=1)(head, preprocessed.geometry)
    np.testing.assert_allclose(
        detections[0].boxes[0], source, rtol=0, atol=tolerances.ROUND_TRIP_PIXELS
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
