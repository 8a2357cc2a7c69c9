"""Ways of DALI to run the operators: by conditions, ahead, from checkpoints, in other processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from nvidia.dali import Pipeline, fn, pipeline_def, types

import endcap
from tests.dali.dali_runs import as_bytes, build, feed, to_samples
from tests.support import jpegs, sample_heads
from tests.support.tolerances import DALI_GROWTH_MIB

FILES = [jpegs.photo_jpeg(60 + 9 * i, 160 - 9 * i, seed=i) for i in range(12)]
PHOTOS = [jpegs.photo(50 + i, 60, seed=i) for i in range(4)]
HEADS = [sample_heads.yolov8_head(s, anchors=60, num_classes=7) for s in range(4)]
FOUR = {"encoded": [as_bytes(file) for file in FILES[:4]]}
CPU_ONLY = {"device_id": None, "exec_async": False, "exec_pipelined": False}
YOLOV8 = {"head": "yolov8", "num_classes": 7}


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
        count, *_ = fn.endcap.postprocess(head, geometry, **YOLOV8)
        kept = fn.endcap.nms(boxes, scores, iou_threshold=0.5)
    else:
        images = types.Constant(np.zeros((3, 32, 32), np.float32), device="cpu", layout="CHW")
        resized = types.Constant(np.zeros((3, 32, 32), np.float32), device="cpu", layout="CHW")
        count = types.Constant(np.full(1, -1, np.int32), device="cpu")
        kept = fn.cast(count, dtype=types.INT64)
    return images, resized, count, kept


@pytest.mark.parametrize("chosen", [[], [0, 3], [0, 1, 2, 3]], ids=str)
def test_samples_behind_a_condition(chosen: list[int]) -> None:
    pipeline = conditional(batch_size=4, num_threads=2)
    pipeline.build()
    wanted = [np.array(i in chosen) for i in range(4)]
    inputs = {**FOUR, "pixels": PHOTOS, "head": HEADS, "wanted": wanted}
    images, resized, count, kept = (to_samples(o) for o in feed(pipeline, inputs))
    for i in range(4):
        if i not in chosen:
            assert not images[i].any()
            assert not resized[i].any()
            assert list(count[i]) == list(kept[i]) == [-1]
            continue
        alone = endcap.preprocess(FILES[i], size=32)
        np.testing.assert_array_equal(images[i], alone.images[0])
        np.testing.assert_array_equal(resized[i], endcap.preprocess(PHOTOS[i], size=32).images[0])
        found = endcap.Postprocessor(num_classes=7)(HEADS[i], alone.geometry[0])
        assert list(count[i]) == list(found.num_detections)
        boxes = np.ascontiguousarray(HEADS[i][:4].T)
        np.testing.assert_array_equal(kept[i], endcap.nms(boxes, HEADS[i][4], 0.5))


def test_batches_that_are_made_ahead() -> None:
    """Several are under way at once, each with sizes of its own."""

    def sizes(place: Any) -> Any:
        return np.array([16 + place.idx_in_epoch, 32], np.int32)

    def files(place: Any) -> Any:
        return as_bytes(FILES[place.idx_in_epoch % len(FILES)])

    pipeline = Pipeline(3, 2, None, prefetch_queue_depth=3, exec_async=True)
    with pipeline:
        encoded = fn.external_source(source=files, batch=False)
        size = fn.external_source(source=sizes, batch=False)
        pipeline.set_outputs(*fn.endcap.preprocess(encoded, size=size))
    pipeline.build()
    for batch in range(10):
        for i, image in enumerate(to_samples(pipeline.run()[0])):
            place = batch * 3 + i
            wanted = endcap.preprocess(FILES[place % len(FILES)], size=(16 + place, 32))
            np.testing.assert_array_equal(image, wanted.images[0])


def reading(folder: Path, **options: Any) -> Pipeline:
    pipeline = Pipeline(3, 2, None, enable_checkpointing=True, **options)
    with pipeline:
        names = [str(folder / f"{i:02}.jpg") for i in range(len(FILES))]
        encoded, _ = fn.readers.file(files=names, random_shuffle=True, seed=5, name="reader")
        images, geometry, status = fn.endcap.preprocess(encoded, size=24)
        pixels = fn.decoders.image(encoded, device="cpu")
        resized, *_ = fn.endcap.resize_normalize(pixels, size=16)
        head = fn.constant(fdata=HEADS[1].ravel().tolist(), shape=list(HEADS[1].shape))
        _, boxes, scores, *_ = fn.endcap.postprocess(head, geometry, status, **YOLOV8)
        kept = fn.endcap.nms(boxes, scores, iou_threshold=0.1)
        pipeline.set_outputs(images, resized, boxes, kept)
    pipeline.build()
    return pipeline


def test_a_pipeline_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    for i, file in enumerate(FILES):
        (tmp_path / f"{i:02}.jpg").write_bytes(file)
    pipeline = reading(tmp_path)
    for _ in range(2):
        pipeline.run()
    resumed = reading(tmp_path, checkpoint=pipeline.checkpoint())
    for _ in range(3):
        for one, other in zip(pipeline.run(), resumed.run(), strict=True):
            for sample, again in zip(to_samples(one), to_samples(other), strict=True):
                np.testing.assert_array_equal(sample, again)


# --- serialised pipelines -------------------------------------------------------------------------

INPUTS = {
    "encoded": FOUR["encoded"][:3],
    "pixels": PHOTOS[:3],
    "head": HEADS[:3],
    "size": [np.array([32 + i, 48], np.int32) for i in range(3)],
    "rois": [np.array([[0, 0, 20, 20 + i]], np.float32) for i in range(3)],
}


def everything(encoded: Any, pixels: Any, head: Any, size: Any, rois: Any) -> Any:
    images, geometry, status = fn.endcap.preprocess(
        encoded,
        size=size,
        dtype=types.FLOAT16,
        mean=[0.485, 0.456, 0.406],
        std=0.225,
        antialias=True,
        max_bytes=2**32,
        layout="nhwc",
    )
    regions, *_ = fn.endcap.preprocess(encoded, rois=rois, preset="vgg", size=24)
    resized, *_ = fn.endcap.resize_normalize(pixels, image_type=types.BGR, size=(16, 24))
    rows = fn.endcap.postprocess(
        head, geometry, status, iou_threshold=0.45, output_status=True, **YOLOV8
    )
    kept = fn.endcap.nms(fn.transpose(head, perm=[1, 0])[:, :4], head[4], iou_threshold=0.5)
    return images, geometry, status, regions, resized, *rows, kept


READER = """
import sys

