"""The pipelines with device="gpu": outputs in GPU memory, and where the CPU's are equal."""

from __future__ import annotations

from typing import Any

import numpy as np

import endcap
from endcap.dali import (
    detection_postprocess,
    detection_preprocess,
)
from tests.dali.dali_runs import as_bytes
from tests.support import jpegs, sample_heads
from tests.support.cuda_inputs import require_cuda

require_cuda()

FILES = [jpegs.photo_jpeg(90 + 20 * i, 160 - 15 * i, seed=i) for i in range(4)]
ON_GPU = {"device": "gpu", "batch_size": len(FILES), "num_threads": 2, "device_id": 0}


def run(pipeline: Any, **inputs: list[Any]) -> list[list[Any]]:
    """Samples of each output, in host memory."""
    pipeline.build()
    for name, samples in inputs.items():
        pipeline.feed_input(name, samples)
    outputs = pipeline.run()
    assert all("GPU" in type(output).__name__ for output in outputs)
    return [[np.array(out.as_cpu().at(i)) for i in range(len(FILES))] for out in outputs]


def test_images_are_those_of_the_cpu() -> None:
    pipeline = detection_preprocess(size=(96, 64), prefetch_queue_depth=1, **ON_GPU)
    images, geometry, status = run(pipeline, encoded=[as_bytes(file) for file in FILES])
    wanted = endcap.preprocess(FILES, size=(96, 64))
    np.testing.assert_array_equal(np.stack(geometry)[:, :7], wanted.geometry[:, :7])
    np.testing.assert_array_equal(np.ravel(status), wanted.status)
    np.testing.assert_array_equal(images, wanted.images)


def test_detections_are_the_cpu_s() -> None:
    heads = [sample_heads.yolov8_head(s, anchors=400, num_classes=7) for s in range(len(FILES))]
    geometry = [np.float32([0.5, 0.5, 0, 10 * i, 1280, 1200, 1, 0]) for i in range(len(FILES))]
    pipeline = detection_postprocess(num_classes=7, prefetch_queue_depth=1, **ON_GPU)
    status = [np.int32([0])] * len(FILES)
    found = run(pipeline, head=heads, geometry=geometry, status=status)
    wanted = endcap.Postprocessor("yolov8", num_classes=7)(np.stack(heads), np.stack(geometry))
    np.testing.assert_array_equal(np.ravel(found[0]), wanted.num_detections)
    np.testing.assert_array_equal(found[1], wanted.boxes)
    np.testing.assert_array_equal(found[4], wanted.indices)
