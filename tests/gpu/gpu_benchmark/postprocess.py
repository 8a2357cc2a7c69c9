"""Heads in GPU memory to detections."""

from __future__ import annotations

from typing import Any

import numpy as np
from gpu_check.records import Records, Row

import endcap
from gpu_benchmark.gpus import Gpu, UnavailableError
from gpu_benchmark.inputs import NUM_CLASSES, Sizes, heads
from gpu_benchmark.works import Times, compare, measure

_SCORE, _IOU, _MOST = 0.25, 0.7, 300


def by_torchvision(batch: Any, suppress: Any) -> list[tuple[Any, Any, Any]]:
    """Return boxes, scores and classes of each image, as most programs do it: image by image."""
    from torchvision.ops import box_convert

    found = []
    for head in batch:
        scores, class_ids = head[4:].max(dim=0)
        passed = scores > _SCORE
        scores, class_ids = scores[passed], class_ids[passed]
        boxes = box_convert(head[:4, passed].T, "cxcywh", "xyxy")
        kept = suppress(boxes, scores, class_ids, _IOU)[:_MOST]
        found.append((boxes[kept], scores[kept], class_ids[kept]))
    return found


def measure_heads(gpu: Gpu, records: Records, sizes: Sizes) -> None:
    """Measure the whole batch in one call, one image of it, and torchvision."""
    shape = f"[{4 + NUM_CLASSES}, {sizes.anchors}] float32 -> detections"
    work = f"{sizes.batch} x {shape}"
    arrays = heads(sizes.batch, sizes.anchors)
    batch = gpu.upload(arrays)
    postprocessor: Any = endcap.Postprocessor(device="cuda")
    expected: Any = endcap.Postprocessor()(arrays)
    with records.check(f"{work}: GPU equals CPU"):
        ours = postprocessor(batch).to_numpy()
        for field in ("num_detections", "boxes", "scores", "class_ids", "indices"):
            np.testing.assert_array_equal(getattr(ours, field), getattr(expected, field), field)
    boxes = float(expected.num_detections.sum())
    records.rows.append(Row(work, "endcap", "detections", boxes, "boxes"))
    copied = gpu.copy_bytes_per_ms()
    run_batch = lambda: postprocessor.enqueue(batch)  # noqa: E731
    times = measure(gpu, records, work, run_batch, bound_ms=arrays.nbytes / copied)
    with records.part(f"{work} by torchvision", optional=(UnavailableError,)):
        _measure_torchvision(gpu, records, work, batch, expected, times)
    one = gpu.upload(arrays[:1].copy())
    notes = "each call reads the same 2.8 MB, which stay in the cache"
    measure(gpu, records, f"1 x {shape}", lambda: postprocessor.enqueue(one), notes=notes)


def _measure_torchvision(
    gpu: Gpu, records: Records, work: str, batch: Any, expected: endcap.Detections, ours: Times
) -> None:
    """Measure torchvision, whose batched_nms moves the classes apart by adding to their boxes.

    That rounds them: what is compared is its own variant that goes class by class. Its IoU may
    round otherwise than ours, so that pairs at the threshold differ.
    """
    gpu.peer()
    try:
        from torchvision.ops import batched_nms
        from torchvision.ops.boxes import _batched_nms_vanilla
    except ImportError as error:
        raise UnavailableError(f"torchvision is not installed: {error}") from error

    theirs = measure(
        gpu,
        records,
        work,
        lambda: by_torchvision(batch, batched_nms),
        by="torchvision",
        waits=True,
        call_rounds=3,
        notes="batched_nms image by image",
    )
    compare(records, work, "endcap", ours, theirs)
    for number, (boxes, scores, _) in enumerate(by_torchvision(batch, _batched_nms_vanilla)):
        count = int(expected.num_detections[number])
        np.testing.assert_array_equal(scores.cpu().numpy(), expected.scores[number, :count])
        np.testing.assert_allclose(boxes.cpu().numpy(), expected.boxes[number, :count], atol=1e-3)
