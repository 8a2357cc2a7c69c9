"""A thousand batches leave no memory behind."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvidia.dali import fn

from tests.dali.dali_runs import as_bytes, build, feed, samples_of
from tests.support import jpegs, sample_heads
from tests.support.tolerances import DALI_GROWTH_MIB

BATCH = 8
WARM_UP, ITERATIONS = 100, 1000
MIB = 2**20


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MIB


def files(seed: int) -> list[bytes]:
    """Good and bad ones; another mixture for each seed."""
    random = np.random.default_rng(seed)
    made = [
        jpegs.photo_jpeg(*(int(side) for side in random.integers(16, 90, 2)), seed=seed + i)
        for i in range(BATCH - 2)
    ]
    return [*made, made[0][: len(made[0]) // 2], b""]


BATCHES = [
    {
        "encoded": [as_bytes(file) for file in files(seed)],
        "head": [
            sample_heads.yolov8_head(seed + i, anchors=40 + 9 * seed, num_classes=7)
            for i in range(BATCH)
        ],
        "size": [np.array([32 + seed, 32 + i], np.int32) for i in range(BATCH)],
    }
    for seed in range(12)
]


def whole(encoded: Any, head: Any, size: Any) -> Any:
    images, geometry, status = fn.endcap.preprocess(encoded, size=size)
    pixels = fn.cast_like(fn.transpose(images, perm=[1, 2, 0]), encoded)
    resized, *_ = fn.endcap.resize_normalize(pixels, size=32)
    rows = fn.endcap.postprocess(
        head, geometry, status, head="yolov8", num_classes=7, max_detections=20
    )
    kept = fn.endcap.nms(fn.transpose(head, perm=[1, 0])[:, :4], head[4], iou_threshold=0.5)
    return status, resized, *rows, kept


def test_a_thousand_batches() -> None:
    pipeline = build(whole, list(BATCHES[0]), BATCH)

    def run(count: int) -> None:
        for i in range(count):
            outputs = feed(pipeline, BATCHES[i % len(BATCHES)])
            assert [int(s[0]) for s in samples_of(outputs[0])] == [0] * (BATCH - 2) + [1, 1]

    run(WARM_UP)
    before = resident_mib()
    run(ITERATIONS)
    assert resident_mib() - before < DALI_GROWTH_MIB


def test_pipelines_that_end_with_an_error() -> None:
    def fail(count: int) -> None:
        for _ in range(count):
            pipeline = build(
                lambda encoded: fn.endcap.preprocess(encoded, size=32, on_error="error"),
                ["encoded"],
                BATCH,
            )
            with pytest.raises(RuntimeError, match="corrupt_image: image index 6 of 8"):
                feed(pipeline, {"encoded": BATCHES[0]["encoded"]})

    fail(20)
    before = resident_mib()
    fail(100)
    assert resident_mib() - before < DALI_GROWTH_MIB
