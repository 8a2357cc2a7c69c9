"""The least that must work on a GPU, within about ten seconds; the first failure is the cause.

python -m gpu_check.smoke --output FILE [--tiny]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from gpu_benchmark.inputs import FULL, TINY, Sizes, files, heads, picture, pictures

import endcap
from endcap import _core
from gpu_check.machine import is_emulated
from gpu_check.records import Records

_FIELDS = ("num_detections", "boxes", "scores", "class_ids", "indices", "status")


def upload(array: npt.NDArray[Any]) -> endcap.CudaArray:
    """Return a copy in GPU memory."""
    return endcap.CudaArray(_core.CudaTensor.upload(np.ascontiguousarray(array), 0, 0, None))


def run_smoke(records: Records, sizes: Sizes) -> None:
    """Run the checks, from the simplest to whole batches."""
    random = np.random.default_rng(3)
    with records.check("context: memory is allocated, copied to the GPU and back"):
        values = random.integers(0, 256, 1 << 16, np.uint8)
        np.testing.assert_array_equal(upload(values).to_numpy(), values)
    with records.check("kernel launch: nms of 2 boxes"):
        _check_nms(random, 2)
    with records.check("CUB sort: nms of 5000 boxes"):
        _check_nms(random, 5000)
    with records.check("half conversion: float32 pixels to a float16 tensor"):
        _check_pixels([picture(1, 90, 160)], size=96, dtype="float16")
    with records.check("half conversion: a float16 head"):
        _check_head(heads(1, sizes.anchors).astype(np.float16))
    with records.check("asynchronous copies to shared memory: RGB pixels of odd widths"):
        _check_pixels([picture(seed, 101, 150 + seed) for seed in range(3)], size=96)
    with records.check(f"{sizes.batch} x {sizes.width}x{sizes.height} pixels, every bit"):
        _check_pixels(pictures(sizes.height, sizes.width, sizes.batch), size=sizes.size)
    with records.check(f"yolov8 head of {sizes.anchors} anchors"):
        _check_head(heads(1, sizes.anchors))
    with records.check("a JPEG file by hybrid decoding"):
        file = files(sizes.height, sizes.width, sizes.batch)[0]
        options: dict[str, Any] = {"size": sizes.size, "jpeg_decoder": "hybrid"}
        actual = endcap.preprocess(file, **options, device="cuda")
        expected = endcap.preprocess(file, size=sizes.size)
        np.testing.assert_array_equal(actual.images.to_numpy(), expected.images)
        if actual.decoders != ("hybrid",):
            raise AssertionError(f"decoded by {actual.decoders}, not by hybrid")


def _check_nms(random: np.random.Generator, count: int) -> None:
    corners = random.uniform(0, 600, (count, 2))
    boxes = np.hstack([corners, corners + random.uniform(5, 80, (count, 2))]).astype(np.float32)
    scores = np.round(random.uniform(0, 1, count), 3).astype(np.float32)  # with ties
    kept = endcap.nms(upload(boxes), upload(scores), 0.5, device="cuda").to_numpy()
    np.testing.assert_array_equal(kept, endcap.nms(boxes, scores, 0.5))


def _check_pixels(images: list[npt.NDArray[np.uint8]], **options: Any) -> None:
    # Different images alone are copied: a batch has the same ones several times.
    on_gpu = {id(image): upload(image) for image in images}
    actual = endcap.Preprocessor(**options, device="cuda")([on_gpu[id(each)] for each in images])
    expected = endcap.Preprocessor(**options)(images)
    np.testing.assert_array_equal(actual.images.to_numpy(), expected.images)
    np.testing.assert_array_equal(actual.geometry, expected.geometry)


def _check_head(head: npt.NDArray[Any]) -> None:
    expected: Any = endcap.Postprocessor()(head)
    if not expected.num_detections.all():
        raise AssertionError("an image has no detections: nothing was verified")
    enqueued: Any = endcap.Postprocessor(device="cuda").enqueue(upload(head))
    actual = enqueued.to_numpy()
    for field in _FIELDS:
        np.testing.assert_array_equal(getattr(actual, field), getattr(expected, field), field)


def main() -> int:
    """Run the checks; each prints its line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="tiny batches")
    options = parser.parse_args()
    records = Records(options.output, is_emulated())
    run_smoke(records, TINY if options.tiny else FULL)
    return 1 if records.failed else 0


if __name__ == "__main__":
    sys.exit(main())
