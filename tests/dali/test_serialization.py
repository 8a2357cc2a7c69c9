"""Pipelines with the operators, written to bytes and read again, here and in another process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from nvidia.dali import fn, types

from tests.dali.dali_runs import as_bytes, build, feed, samples_of
from tests.support import jpegs, sample_heads

FILES = [jpegs.photo_jpeg(90 + 20 * i, 160 - 15 * i, seed=i) for i in range(3)]
INPUTS = {
    "encoded": [as_bytes(file) for file in FILES],
    "pixels": [jpegs.photo(40 + i, 50, seed=i) for i in range(3)],
    "head": [sample_heads.yolov8_head(s, anchors=90, num_classes=7) for s in range(3)],
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
        head, geometry, status, head="yolov8", num_classes=7, iou_threshold=0.45, output_status=True
    )
    kept = fn.endcap.nms(fn.transpose(head, perm=[1, 0])[:, :4], head[4], iou_threshold=0.5)
    return images, geometry, status, regions, resized, *rows, kept


def flat(outputs: list[Any]) -> list[Any]:
    return [sample for output in outputs for sample in samples_of(output)]


def expect_same(actual: list[Any], wanted: list[Any]) -> None:
    assert len(actual) == len(wanted) == 3 * 12
    for one, other in zip(actual, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


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


def test_another_process_reads_it(tmp_path: Path) -> None:
    pipeline = build(everything, list(INPUTS), 3)
    wanted = flat(feed(pipeline, INPUTS))
    (tmp_path / "pipeline").write_bytes(pipeline.serialize())
    arrays = {f"{name}{i}": a for name, samples in INPUTS.items() for i, a in enumerate(samples)}
    np.savez(tmp_path / "inputs.npz", **arrays)
    subprocess.run([sys.executable, "-c", READER, str(tmp_path)], check=True, timeout=120)
    outputs = np.load(tmp_path / "outputs.npz")
    expect_same([outputs[f"arr_{i}"] for i in range(len(wanted))], wanted)
