"""Heads with masks that lie on the GPU to masks: bits, and run lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import endcap
from gpu_benchmark.inputs import ANCHORS, NUM_CLASSES, SIZE, heads
from gpu_benchmark.rows import Results, Row
from gpu_benchmark.timing import queued_ms, stream_ms, wall_ms

IMAGES = 16
PROTOTYPES, SIDE = 32, 160
MOST = 100
WORK = f"{IMAGES} x [{4 + NUM_CLASSES + PROTOTYPES}, {ANCHORS}], {PROTOTYPES} x {SIDE}x{SIDE}"
_FIELDS: dict[str, Any] = {
    **{"head": "yolov8_seg", "num_classes": NUM_CLASSES, "max_detections": MOST},
    **{"mask_coefficients": PROTOTYPES, "prototype_size": SIDE},
}
# Sums of products in another order have other signs where they are next to nothing.
_MOST_UNEQUAL = 1e-4


def seg_heads() -> dict[str, npt.NDArray[np.float32]]:
    """Heads with coefficients, and prototypes that are waves of some pixels."""
    random = np.random.default_rng(11)
    batch = heads()[:IMAGES]
    weights = random.normal(0, 1, (len(batch), PROTOTYPES, ANCHORS)).astype(np.float32)
    rows, columns = np.mgrid[:SIDE, :SIDE] / 12
    phases = random.uniform(0, 6, (3, len(batch), PROTOTYPES, 1, 1))
    waves = np.sin(rows * (1 + phases[0] / 6) + phases[1]) * np.cos(columns + phases[2])
    return {"head": np.concatenate([batch, weights], 1), "protos": waves.astype(np.float32)}


def measure_masks(torch: Any, results: Results) -> None:
    """Masks at the input's size as bits, of 1080p source images as run lengths, and torch's."""
    arrays = seg_heads()
    tensors = {name: torch.from_numpy(array).cuda() for name, array in arrays.items()}
    scale = SIZE / 1920
    geometry = np.array([[scale, scale, 0, 140, 1920, 1080, 1, 0]] * len(arrays["head"]))
    fields: dict[str, Any] = {**_FIELDS, "mask_resolution": "input", "packed_masks": True}
    packing = endcap.Postprocessor(**fields, device="cuda")
    expected = endcap.Postprocessor(**fields)(arrays)
    assert expected.packed_masks is not None
    ours = packing(tensors).to_numpy()
    np.testing.assert_array_equal(ours.packed_masks, expected.packed_masks)
    masks = float(expected.num_detections.sum())
    results.rows.append(Row(WORK, "CPU and GPU", masks, "masks", "all equal"))
    for took, note in (
        (stream_ms(torch, lambda: packing.enqueue(tensors)), "calls one after the other"),
        (queued_ms(torch, lambda: packing.enqueue(tensors)), "work waiting in the stream"),
    ):
        note = f"bits of {SIZE}x{SIZE}; {note}"
        results.rows.append(Row(WORK, "endcap", took.ms, "ms", note, took.spread))

    with results.part(f"{WORK}: run lengths"):
        fields = {**_FIELDS, "mask_resolution": "source"}
        encoding = endcap.Postprocessor(**fields, device="cuda")
        reference = endcap.Postprocessor(**fields)
        if encoding(tensors, geometry).rle != reference(arrays, geometry).rle:
            raise AssertionError("run lengths differ from the CPU's")
        note = "run lengths of 1920x1080 in host memory"
        for who, run in (
            ("endcap", lambda: encoding(tensors, geometry)),
            (f"endcap, CPU, {reference.threads} threads", lambda: reference(arrays, geometry)),
        ):
            took = wall_ms(torch, run)
            results.rows.append(Row(WORK, who, took.ms, "ms", note, took.spread))
    with results.part(f"{WORK} by torch"):
        _measure_torch(torch, results, tensors, expected)


def by_torch(torch: Any, tensors: Any, boxes: Any, anchors: Any) -> list[Any]:
    """Masks of the detections as ultralytics makes them: bool [N, SIZE, SIZE] of each image.

    boxes: [N, 4] of each image in pixels of the input. anchors: [N].
    """
    places = torch.arange(SIZE, device=tensors["protos"].device)
    found = []
    for head, protos, corners, kept in zip(
        tensors["head"], tensors["protos"], boxes, anchors, strict=True
    ):
        logits = head[4 + NUM_CLASSES :, kept].T @ protos.flatten(1)
        large = torch.nn.functional.interpolate(
            logits.view(1, -1, SIDE, SIDE), (SIZE, SIZE), mode="bilinear", align_corners=False
        )[0]
        x1, y1, x2, y2 = corners.T[:, :, None, None]
        inside = (places >= x1) & (places < x2)
        inside = inside & (places[:, None] >= y1) & (places[:, None] < y2)
        found.append((large > 0) & inside)
    return found


def _measure_torch(torch: Any, results: Results, tensors: Any, expected: endcap.Detections) -> None:
    """The masks alone, of boxes that are there already."""
    assert expected.packed_masks is not None
    counts = expected.num_detections
    device = tensors["protos"].device
    boxes = [
        torch.from_numpy(b[:n]).to(device) for b, n in zip(expected.boxes, counts, strict=True)
    ]
    kept = [
        torch.from_numpy(i[:n]).long().to(device)
        for i, n in zip(expected.indices, counts, strict=True)
    ]
    for bits, count, masks in zip(
        expected.packed_masks, counts, by_torch(torch, tensors, boxes, kept), strict=True
    ):
        unequal = np.unpackbits(bits[:count], axis=-1) != masks.cpu().numpy()
        if unequal.mean() > _MOST_UNEQUAL:
            raise AssertionError(f"{unequal.mean():.2g} of torch's pixels differ")
    theirs = stream_ms(torch, lambda: by_torch(torch, tensors, boxes, kept), rounds=3)
    note = f"bytes of {SIZE}x{SIZE}, without heads and NMS"
    results.rows.append(Row(WORK, "torch", theirs.ms, "ms", note, theirs.spread))
