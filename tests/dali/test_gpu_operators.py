"""The operators of device mixed and gpu: the CPU's numbers, in GPU memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from nvidia.dali import Pipeline, fn, types

import endcap
from endcap.dali import detection_preprocess
from tests.dali.dali_runs import as_bytes
from tests.support import jpegs, sample_heads
from tests.support.cuda_inputs import require_cuda

require_cuda()

FILES = [jpegs.photo_jpeg(90 + 20 * i, 160 - 15 * i, seed=i) for i in range(4)]
MIXED = [FILES[0], b"", *FILES[1:], FILES[0][:400]]
PHOTOS = [jpegs.photo(40 + 9 * i, 50, channels=3 - 2 * (i % 2), seed=i) for i in range(4)]
HEADS = [sample_heads.yolov8_head(s, anchors=400, num_classes=7) for s in range(4)]


def run(graph: Any, iterations: int = 3, **inputs: list[Any]) -> list[list[Any]]:
    """Samples of each output in host memory; every iteration must give the same."""
    count = len(next(iter(inputs.values())))
    pipeline = Pipeline(count, 2, device_id=0, prefetch_queue_depth=1)
    with pipeline:
        outputs = graph(**{name: fn.external_source(name=name) for name in inputs})
        pipeline.set_outputs(*(outputs if isinstance(outputs, (tuple, list)) else (outputs,)))
    pipeline.build()
    seen = []
    for _ in range(iterations):
        for name, samples in inputs.items():
            pipeline.feed_input(name, samples)
        on_gpu = pipeline.run()
        seen.append([[np.array(out.as_cpu().at(i)) for i in range(count)] for out in on_gpu])
    for later in seen[1:]:
        for output, first in zip(later, seen[0], strict=True):
            for one, other in zip(output, first, strict=True):
                np.testing.assert_array_equal(one, other)
    return seen[0]


@pytest.mark.parametrize("fields", [{}, {"size": (96, 64), "layout": "nhwc", "mean": 0.5}], ids=str)
def test_preprocess(fields: dict[str, Any]) -> None:
    images, geometry, status = run(
        lambda encoded: fn.endcap.preprocess(encoded, device="mixed", **fields),
        encoded=[as_bytes(file) for file in MIXED],
    )
    wanted = endcap.preprocess(MIXED, on_error="blank", **fields)
    np.testing.assert_array_equal(np.stack(images), wanted.images)
    np.testing.assert_array_equal(np.stack(geometry)[:, :7], wanted.geometry[:, :7])
    np.testing.assert_array_equal(np.stack(status)[:, 0], wanted.status)


def test_an_error_ends_the_pipeline() -> None:
    with pytest.raises(RuntimeError, match="corrupt_image: image index 1 of 6: "):
        run(
            lambda encoded: fn.endcap.preprocess(encoded, on_error="error", device="mixed"),
            encoded=[as_bytes(file) for file in MIXED],
        )


def test_regions_are_refused() -> None:
    with pytest.raises(ValueError, match="rois go with the cpu operator only"):
        run(
            lambda encoded: fn.endcap.preprocess(encoded, rois=[0, 0, 9, 9], device="mixed"),
            encoded=[as_bytes(FILES[0])],
        )


def test_resize_normalize() -> None:
    images, geometry, status = run(
        lambda pixels: fn.endcap.resize_normalize(pixels.gpu(), size=48, dtype=types.FLOAT16),
        pixels=PHOTOS,
    )
    for i, photo in enumerate(PHOTOS):
        wanted = endcap.preprocess(photo, size=48, dtype="float16")
        np.testing.assert_array_equal(images[i], wanted.images[0])
        np.testing.assert_array_equal(geometry[i], wanted.geometry[0])
        assert status[i] == [0]


@pytest.mark.parametrize("place", ["gpu", "cpu"])
@pytest.mark.parametrize("with_status", [False, True])
def test_postprocess(place: str, with_status: bool) -> None:
    geometry = [np.array([0.5, 0.5, 3, 20, 900, 700, 1, 0], np.float32)] * 4
    status = [np.array([s], np.int32) for s in (0, 1, 0, 0)]

    def graph(head: Any, geometry: Any, status: Any) -> Any:
        others = [geometry, status] if place == "cpu" else [geometry.gpu(), status.gpu()]
        return fn.endcap.postprocess(
            head.gpu(), *others, head="yolov8", num_classes=7, output_status=with_status
        )

    outputs = run(graph, head=HEADS, geometry=geometry, status=status)
    wanted = endcap.Postprocessor(num_classes=7)(
        np.stack(HEADS), np.stack(geometry), np.concatenate(status)
    )
    rows = [wanted.num_detections[:, None], wanted.boxes, wanted.scores, wanted.class_ids]
    rows += [wanted.indices, wanted.status[:, None]][: 1 + with_status]
    assert len(outputs) == len(rows)
    for output, row in zip(outputs, rows, strict=True):
        np.testing.assert_array_equal(np.stack(output), row)


def test_a_bad_head_ends_the_pipeline_or_has_a_status() -> None:
    bad = HEADS[1].copy()
    bad[:, 5] = np.nan
    batch = [HEADS[0], bad]
    fields = {"head": "yolov8", "num_classes": 7}
    with pytest.raises(ValueError, match="invalid_argument: image index 1 of 2"):
        run(lambda raw: fn.endcap.postprocess(raw.gpu(), **fields), raw=batch)
    outputs = run(
        lambda raw: fn.endcap.postprocess(raw.gpu(), output_status=True, **fields), raw=batch
    )
    assert [int(s[0]) for s in outputs[-1]] == [0, int(endcap.Status.INVALID_ARGUMENT)]


def test_nms() -> None:
    boxes = [np.ascontiguousarray(head[:4].T) for head in HEADS]
    scores = [head[4].copy() for head in HEADS]
    ids = [np.arange(len(s), dtype=np.int32) % 3 for s in scores]
    [kept] = run(
        lambda boxes, scores: fn.endcap.nms(boxes.gpu(), scores.gpu(), iou_threshold=0.5),
        boxes=boxes,
        scores=scores,
    )
    [by_class] = run(
        lambda boxes, scores, ids: fn.endcap.nms(boxes.gpu(), scores.gpu(), ids.gpu()),
        boxes=boxes,
        scores=scores,
        ids=ids,
    )
    for i in range(4):
        np.testing.assert_array_equal(kept[i], endcap.nms(boxes[i], scores[i], 0.5))
        wanted = endcap.batched_nms(boxes[i], scores[i], ids[i], 0.7)
        np.testing.assert_array_equal(by_class[i], wanted)


def test_a_pipeline_has_its_outputs_in_gpu_memory() -> None:
    options = {"batch_size": len(FILES), "num_threads": 2, "device_id": 0}
    pipeline = detection_preprocess(size=(96, 64), device="gpu", prefetch_queue_depth=1, **options)
    pipeline.build()
    pipeline.feed_input("encoded", [as_bytes(file) for file in FILES])
    outputs = pipeline.run()
    assert all("GPU" in type(output).__name__ for output in outputs)
    images, geometry, status = (
        np.stack([np.array(out.as_cpu().at(i)) for i in range(len(FILES))]) for out in outputs
    )
    wanted = endcap.preprocess(FILES, size=(96, 64))
    np.testing.assert_array_equal(images, wanted.images)
    np.testing.assert_array_equal(geometry[:, :7], wanted.geometry[:, :7])
    np.testing.assert_array_equal(status[:, 0], wanted.status)
