"""Heads that lie on the GPU to detections."""

from __future__ import annotations

from typing import Any

import numpy as np

import endcap
from gpu_benchmark.inputs import ANCHORS, BATCH, NUM_CLASSES, heads
from gpu_benchmark.rows import Results, Row
from gpu_benchmark.timing import copy_bytes_per_ms, kernels_ms, queued_ms, stream_ms

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
    """The whole batch in one call, one image of it, and torchvision."""
    batch = torch.from_numpy(heads()).cuda()
    postprocessor = endcap.Postprocessor(device="cuda")
    expected = endcap.Postprocessor()(heads())
    ours = postprocessor(batch).to_numpy()
    for field in ("num_detections", "boxes", "scores", "class_ids", "indices"):
        np.testing.assert_array_equal(getattr(ours, field), getattr(expected, field), field)
    boxes = float(expected.num_detections.sum())
    results.rows.append(Row(HEADS, "CPU and GPU", boxes, "boxes", "all equal"))

    call = _add(torch, results, HEADS, lambda: postprocessor.enqueue(batch), "")
    reading = batch.numel() * 4 / copy_bytes_per_ms(torch)
    note = "the time to read the heads once"
    results.rows.append(Row(HEADS, "endcap", call / reading, "x", note))
    one = batch[:1].contiguous()
    # 2.8 MB that each call reads again.
    _add(torch, results, "one of them", lambda: postprocessor.enqueue(one), "; it stays in L2")
    with results.part(f"{HEADS} by torchvision"):
        _measure_torchvision(torch, results, batch, expected)


def _add(torch: Any, results: Results, work: str, run: Any, addition: str) -> float:
    """Adds the time of a call and that of its kernels; returns the call's, in milliseconds."""
    call, queued = stream_ms(torch, run), queued_ms(torch, run)
    note = f"calls one after the other{addition}"
    results.rows.append(Row(work, "endcap", call.ms, "ms", note, call.spread))
    note = f"by events, work waiting in the stream{addition}"
    results.rows.append(Row(work, "endcap", queued.ms, "ms", note, queued.spread))
    with results.part(f"{work}: time of the kernels alone", spared=(RuntimeError,)):
        kernels = kernels_ms(torch, run)
        results.rows.append(Row(work, "endcap", kernels, "ms", f"the kernels alone{addition}"))
    return call.ms


def _measure_torchvision(
    torch: Any, results: Results, batch: Any, expected: endcap.Detections
) -> None:
    """torchvision, whose batched_nms moves the classes apart by adding to their boxes.

    That rounds them: what is compared is its own variant that goes class by class. Its IoU may
    round otherwise than ours, so that pairs at the threshold differ.
    """
    from torchvision.ops import batched_nms
    from torchvision.ops.boxes import _batched_nms_vanilla

    theirs = stream_ms(torch, lambda: by_torchvision(torch, batch, batched_nms), rounds=3)
    note = "batched_nms in a loop"
    results.rows.append(Row(HEADS, "torchvision", theirs.ms, "ms", note, theirs.spread))
    for number, (boxes, scores, _) in enumerate(by_torchvision(torch, batch, _batched_nms_vanilla)):
        count = int(expected.num_detections[number])
        np.testing.assert_array_equal(scores.cpu().numpy(), expected.scores[number, :count])
        np.testing.assert_allclose(boxes.cpu().numpy(), expected.boxes[number, :count], atol=1e-3)
