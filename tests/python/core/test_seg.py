"""Heads with masks, by prototypes or of each query: those of the detections that are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.reference import masks
from tests.reference.placement import letterbox
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import rtdetr_seg_outputs, seg_outputs

forced_implementation = on_each_implementation("box_decode", "nms", "masks")

INPUT = (320, 640)
PROTOTYPES = (80, 160)
GEOMETRY = letterbox(214, 641, *INPUT, upscale=True, pad_align="center").geometry(214, 641)
OPTIONS: dict[str, Any] = {
    "num_classes": 2,
    "mask_coefficients": 8,
    "input_size": INPUT,
    "prototype_size": PROTOTYPES,
    "max_detections": 50,
}


def outputs(seed: int = 1) -> dict[str, np.ndarray]:
    return seg_outputs(seed, anchors=60, num_classes=2, size=PROTOTYPES)


def plain(head: dict[str, np.ndarray], geometry: np.ndarray | None = None) -> Any:
    return endcap.Postprocessor(num_classes=2, max_detections=50)(head["head"][:6], geometry)


def expected_masks(
    head: dict[str, np.ndarray], kept: np.ndarray, resolution: str, geometry: np.ndarray | None
) -> np.ndarray:
    candidates = endcap.box_decode(head["head"][:6], num_classes=2)
    boxes = candidates.boxes[[candidates.indices.tolist().index(anchor) for anchor in kept]]
    weights = head["head"][6:, kept].T
    return np.stack(
        [
            masks.mask(head["protos"], weight, box, resolution, INPUT, geometry)
            for weight, box in zip(weights, boxes, strict=True)
        ]
    )


@pytest.mark.parametrize("geometry", [None, GEOMETRY], ids=["input", "source"])
@pytest.mark.parametrize("resolution", ["prototype", "input", "source"])
def test_masks_of_the_kept(resolution: str, geometry: np.ndarray | None) -> None:
    head = outputs()
    found = endcap.Postprocessor(
        "yolov8_seg",
        mask_resolution=resolution,
        packed_masks=resolution != "source",
        **OPTIONS,
    )(head, geometry)
    rows, boxes = found[0], plain(head, geometry)[0]
    np.testing.assert_array_equal(rows.boxes, boxes.boxes)
    np.testing.assert_array_equal(rows.indices, boxes.indices)
    source = (214, 641) if geometry is not None else INPUT
    size = {"prototype": PROTOTYPES, "input": INPUT, "source": source}[resolution]
    assert rows.mask_size == size
    expected = expected_masks(head, rows.indices, resolution, geometry)
    assert 5 < len(rows) < 50
    assert 0.01 < expected.mean() < 0.9
    np.testing.assert_array_equal(rows.masks, expected)
    assert rows.rle == [masks.encode(mask) for mask in expected]
    if resolution == "source":
        assert found.packed_masks is None
    else:
        assert found.packed_masks is not None
        bits = np.unpackbits(found.packed_masks[0], axis=-1)[..., : size[1]].astype(bool)
        np.testing.assert_array_equal(bits[: len(rows)], expected)
        assert not bits[len(rows) :].any()


def test_float16_is_read_as_it_is() -> None:
    halves = {name: array.astype(np.float16) for name, array in outputs(2).items()}
    wide = {name: array.astype(np.float32) for name, array in halves.items()}
    postprocessor = endcap.Postprocessor("yolov8_seg", **OPTIONS)
    actual, expected = postprocessor(halves)[0], postprocessor(wide)[0]
    assert len(actual) > 5
    assert actual.rle == expected.rle


def test_no_detection_has_no_mask_and_a_size() -> None:
    head = outputs(3)
    head["head"][4:6] = 0
    rows = endcap.Postprocessor("yolov8_seg", **OPTIONS)(head, GEOMETRY)[0]
    assert rows.rle == []
    assert rows.masks.shape == (0, 214, 641)


def test_each_image_of_a_batch_has_its_own_masks() -> None:
    single = [outputs(seed) for seed in range(3)]
    batch = {name: np.stack([each[name] for each in single]) for name in single[0]}
    postprocessor = endcap.Postprocessor("yolov8_seg", threads=2, **OPTIONS)
    together = postprocessor(batch, np.stack([GEOMETRY] * 3))
    for image, each in enumerate(single):
        assert together[image].rle == postprocessor(each, GEOMETRY)[0].rle


def test_a_blank_image_has_no_masks() -> None:
    status = np.array([0, int(endcap.Status.CORRUPT_IMAGE)], np.int32)
    batch = {name: np.stack([array] * 2) for name, array in outputs(4).items()}
    found = endcap.Postprocessor("yolov8_seg", **OPTIONS)(batch, None, status)
    assert len(found[0].rle or []) > 5
    assert found[1].rle == []


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_numbers_of_the_kept_are_refused(value: float) -> None:
    head = outputs(5)
    postprocessor = endcap.Postprocessor("yolov8_seg", **OPTIONS)
    kept = postprocessor(head)[0].indices
    dropped = sorted(set(range(60)) - set(kept.tolist()))
    head["head"][7, dropped] = value
    assert postprocessor(head)[0].indices.tolist() == kept.tolist()
    bad = {**head, "head": head["head"].copy()}
    bad["head"][7, kept[0]] = value
    with pytest.raises(endcap.InvalidArgumentError, match=f"anchor {kept[0]}"):
        postprocessor(bad)
    bad = {**head, "protos": np.full_like(head["protos"], value)}
    with pytest.raises(endcap.InvalidArgumentError, match="finite"):
        postprocessor(bad)


@pytest.mark.parametrize("name", ["head", "protos"])
def test_tensors_of_another_shape_are_refused(name: str) -> None:
    head = outputs(6)
    head[name] = np.ascontiguousarray(head[name][1:])
    with pytest.raises(endcap.InvalidArgumentError, match=name):
        endcap.Postprocessor("yolov8_seg", **OPTIONS)(head)


def test_other_heads_have_no_masks() -> None:
    head = outputs(7)
    rows = plain(head)[0]
    masked = endcap.Postprocessor("yolov8_seg", **OPTIONS)(head)[0]
    np.testing.assert_array_equal(rows.boxes, masked.boxes)
    assert rows.rle is None
    assert masked.rle is not None
    assert rows.masks is None


QUERIES: dict[str, Any] = {
    "num_classes": 2,
    "input_size": INPUT,
    "prototype_size": PROTOTYPES,
    "max_detections": 12,
}


def queries(seed: int) -> dict[str, np.ndarray]:
    """One box leaves the image, as RF-DETR's may."""
    head = rtdetr_seg_outputs(seed, queries=60, num_classes=2, size=PROTOTYPES)
    head["logits"][7] = 3
    head["boxes"][7] = (1.03, 0.5, 0.2, 0.2)
    return head


