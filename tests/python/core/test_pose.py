"""Keypoints of the kept boxes, mapped to the source image."""

from __future__ import annotations

import numpy as np
import pytest

import endcap
from tests.reference.placement import letterbox
from tests.support import tolerances
from tests.support.forced_implementations import on_each_implementation
from tests.support.sample_heads import pose_head

forced_implementation = on_each_implementation("box_decode", "nms")

GEOMETRY = letterbox(427, 641, 640, 640, upscale=True, pad_align="center").geometry(427, 641)


@pytest.mark.parametrize("values", [2, 3])
@pytest.mark.parametrize("keypoints", [1, 4, 17])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_keypoints_of_the_kept(keypoints: int, values: int, dtype: type) -> None:
    head = pose_head(1, anchors=90, num_classes=2, keypoints=keypoints, values=values)
    head = head.astype(dtype)
    plain = endcap.Postprocessor(num_classes=2, max_detections=70)(head[:6], GEOMETRY)
    actual = endcap.Postprocessor(
        "yolov8_pose",
        num_classes=2,
        max_detections=70,
        num_keypoints=keypoints,
        keypoint_values=values,
    )(head, GEOMETRY)
    np.testing.assert_array_equal(actual.boxes, plain.boxes)
    np.testing.assert_array_equal(actual.indices, plain.indices)
    count = int(plain.num_detections[0])
    assert 5 < count < 70
    scale_x, scale_y, pad_x, pad_y, image_w, image_h = GEOMETRY[:6]
    points = head[6:, plain.indices[0, :count]].T.reshape(count, keypoints, values)
    expected = np.ones((count, keypoints, 3), np.float32)
    expected[..., :values] = points
    expected[..., 0] = np.clip((expected[..., 0] - pad_x) / scale_x, 0, image_w)
    expected[..., 1] = np.clip((expected[..., 1] - pad_y) / scale_y, 0, image_h)
    assert actual.keypoints is not None
    np.testing.assert_array_equal(actual.keypoints[0, :count], expected)
    assert not actual.keypoints[0, count:].any()
    np.testing.assert_array_equal(actual[0].keypoints, expected)
    assert plain.keypoints is None


def test_in_pixels_of_the_input_without_geometry() -> None:
    head = pose_head(2, anchors=90, num_classes=1, keypoints=5)
    options = {"num_classes": 1, "num_keypoints": 5}
    pixels = endcap.Postprocessor("yolov8_pose", **options)(head)[0]
    fractions = head.copy()
    fractions[[0, 2]] /= 320
    fractions[[1, 3]] /= 640
    fractions[5::3] /= 320
    fractions[6::3] /= 640
    normalized = endcap.Postprocessor(
        "yolov8_pose", box_unit="normalized", input_size=(640, 320), **options
    )(fractions)[0]
    assert pixels.keypoints is not None
    assert normalized.keypoints is not None
    assert len(pixels) > 5
    np.testing.assert_array_equal(pixels.keypoints[0, 0], head[5:8, pixels.indices[0]])
    np.testing.assert_allclose(
        normalized.keypoints, pixels.keypoints, rtol=0, atol=tolerances.NORMALISED_BOX_RTOL * 640
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_only_the_keypoints_of_the_kept_must_be_numbers(value: float) -> None:
    head = pose_head(3, anchors=60, num_classes=1, keypoints=5)
    postprocessor = endcap.Postprocessor("yolov8_pose", num_classes=1, num_keypoints=5)
    kept = postprocessor(head)[0].indices
    dropped = sorted(set(range(60)) - set(kept.tolist()))
    head[9, dropped] = value
    np.testing.assert_array_equal(postprocessor(head)[0].indices, kept)
    head[9, kept[2]] = value
    with pytest.raises(endcap.InvalidArgumentError, match=rf"row 9 of anchor {kept[2]}"):
        postprocessor(head)


def test_a_bad_image_of_a_batch_is_named() -> None:
    head = np.stack([pose_head(s, anchors=60, num_classes=1, keypoints=2) for s in range(3)])
    head[1, 0, 0] = np.nan
    with pytest.raises(endcap.InvalidArgumentError, match="image index 1 of 3"):
        endcap.Postprocessor("yolov8_pose", num_classes=1, num_keypoints=2)(head)


def test_a_head_of_another_count_is_refused() -> None:
    head = pose_head(4, anchors=60, num_classes=1, keypoints=16)
    with pytest.raises(endcap.InvalidArgumentError, match=r"\[56, \*\]"):
        endcap.Postprocessor("yolov8_pose", num_classes=1)(head)