import endcap.dali
import numpy as np
from nvidia.dali import Pipeline

endcap.dali.load()
folder = sys.argv[1]
pipeline = Pipeline.deserialize(filename=f"{folder}/pipeline", batch_size=3, num_threads=2,
    device_id=None, prefetch_queue_depth=1, exec_async=False, exec_pipelined=False)
pipeline.build()
arrays = np.load(f"{folder}/inputs.npz")
for name in ("encoded", "pixels", "head", "size", "rois"):
    pipeline.feed_input(name, [arrays[f"{name}{i}"] for i in range(3)])
flat = [np.array(out.at(i)) for out in pipeline.run() for i in range(3)]
np.savez(f"{folder}/outputs.npz", *flat)
"""


def test_another_process_reads_a_serialised_pipeline(tmp_path: Path) -> None:
    pipeline = build(everything, list(INPUTS), 3)
    wanted = [sample for output in feed(pipeline, INPUTS) for sample in to_samples(output)]
    assert len(wanted) == 3 * 12
    (tmp_path / "pipeline").write_bytes(pipeline.serialize())
    arrays = {f"{name}{i}": a for name, samples in INPUTS.items() for i, a in enumerate(samples)}
    np.savez(tmp_path / "inputs.npz", **arrays)
    subprocess.run([sys.executable, "-c", READER, str(tmp_path)], check=True, timeout=120)
    outputs = np.load(tmp_path / "outputs.npz")
    for i, other in enumerate(wanted):
        np.testing.assert_array_equal(outputs[f"arr_{i}"], other)
        assert outputs[f"arr_{i}"].dtype == other.dtype


# --- memory ---------------------------------------------------------------------------------------


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def make_batch(seed: int) -> dict[str, Any]:
    """Good files and two bad ones; another mixture for each seed."""
    random = np.random.default_rng(seed)
    sides = [[int(side) for side in random.integers(16, 90, 2)] for _ in range(6)]
    files = [jpegs.photo_jpeg(*each, seed=seed + i) for i, each in enumerate(sides)]
    heads = [
        sample_heads.yolov8_head(seed + i, anchors=40 + 9 * seed, num_classes=7) for i in range(8)
    ]
    return {
        "encoded": [as_bytes(file) for file in (*files, files[0][: len(files[0]) // 2], b"")],
        "head": heads,
        "size": [np.array([32 + seed, 32 + i], np.int32) for i in range(8)],
    }


BATCHES = [make_batch(seed) for seed in range(12)]


def whole(encoded: Any, head: Any, size: Any) -> Any:
    images, geometry, status = fn.endcap.preprocess(encoded, size=size)
    pixels = fn.cast_like(fn.transpose(images, perm=[1, 2, 0]), encoded)
    resized, *_ = fn.endcap.resize_normalize(pixels, size=32)
    rows = fn.endcap.postprocess(head, geometry, status, max_detections=20, **YOLOV8)
    kept = fn.endcap.nms(fn.transpose(head, perm=[1, 0])[:, :4], head[4], iou_threshold=0.5)
    return status, resized, *rows, kept


def test_a_thousand_batches_leave_no_memory_behind() -> None:
    pipeline = build(whole, list(BATCHES[0]), 8)

    def run(count: int) -> None:
        for i in range(count):
            outputs = feed(pipeline, BATCHES[i % len(BATCHES)])
            assert [int(s[0]) for s in to_samples(outputs[0])] == [0] * 6 + [1, 1]

    run(100)
    before = resident_mib()
    run(1000)
    assert resident_mib() - before < DALI_GROWTH_MIB
