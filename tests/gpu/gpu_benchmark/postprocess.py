"""Heads that lie on the GPU to detections."""

from __future__ import annotations

from typing import Any

import numpy as np

import endcap
from gpu_benchmark.inputs import ANCHORS, BATCH, NUM_CLASSES, heads
from gpu_benchmark.rows import Results, Row
from gpu_benchmark.timing import copy_bytes_per_ms, stream_ms

HEADS = f"{BATCH} x [{4 + NUM_CLASSES}, {ANCHORS}] float32 -> detections"
_SCORE, _IOU, _MOST = 0.25, 0.7, 300


def by_torchvision(torch: Any, batch: Any, suppress: Any) -> list[tuple[Any, Any, Any]]:
    """Boxes, scores and classes of each image, as most programs do it: a loop over the images."""
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


def measure_heads(torch: Any, results: Results) -> None:
    """The whole batch in one call, and torchvision.

    torchvision's batched_nms moves the classes apart by adding to their boxes, which rounds them;
    what is compared is its own variant that goes class by class.
    """
    from torchvision.ops import batched_nms
    from torchvision.ops.boxes import _batched_nms_vanilla

    batch = torch.from_numpy(heads()).cuda()
    postprocessor = endcap.Postprocessor(device="cuda")
    expected = endcap.Postprocessor()(heads())
    ours = postprocessor(batch).to_numpy()
    for field in ("num_detections", "boxes", "scores", "class_ids", "indices"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(expected, field), field)
    for number, (boxes, scores, _) in enumerate(by_torchvision(torch, batch, _batched_nms_vanilla)):
        count = int(expected.num_detections[number])
        np.testing.assert_array_equal(scores.cpu().numpy(), expected.scores[number, :count])
        np.testing.assert_allclose(boxes.cpu().numpy(), expected.boxes[number, :count], atol=1e-3)
    results.rows.append(
        Row(HEADS, "CPU and GPU", float(expected.num_detections.sum()), "boxes", "all equal")
    )
    milliseconds = stream_ms(torch, lambda: postprocessor.enqueue(batch))
    reading = batch.numel() * 4 / copy_bytes_per_ms(torch)
    results.rows += [
        Row(HEADS, "endcap", milliseconds, "ms", "calls one after the other"),
        Row(HEADS, "endcap", milliseconds / reading, "x", "the time to read the heads once"),
        Row(
            HEADS,
            "torchvision",
            stream_ms(torch, lambda: by_torchvision(torch, batch, batched_nms), rounds=5),
            "ms",
            "batched_nms in a loop",
        ),
    ]
    one = batch[:1].contiguous()
    results.rows.append(
        Row("one of them", "endcap", stream_ms(torch, lambda: postprocessor.enqueue(one)), "ms")
    )
