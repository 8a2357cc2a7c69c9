"""Slicing: tiles of an image, and the detections of tiles merged, against tests/reference."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import endcap
from tests.reference import tiles as reference
from tests.support import forced_implementations, jpegs, sample_heads

forced_implementation = forced_implementations.on_each_implementation("decode", "preprocess")

HEIGHT, WIDTH = 150, 190
SIDES = st.integers(1, 400)
SMALL = {"size": 16, "tile": 64}


@given(
    SIDES,
    SIDES,
    st.tuples(st.integers(20, 300), st.integers(20, 300)),
    st.floats(0, 0.9),
    st.booleans(),
)
def test_any_tiles(height, width, tile, overlap, full):
    image = np.zeros((height, width), np.uint8)
    preprocessor = endcap.Preprocessor(
        size=4, tile=tile, tile_overlap=overlap, tile_full=full, max_rois=1_000_000
    )
    expected = reference.tiles(height, width, tile, overlap, full=full)
    np.testing.assert_array_equal(preprocessor.tiles(image), expected)


@pytest.mark.parametrize("orientation", [1, 6])
def test_tensors_are_those_of_regions(orientation):
    file = jpegs.encode(jpegs.photo(HEIGHT, WIDTH), orientation=orientation)
    preprocessor = endcap.Preprocessor(**SMALL)
    height, width = (HEIGHT, WIDTH) if orientation == 1 else (WIDTH, HEIGHT)
    rois = reference.tiles(height, width, (64, 64), 0.2, full=True)
    np.testing.assert_array_equal(preprocessor.tiles(file), rois)
    for image in (file, endcap.decode(file)):
        sliced = preprocessor(image)
        expected = endcap.preprocess(image, rois=rois, size=16)
        np.testing.assert_array_equal(sliced.images, expected.images)
        np.testing.assert_array_equal(sliced.geometry, expected.geometry)
        assert sliced.status.tolist() == [0] * len(rois)


def test_an_image_of_one_tile_is_not_repeated():
    image = jpegs.photo(40, 60)
    for tile in (60, 64, (40, 60)):
        sliced = endcap.preprocess(image, size=16, tile=tile)
        np.testing.assert_array_equal(sliced.images, endcap.preprocess(image, size=16).images)


def test_base64_and_y4m():
    file = jpegs.photo_jpeg(HEIGHT, WIDTH)
    sliced = endcap.preprocess(base64.b64encode(file), **SMALL)
    np.testing.assert_array_equal(sliced.images, endcap.preprocess(file, **SMALL).images)


def test_bad_images():
    file = jpegs.photo_jpeg(HEIGHT, WIDTH)
    count = len(endcap.Preprocessor(**SMALL).tiles(file))
    blank = endcap.Preprocessor(**SMALL, on_error="blank")
    for bad, tiles, status in (
        (b"no picture", 1, endcap.Status.CORRUPT_IMAGE),
        (file[: len(file) // 2], count, endcap.Status.CORRUPT_IMAGE),
    ):
        with pytest.raises(endcap.CorruptImageError):
            endcap.preprocess(bad, **SMALL)
        result = blank(bad)
        assert result.status.tolist() == [status] * tiles
        assert not result.images.any()
        assert not result.geometry[:, 4:6].any() or tiles > 1


def test_too_many_tiles():
    file = jpegs.photo_jpeg(HEIGHT, WIDTH)
    for limits, said in (
        ({"max_rois": 12}, "with 13 tiles; max_rois allows 12: give a greater tile, or"),
        ({"max_roi_bytes": 13 * 3072 - 1}, "13 tiles take 39936 bytes; max_roi_bytes allows 39935"),
    ):
        preprocessor = endcap.Preprocessor(**SMALL, **limits)
        with pytest.raises(endcap.InvalidArgumentError, match=said):
            preprocessor.tiles(file)
        with pytest.raises(endcap.InvalidArgumentError, match=said):
            preprocessor(file)
    assert len(endcap.Preprocessor(**SMALL, max_rois=13)(file).images) == 13


def test_refused_calls():
    image = jpegs.photo(40, 60)
    preprocessor = endcap.Preprocessor(**SMALL)
    with pytest.raises(endcap.InvalidArgumentError, match="tile came with a list of 2 images"):
        preprocessor([image, image])
    with pytest.raises(endcap.InvalidArgumentError, match="rois came with the parameter tile"):
        preprocessor(image, rois=[[0, 0, 9, 9]])
    with pytest.raises(endcap.InvalidArgumentError, match="tile is 0, which makes no tiles"):
        endcap.Preprocessor().tiles(image)


# --- merging --------------------------------------------------------------------------------------


def crowd(seed: int, tiles: int, rows: int, *, levels: int) -> tuple[Any, Any]:
    """Heads `detections` of some tiles, in which many boxes tie, and their geometry."""
    rng = np.random.default_rng(seed)
    corner = rng.integers(0, 12, (tiles, rows, 2)) * 8
    boxes = np.concatenate([corner, corner + rng.integers(1, 6, (tiles, rows, 2)) * 8], axis=2)
    head = {
        "boxes": boxes.astype(np.float32),
        "scores": (rng.integers(1, levels + 1, (tiles, rows)) / levels).astype(np.float32),
        "classes": rng.integers(0, 3, (tiles, rows)).astype(np.int32),
    }
    geometry = np.tile(np.float32([1, 1, 0, 0, 200, 160, 1, 0]), (tiles, 1))
    geometry[:, 2:4] = -rng.integers(0, 30, (tiles, 2))
    return head, geometry


DETECTIONS = {"head": "detections", "num_classes": 3, "score_threshold": 0, "threads": 2}


@pytest.mark.parametrize("metric", ["iou", "ios"])
@pytest.mark.parametrize("merge", ["nms", "nmm"])
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.25, 0.5, 0.9, 1.0]),
    st.booleans(),
    st.sampled_from([3, 1000]),
)
def test_merging(merge, metric, seed, threshold, agnostic, levels):
    head, geometry = crowd(seed, 4, 12, levels=levels)
    rule = {"merge_metric": metric, "merge_threshold": threshold, "class_agnostic": agnostic}
    merged = endcap.Postprocessor(**DETECTIONS, merge=merge, **rule)(head, geometry)
    # What each tile gives alone, one after the other.
    alone = endcap.Postprocessor(**DETECTIONS)(head, geometry)
    counts = alone.num_detections
    boxes, scores, classes, indices = (
        np.concatenate([rows[:n] for rows, n in zip(values, counts, strict=True)])
        for values in (alone.boxes, alone.scores, alone.class_ids, alone.indices)
    )
    indices = indices + 12 * np.repeat(np.arange(4), counts)
    merger = reference.merge_nms if merge == "nms" else reference.merge_nmm
    same = np.zeros_like(classes) if agnostic else classes
    kept, united = merger(boxes, scores, same, metric, threshold)
    (n,) = merged.num_detections
    assert n == len(kept)
    np.testing.assert_array_equal(merged.boxes[0, :n], united)
    np.testing.assert_array_equal(merged.scores[0, :n], scores[kept])
    np.testing.assert_array_equal(merged.class_ids[0, :n], classes[kept])
    np.testing.assert_array_equal(merged.indices[0, :n], indices[kept])
    assert (merged.indices[0, n:] == -1).all()


@pytest.mark.parametrize("merge", ["nms", "nmm"])
def test_max_detections_are_the_best_of_all(merge):
    head, geometry = crowd(1, 6, 40, levels=1000)
    rule = {**DETECTIONS, "merge": merge}
    every = endcap.Postprocessor(**rule)(head, geometry)
    # Each tile gives its best 12, from which come those of the image.
    few = endcap.Postprocessor(**{**rule, "max_detections": 12})(head, geometry)
    assert few.num_detections.tolist() == [12]
    np.testing.assert_array_equal(few.scores[0], np.sort(few.scores[0])[::-1])
    assert few.scores[0, 0] == every.scores[0, 0]


def test_a_failed_tile_fails_the_image():
    head, geometry = crowd(2, 3, 12, levels=5)
    postprocessor = endcap.Postprocessor(**DETECTIONS, merge="nms")
    blank = postprocessor(head, geometry, np.int32([0, 2, 0]))
    assert (blank.num_detections.tolist(), blank.status.tolist()) == ([0], [2])
    head["scores"][1, 3] = np.nan
    with pytest.raises(endcap.InvalidArgumentError, match=r"^tile 1 of 3: "):
        postprocessor(head, geometry)
    with pytest.raises(endcap.InvalidArgumentError, match="tile 0 has no geometry"):
        postprocessor({name: part[:1] for name, part in head.items()})
    geometry[2, 4] = 77
    head["scores"][1, 3] = 0
    with pytest.raises(
        endcap.InvalidArgumentError, match=r"tile 2 has .* another image than tile 0"
    ):
        postprocessor(head, geometry)


def merged_and_alone(tensors: Any, geometry: Any, **fields: Any) -> tuple[Any, Any]:
    rule = {"score_threshold": 0.3, "num_classes": 2, "max_detections": 40, **fields}
    alone = endcap.Postprocessor(**rule)(tensors, geometry)
    merged = endcap.Postprocessor(**rule, merge="nms", merge_metric="iou")(tensors, geometry)
    return merged, alone


def tile_rows(merged: Any, anchors: int) -> list[tuple[int, int]]:
    """The tile and the anchor of each row."""
    return [divmod(int(i), anchors) for i in merged.indices[0, : merged.num_detections[0]]]


GEOMETRY = np.tile(np.float32([1, 1, 0, 0, 320, 160, 1, 0]), (3, 1))


def test_extra_outputs_come_from_the_tile():
    heads = [
        sample_heads.seg_outputs(seed, anchors=70, num_classes=2, size=(40, 80))
        for seed in range(3)
    ]
    head = {name: np.stack([each[name] for each in heads]) for name in heads[0]}
    masks = {"mask_coefficients": 8, "prototype_size": "40,80", "input_size": "160,320"}
    merged, alone = merged_and_alone(head, GEOMETRY, head="yolov8_seg", **masks)
    assert merged.mask_size.tolist() == [[160, 320]]
    assert len(tile_rows(merged, 70)) == len(merged.rle[0]) > 3
    for row, (tile, anchor) in enumerate(tile_rows(merged, 70)):
        at = alone.indices[tile].tolist().index(anchor)
        assert merged.rle[0][row] == alone.rle[tile][at]
    pose = np.stack(
        [sample_heads.pose_head(seed, anchors=70, num_classes=2, keypoints=5) for seed in range(3)]
    )
    merged, alone = merged_and_alone(pose, GEOMETRY, head="yolov8_pose", num_keypoints=5)
    for row, (tile, anchor) in enumerate(tile_rows(merged, 70)):
        at = alone.indices[tile].tolist().index(anchor)
        np.testing.assert_array_equal(merged.keypoints[0, row], alone.keypoints[tile, at])


def test_rotated_boxes():
    head = np.stack([sample_heads.obb_head(seed, anchors=70, num_classes=2) for seed in range(3)])
    merged, alone = merged_and_alone(head, GEOMETRY, head="yolov8_obb")
    counts = alone.num_detections
    corners, angles, scores, classes = (
        np.concatenate([rows[:n] for rows, n in zip(values, counts, strict=True)])
        for values in (alone.boxes, alone.angles, alone.scores, alone.class_ids)
    )
    xywhr = np.column_stack(
        [(corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2], angles]
    ).astype(np.float32)
    kept = endcap.nms_rotated(xywhr, scores, 0.5, class_ids=classes)[:40]
    n = merged.num_detections[0]
    np.testing.assert_array_equal(merged.boxes[0, :n], corners[kept])
    np.testing.assert_array_equal(merged.angles[0, :n], angles[kept])


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"head": "yolov8_seg", "merge": "nmm"}, "unites plain boxes only.*give merge=nms"),
        ({"head": "yolov8_pose", "merge": "nmm"}, "unites plain boxes only.*give merge=nms"),
        ({"head": "yolov8_obb", "merge": "nms"}, "give merge_metric=iou"),
        ({"head": "classification", "merge": "nms"}, "has none: leave merge out"),
        (
            {"head": "yolov8_seg", "merge": "nms", "mask_resolution": "input"},
            "give mask_resolution=source",
        ),
        ({"merge": "wbf"}, "merge"),
        ({"merge_threshold": 1.5}, "merge_threshold"),
        ({"merge_metric": "giou"}, "merge_metric"),
    ],
)
def test_impossible_parameters(fields, said):
    with pytest.raises(endcap.InvalidArgumentError, match=said):
        endcap.Postprocessor(**fields)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"tile": -1}, "tile is '-1'"),
        ({"tile": (640, 0)}, "tile is 640,0"),
        ({"tile_overlap": 1.0}, "tile_overlap"),
    ],
)
def test_impossible_tiles(fields, said):
    with pytest.raises(endcap.InvalidArgumentError, match=said):
        endcap.Preprocessor(**fields)
