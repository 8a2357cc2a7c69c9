"""Heads with masks in GPU memory to masks: bits, and run-length encoding."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
from gpu_check.records import Records, Row

import endcap
from endcap.masks import encode_rle
from gpu_benchmark.gpus import Gpu, Run, UnavailableError
from gpu_benchmark.inputs import NUM_CLASSES, SIZE, Sizes, heads
from gpu_benchmark.works import Times, compare, measure

PROTOTYPES = 32
_ROUNDS = 7  # of what the host does: it takes long
# Sums of products in another order have other signs where they are next to nothing.
_MOST_UNEQUAL = 1e-4
# Run-length encoding on the GPU is worth its code from here on.
_WORTH = 2.0


def seg_heads(sizes: Sizes) -> dict[str, npt.NDArray[np.float32]]:
    """Return heads with coefficients, and prototypes that are waves of some pixels."""
    random = np.random.default_rng(11)
    batch = heads(sizes.batch, sizes.anchors)[: sizes.mask_images]
    count, side = len(batch), sizes.prototype_side
    weights = random.normal(0, 1, (count, PROTOTYPES, sizes.anchors)).astype(np.float32)
    rows, columns = np.mgrid[:side, :side] / 12
    phases = random.uniform(0, 6, (3, count, PROTOTYPES, 1, 1))
    waves = np.sin(rows * (1 + phases[0] / 6) + phases[1]) * np.cos(columns + phases[2])
    return {"head": np.concatenate([batch, weights], 1), "protos": waves.astype(np.float32)}


def measure_masks(gpu: Gpu, records: Records, sizes: Sizes) -> None:
    """Measure masks at the input's size as bits and as RLE, and torch's."""
    side = sizes.prototype_side
    work = (
        f"{sizes.mask_images} x [{4 + NUM_CLASSES + PROTOTYPES}, {sizes.anchors}], "
        f"{PROTOTYPES} x {side}x{side} -> masks of {SIZE}x{SIZE}"
    )
    fields: dict[str, Any] = {
        "head": "yolov8_seg",
        "num_classes": NUM_CLASSES,
        "max_detections": sizes.mask_detections,
        "mask_coefficients": PROTOTYPES,
        "prototype_size": side,
    }
    arrays = seg_heads(sizes)
    tensors = {name: gpu.upload(array) for name, array in arrays.items()}
    bits: dict[str, Any] = {**fields, "mask_resolution": "input", "packed_masks": True}
    packing: Any = endcap.Postprocessor(**bits, device="cuda")
    expected: Any = endcap.Postprocessor(**bits)(arrays)
    with records.check(f"{work}, bits: GPU equals CPU"):
        ours = packing.enqueue(tensors).to_numpy()
        np.testing.assert_array_equal(ours.packed_masks, expected.packed_masks)
    masks = float(expected.num_detections.sum())
    records.rows.append(Row(work, "endcap", "masks", masks, "masks"))
    times = measure(
        gpu, records, work, lambda: packing.enqueue(tensors), by="endcap, bits", notes="bits"
    )
    with records.part(f"{work}: RLE"):
        _measure_rle(gpu, records, work, fields, arrays, tensors, packing)
    with records.part(f"{work} by torch", optional=(UnavailableError,)):
        _measure_torch(gpu, records, work, tensors, expected, times)


def _measure_rle(
    gpu: Gpu,
    records: Records,
    work: str,
    fields: dict[str, Any],
    arrays: dict[str, Any],
    tensors: dict[str, Any],
    packing: Any,
) -> None:
    """Measure run-length encoding on the GPU against bits that the host encodes, and the CPU."""
    scale = SIZE / 1920
    count = len(arrays["head"])
    geometry = np.array([[scale, scale, 0, 140, 1920, 1080, 1, 0]] * count, np.float32)
    for resolution, place in (("input", None), ("source", geometry)):
        options = {**fields, "mask_resolution": resolution}
        encoding: Any = endcap.Postprocessor(**options, device="cuda")
        reference: Any = endcap.Postprocessor(**options)
        with records.check(f"{work}, RLE, {resolution}: GPU equals CPU"):
            if encoding(tensors, place).rle != reference(arrays, place).rle:
                raise AssertionError("RLE differs from the CPU's")
        runs: dict[str, Run] = {
            "endcap, RLE": partial(encoding, tensors, place),
            f"endcap, CPU, {reference.threads} threads": partial(reference, arrays, place),
        }
        notes = f"RLE of the masks in pixels of the {resolution}, in host memory"
        for by, run in runs.items():
            taken = gpu.latency(run, _ROUNDS)
            metric = f"latency, {resolution}"
            records.rows.append(Row(work, by, metric, taken.ms, "ms", notes, taken.spread))
        if resolution == "input":
            _compare_encoders(gpu, records, work, encoding, packing, tensors)


def _compare_encoders(
    gpu: Gpu,
    records: Records,
    work: str,
    encoding: Any,
    packing: Any,
    tensors: dict[str, Any],
) -> None:
    threads = len(os.sched_getaffinity(0))
    with ThreadPoolExecutor(threads) as pool:

        def encoded_by_host() -> list[list[bytes]]:
            found = packing.enqueue(tensors).to_numpy()

            def encode(place: tuple[int, int]) -> bytes:
                return encode_rle(np.unpackbits(found.packed_masks[place], axis=-1))

            counts = [int(count) for count in found.num_detections]
            places = [(image, row) for image, most in enumerate(counts) for row in range(most)]
            made = iter(list(pool.map(encode, places)))
            return [[next(made) for _ in range(most)] for most in counts]

        with records.check(f"{work}: RLE of bits is that of the GPU"):
            if encoded_by_host() != encoding(tensors).rle:
                raise AssertionError("RLE of the bits differs from the GPU's")
        on_gpu = gpu.latency(lambda: encoding(tensors), _ROUNDS)
        by_host = gpu.latency(encoded_by_host, _ROUNDS)
    ratio = by_host.ms / on_gpu.ms
    by = f"bits by the GPU, downloaded, encoded by {threads} threads of the host"
    records.rows.append(Row(work, by, "latency, input", by_host.ms, "ms", "", by_host.spread))
    verdict = "more" if ratio >= _WORTH else "less"
    notes = f"{by}, against RLE by the GPU; {verdict} than the {_WORTH:g} that pay for them"
    records.rows.append(Row(work, "endcap, RLE", "host / GPU", ratio, "x", notes))


def by_torch(torch: Any, tensors: Any, boxes: Any, anchors: Any) -> list[Any]:
    """Return the masks of detections as ultralytics makes them: bool [N, SIZE, SIZE] of each image.

    Args:
        torch: the module.
        tensors: ``head`` and ``protos``.
        boxes: of each image [N, 4] in pixels of the input.
        anchors: of each image [N].
    """
    places = torch.arange(SIZE, device=tensors["protos"].device)
    found = []
    for head, protos, corners, kept in zip(
        tensors["head"], tensors["protos"], boxes, anchors, strict=True
    ):
        logits = head[4 + NUM_CLASSES :, kept].T @ protos.flatten(1)
        large = torch.nn.functional.interpolate(
            logits.view(1, -1, *protos.shape[1:]),
            (SIZE, SIZE),
            mode="bilinear",
            align_corners=False,
        )[0]
        x1, y1, x2, y2 = corners.T[:, :, None, None]
        inside = (places >= x1) & (places < x2)
        inside = inside & (places[:, None] >= y1) & (places[:, None] < y2)
        found.append((large > 0) & inside)
    return found


def _measure_torch(
    gpu: Gpu, records: Records, work: str, tensors: Any, expected: endcap.Detections, ours: Times
) -> None:
    """Measure torch's masks alone, of boxes that are there already."""
    torch = gpu.peer()
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
    theirs = measure(
        gpu,
        records,
        work,
        lambda: by_torch(torch, tensors, boxes, kept),
        by="torch",
        call_rounds=3,
        queued_rounds=2,
        notes="bytes instead of bits, without heads and NMS",
    )
    compare(records, work, "endcap, bits", ours, theirs)