@pytest.mark.parametrize("geometry", [None, GEOMETRY], ids=["input", "source"])
@pytest.mark.parametrize("resolution", ["prototype", "input", "source"])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_masks_of_queries_are_whole(
    resolution: str, geometry: np.ndarray | None, dtype: type
) -> None:
    head = {name: array.astype(dtype) for name, array in queries(8).items()}
    found = endcap.Postprocessor("rtdetr_seg", mask_resolution=resolution, **QUERIES)(
        head, geometry
    )
    rows = found[0]
    plain = endcap.Postprocessor("rtdetr", num_classes=2, input_size=INPUT, max_detections=12)(
        {name: head[name] for name in ("logits", "boxes")}, geometry
    )[0]
    np.testing.assert_array_equal(rows.boxes, plain.boxes)
    np.testing.assert_array_equal(rows.indices, plain.indices)
    assert len(set(rows.indices.tolist())) > 5
    one, box = np.ones(1, np.float32), np.array([0, 0, *INPUT[::-1]], np.float32)
    wide = head["masks"].astype(np.float32)
    expected = np.stack(
        [masks.mask(wide[[i]], one, box, resolution, INPUT, geometry) for i in rows.indices]
    )
    assert 0.1 < expected.mean() < 0.9
    np.testing.assert_array_equal(rows.masks, expected)
    assert rows.rle == [masks.encode(mask) for mask in expected]
    if found.packed_masks is not None:
        packed = np.unpackbits(found.packed_masks[0], axis=-1, count=expected.shape[2])
        np.testing.assert_array_equal(packed[: len(rows)], expected)


def test_a_query_may_have_a_background_and_two_classes() -> None:
    head = queries(9)
    head["logits"][:] = -9
    head["logits"][4] = (2, 3)
    found = endcap.Postprocessor("rtdetr_seg", **QUERIES)(head)[0]
    assert found.indices.tolist() == [4, 4]
    assert found.rle is not None
    assert found.rle[0] == found.rle[1]
    options = QUERIES | {"num_classes": 1, "background": "last", "activation": "sigmoid"}
    found = endcap.Postprocessor("rtdetr_seg", **options)(head)[0]
    assert found.class_ids.tolist() == [0]
    assert found.scores[0] == np.float32(1 / (1 + np.exp(-2)))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_bad_logits_of_the_kept_are_refused(value: float) -> None:
    head = queries(10)
    postprocessor = endcap.Postprocessor("rtdetr_seg", **QUERIES)
    kept = postprocessor(head)[0].indices
    head["masks"][sorted(set(range(60)) - set(kept.tolist()))] = value
    assert postprocessor(head)[0].indices.tolist() == kept.tolist()
    head["masks"][kept[1], 3, 5] = value
    with pytest.raises(
        endcap.InvalidArgumentError, match=rf"candidate {kept[1]}\) at row 3, column 5"
    ):
        postprocessor(head)


@pytest.mark.parametrize("part", [np.s_[1:], np.s_[:, 1:]], ids=["queries", "rows"])
def test_masks_of_another_shape_are_refused(part: Any) -> None:
    head = queries(11)
    head["masks"] = np.ascontiguousarray(head["masks"][part])
    with pytest.raises(endcap.InvalidArgumentError, match="masks"):
        endcap.Postprocessor("rtdetr_seg", **QUERIES)(head)
