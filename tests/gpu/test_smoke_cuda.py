"""What everything else on a GPU needs, the simplest first: the first failure is the cause."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import endcap
from tests.gpu.both_devices import both
from tests.support import jpegs
from tests.support.cuda_inputs import on_gpu
from tests.support.sample_heads import yolov8_head


def test_memory_is_copied_to_the_gpu_and_back() -> None:
    values = np.random.default_rng(3).integers(0, 256, 1 << 16, np.uint8)
    np.testing.assert_array_equal(on_gpu(values).to_numpy(), values)


@pytest.mark.parametrize("count", [2, 5000], ids=["a kernel", "CUB's sort"])
def test_nms(count: int) -> None:
    random = np.random.default_rng(count)
    corners = random.uniform(0, 600, (count, 2))
    boxes = np.hstack([corners, corners + random.uniform(5, 80, (count, 2))]).astype(np.float32)
    scores = np.round(random.uniform(0, 1, count), 3).astype(np.float32)  # with ties
    kept = endcap.nms(on_gpu(boxes), on_gpu(scores), 0.5, device="cuda").to_numpy()
    np.testing.assert_array_equal(kept, endcap.nms(boxes, scores, 0.5))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_pixels(dtype: str) -> None:
    images = [jpegs.photo(101, 150 + seed, seed=seed) for seed in range(3)]
    options: dict[str, Any] = {"size": 96, "dtype": dtype}
    actual = endcap.preprocess([on_gpu(each) for each in images], device="cuda", **options)
    expected = endcap.preprocess(images, **options)
    np.testing.assert_array_equal(actual.images.to_numpy(), expected.images)


def test_a_jpeg_file() -> None:
    file = jpegs.encode(jpegs.photo(270, 480, seed=7))
    actual = endcap.preprocess(file, size=160, jpeg_decoder="hybrid", device="cuda")
    np.testing.assert_array_equal(
        actual.images.to_numpy(), endcap.preprocess(file, size=160).images
    )
    assert actual.decoders == ("hybrid",)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_detections_equal_those_of_the_cpu(dtype: Any) -> None:
    head = yolov8_head(1, anchors=8400, num_classes=4)[None].astype(dtype)
    assert both(head, num_classes=4).num_detections[0] > 5
