"""Batches as DALI makes them: split by a condition, empty, repeated, of changing size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nvidia.dali import fn, pipeline_def, types

import endcap
from tests.dali.dali_runs import as_bytes, build, feed, samples_of
from tests.support import jpegs, sample_heads

FILES = [jpegs.photo_jpeg(90 + 20 * i, 160 - 15 * i, seed=i) for i in range(4)]
PHOTOS = [jpegs.photo(50 + i, 60, seed=i) for i in range(4)]
HEADS = [sample_heads.yolov8_head(s, anchors=60, num_classes=7) for s in range(4)]
CPU_ONLY = {"device_id": None, "exec_async": False, "exec_pipelined": False}


@pipeline_def(enable_conditionals=True, prefetch_queue_depth=1, **CPU_ONLY)
def conditional() -> Any:
    encoded = fn.external_source(name="encoded", dtype=types.UINT8, ndim=1)
    pixels = fn.external_source(name="pixels", dtype=types.UINT8, ndim=3, layout="HWC")
    head = fn.external_source(name="head", dtype=types.FLOAT, ndim=2)
    boxes = fn.transpose(head, perm=[1, 0])[:, :4]
    scores = head[4]
    if fn.external_source(name="wanted", dtype=types.BOOL, ndim=0):
        images, geometry, _ = fn.endcap.preprocess(encoded, size=32)
        resized, _, _ = fn.endcap.resize_normalize(pixels, size=32)
        count, *_ = fn.endcap.postprocess(head, geometry, head="yolov8", num_classes=7)
        kept = fn.endcap.nms(boxes, scores, iou_threshold=0.5)
    else:
        images = types.Constant(np.zeros((3, 32, 32), np.float32), device="cpu", layout="CHW")
        resized = types.Constant(np.zeros((3, 32, 32), np.float32), device="cpu", layout="CHW")
        count = types.Constant(np.full(1, -1, np.int32), device="cpu")
        kept = fn.cast(count, dtype=types.INT64)
    return images, resized, count, kept


@pytest.mark.parametrize("chosen", [[], [2], [0, 3], [0, 1, 2, 3]], ids=str)
def test_samples_behind_a_condition(chosen: list[int]) -> None:
    pipeline = conditional(batch_size=4, num_threads=2)
    pipeline.build()
    inputs = {
        "encoded": [as_bytes(file) for file in FILES],
        "pixels": PHOTOS,
        "head": HEADS,
        "wanted": [np.array(i in chosen) for i in range(4)],
    }
    images, resized, count, kept = (samples_of(o) for o in feed(pipeline, inputs))
    for i in range(4):
        if i not in chosen:
            assert not images[i].any()
            assert not resized[i].any()
            assert list(count[i]) == list(kept[i]) == [-1]
            continue
        wanted = endcap.preprocess(FILES[i], size=32)
        np.testing.assert_array_equal(images[i], wanted.images[0])
        np.testing.assert_array_equal(resized[i], endcap.preprocess(PHOTOS[i], size=32).images[0])
        found = endcap.Postprocessor(num_classes=7)(HEADS[i], wanted.geometry[0])
        assert list(count[i]) == list(found.num_detections)
        boxes = np.ascontiguousarray(HEADS[i][:4].T)
        np.testing.assert_array_equal(kept[i], endcap.nms(boxes, HEADS[i][4], 0.5))


def test_two_operators_of_one_kind() -> None:
    def graph(encoded: Any) -> Any:
        small, _, _ = fn.endcap.preprocess(encoded, size=32)
        large, _, _ = fn.endcap.preprocess(encoded, size=64)
        again, _, _ = fn.endcap.preprocess(encoded, size=32)
        return small, large, again

    pipeline = build(graph, ["encoded"], 4)
    outputs = feed(pipeline, {"encoded": [as_bytes(f) for f in FILES]})
    for output, size in zip(outputs, (32, 64, 32), strict=True):
        wanted = endcap.preprocess(FILES, size=size).images
        np.testing.assert_array_equal(np.stack(samples_of(output)), wanted)


def test_dali_s_operators_read_the_tensors() -> None:
    def graph(encoded: Any) -> Any:
        images, _, _ = fn.endcap.preprocess(encoded, size=32)
        return fn.transpose(images, perm=[1, 2, 0]), fn.slice(images, 0, 16, axis_names="W")

    pipeline = build(graph, ["encoded"], 4)
    channels_last, cut = feed(pipeline, {"encoded": [as_bytes(f) for f in FILES]})
    wanted = endcap.preprocess(FILES, size=32).images
    np.testing.assert_array_equal(np.stack(samples_of(channels_last)), wanted.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(np.stack(samples_of(cut)), wanted[..., :16])
    assert channels_last.layout() == "HWC"


def test_pipelines_at_the_same_time() -> None:
    def graph(encoded: Any) -> Any:
        return fn.endcap.preprocess(encoded, size=48)

    pipelines = [build(graph, ["encoded"], 4) for _ in range(3)]
    wanted = endcap.preprocess(FILES, size=48).images
    for _ in range(3):
        for pipeline in pipelines:
            pipeline.feed_input("encoded", [as_bytes(f) for f in FILES])
            pipeline.schedule_run()
        for pipeline in pipelines:
            images, _, _ = pipeline.share_outputs()
            np.testing.assert_array_equal(np.stack(samples_of(images)), wanted)
            pipeline.release_outputs()
