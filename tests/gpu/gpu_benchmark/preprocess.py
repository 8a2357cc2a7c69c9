"""Pixels that lie on the GPU, and JPEG files, to the letterboxed tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

import endcap
from gpu_benchmark.inputs import BATCH, HEIGHT, OTHER_SIZES, SIZE, WIDTH, files, pictures
from gpu_benchmark.rows import Results, Row
from gpu_benchmark.timing import copy_bytes_per_ms, kernels_ms, queued_ms, stream_ms, wall_ms

JPEGS = f"{BATCH} x {WIDTH}x{HEIGHT} JPEG -> {SIZE}x{SIZE} float32"
_STEP = 1 / 255
# torchvision resizes 8-bit pixels in float and rounds; endcap has OpenCV's fixed-point weights.
_NEAR = 1.01 * _STEP
# What nvJPEG differs by: see NVJPEG_STEPS in tests/python/tolerances.py.
_NEAR_JPEG = 6.01 * _STEP


class Torchvision:
    """The same letterbox by torchvision's functions on batches of pictures of one size."""

    def __init__(self, torch: Any, height: int, width: int) -> None:
        from torchvision.transforms.v2 import functional

        self._torch = torch
        self._functional = functional
        self._height = resized_height(height, width)

    def __call__(self, batch: Any) -> Any:
        """uint8 [N, 3, H, W] -> float32 [N, 3, SIZE, SIZE]."""
        resized = self._functional.resize(batch, [self._height, SIZE], antialias=False)
        above = (SIZE - self._height) // 2
        border = [0, above, 0, SIZE - self._height - above]
        padded = self._functional.pad(resized, border, fill=114)
        return padded.to(self._torch.float32) / 255


def resized_height(height: int, width: int) -> int:
    """Of a picture that is wider than high, in the tensor."""
    return round(height * SIZE / width)


def least_bytes(height: int, width: int) -> int:
    """Bytes that the work must move: the tensors, and once each source row that has a weight."""
    resized = resized_height(height, width)
    centers = (np.arange(resized) + 0.5) * height / resized - 0.5
    rows = np.unique(np.clip([np.floor(centers), np.ceil(centers)], 0, height - 1))
    return BATCH * (3 * SIZE * SIZE * 4 + len(rows) * width * 3)


def measure_pixels(torch: Any, results: Results) -> None:
    """The fused kernel, and torchvision."""
    copied = copy_bytes_per_ms(torch)
    results.rows.append(Row("copy within device memory", "torch", copied / 1e6, "GB/s"))
    for height, width in ((HEIGHT, WIDTH), *OTHER_SIZES):
        with results.part(f"{BATCH} x {width}x{height} pixels"):
            _measure_size(torch, results, height, width, copied)


def _measure_size(torch: Any, results: Results, height: int, width: int, copied: float) -> None:
    """copied: bytes per millisecond of a copy."""
    work = f"{BATCH} x {width}x{height} pixels -> {SIZE}x{SIZE} float32"
    tensors = [torch.from_numpy(picture).cuda() for picture in pictures(height, width)]
    preprocessor = endcap.Preprocessor(device="cuda")
    ours = torch.from_dlpack(preprocessor(tensors).images)
    reference = endcap.Preprocessor()(pictures(height, width)).images
    np.testing.assert_array_equal(ours.cpu().numpy(), reference)

    call = stream_ms(torch, lambda: preprocessor(tensors))
    note = "calls one after the other"
    results.rows.append(Row(work, "endcap", call.ms, "ms", note, call.spread))
    # From the fifth call on the host waits for the first: two contexts take turns.
    queued = queued_ms(torch, lambda: preprocessor(tensors), rounds=4)
    note = "by events, work waiting in the stream"
    results.rows.append(Row(work, "endcap", queued.ms, "ms", note, queued.spread))
    kernel = min(call.ms, queued.ms)
    with results.part(f"{work}: time of the kernel alone", spared=(RuntimeError,)):
        kernel = kernels_ms(torch, lambda: preprocessor(tensors))
        results.rows.append(Row(work, "endcap", kernel, "ms", "the kernel alone"))
    share = least_bytes(height, width) / kernel / copied
    note = "of the bandwidth of a copy; rows read once"
    results.rows.append(Row(work, "endcap", 100 * share, "%", note))

    with results.part(f"{work} by torchvision"):
        batch = torch.stack(tensors).permute(0, 3, 1, 2).contiguous()
        peer = Torchvision(torch, height, width)
        torch.testing.assert_close(peer(batch), ours, rtol=0, atol=_NEAR)
        theirs = stream_ms(torch, lambda: peer(batch))
        note = "one batch tensor"
        results.rows.append(Row(work, "torchvision", theirs.ms, "ms", note, theirs.spread))


def measure_jpegs(torch: Any, results: Results) -> None:
    """From files in host memory: exact by CPU threads and GPU, by nvJPEG, and by torchvision."""
    reference = endcap.Preprocessor()
    expected = reference(files()).images
    _add(torch, results, f"endcap, CPU, {reference.threads} threads", lambda: reference(files()))
    with results.part(f"{JPEGS}, hybrid"):
        hybrid = endcap.Preprocessor(device="cuda", jpeg_decoder="hybrid")
        np.testing.assert_array_equal(hybrid(files()).images.to_numpy(), expected)
        equal = Row(JPEGS, "CPU and GPU", float(expected.size), "numbers", "all equal")
        results.rows.append(equal)
        _add(torch, results, f"endcap, hybrid, {hybrid.threads} threads", lambda: hybrid(files()))
    with results.part(f"{JPEGS} by nvJPEG"):
        nvjpeg = endcap.Preprocessor(device="cuda", decode="fast", jpeg_decoder="nvjpeg")
        images = nvjpeg(files()).images.to_numpy()
        np.testing.assert_allclose(images, expected, rtol=0, atol=_NEAR_JPEG)
        _add(torch, results, "endcap, nvJPEG", lambda: nvjpeg(files()))
    # A torchvision without nvJPEG is no failure of ours.
    with results.part(f"{JPEGS} by torchvision", spared=(ImportError, RuntimeError)):
        from torchvision.io import ImageReadMode, decode_jpeg

        data = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files()]
        peer = Torchvision(torch, HEIGHT, WIDTH)

        def by_torchvision() -> Any:
            decoded = decode_jpeg(data, mode=ImageReadMode.RGB, device="cuda")
            return peer(torch.stack(decoded))

        near = np.abs(by_torchvision().cpu().numpy() - expected).mean()
        if near > 2 * _STEP:
            raise AssertionError(f"torchvision's tensors differ by {near} on average")
        _add(torch, results, "torchvision, decode_jpeg on the GPU", by_torchvision)


def _add(torch: Any, results: Results, who: str, run: Any) -> None:
    took = wall_ms(torch, run)
    results.rows += [
        Row(JPEGS, who, took.ms, "ms", "until the GPU is done", took.spread),
        Row(JPEGS, who, BATCH / took.ms * 1e3, "images/s", "", took.spread),
    ]
