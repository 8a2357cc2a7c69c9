"""Pixels that lie on the GPU, and JPEG files, to the letterboxed tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

import endcap
from gpu_benchmark.inputs import BATCH, HEIGHT, SIZE, WIDTH, files, pictures
from gpu_benchmark.rows import Results, Row
from gpu_benchmark.timing import copy_bytes_per_ms, kernels_ms, stream_ms, wall_ms

PIXELS = f"{BATCH} x {WIDTH}x{HEIGHT} pixels -> {SIZE}x{SIZE} float32"
JPEGS = f"{BATCH} x {WIDTH}x{HEIGHT} JPEG -> {SIZE}x{SIZE} float32"
_HEIGHT = SIZE * HEIGHT // WIDTH  # of the picture in the tensor
_STEP = 1 / 255
# torchvision resizes 8-bit pixels in float and rounds; endcap has OpenCV's fixed-point weights.
_NEAR = 1.01 * _STEP
# What nvJPEG differs by: see NVJPEG_STEPS in tests/python/tolerances.py.
_NEAR_JPEG = 6.01 * _STEP


class Torchvision:
    """The same letterbox by torchvision's functions on batches."""

    def __init__(self, torch: Any) -> None:
        from torchvision.transforms.v2 import functional

        self._torch = torch
        self._functional = functional

    def __call__(self, batch: Any) -> Any:
        """uint8 [N, 3, H, W] -> float32 [N, 3, SIZE, SIZE]."""
        resized = self._functional.resize(batch, [_HEIGHT, SIZE], antialias=False)
        above = (SIZE - _HEIGHT) // 2
        border = [0, above, 0, SIZE - _HEIGHT - above]
        padded = self._functional.pad(resized, border, fill=114)
        return padded.to(self._torch.float32) / 255


def least_bytes() -> int:
    """Bytes that the work must move: the tensors, and once each source row that has a weight."""
    centers = (np.arange(_HEIGHT) + 0.5) * HEIGHT / _HEIGHT - 0.5
    rows = np.unique(np.clip([np.floor(centers), np.ceil(centers)], 0, HEIGHT - 1))
    return BATCH * (3 * SIZE * SIZE * 4 + len(rows) * WIDTH * 3)


def measure_pixels(torch: Any, results: Results) -> None:
    """The fused kernel, and torchvision."""
    tensors = [torch.from_numpy(picture).cuda() for picture in pictures()]
    preprocessor = endcap.Preprocessor(device="cuda")
    peer, batch = Torchvision(torch), torch.stack(tensors).permute(0, 3, 1, 2).contiguous()
    ours = torch.from_dlpack(preprocessor(tensors).images)
    reference = endcap.Preprocessor()(pictures()).images
    np.testing.assert_array_equal(ours.cpu().numpy(), reference)
    torch.testing.assert_close(peer(batch), ours, rtol=0, atol=_NEAR)
    ours = None

    copied = copy_bytes_per_ms(torch)
    results.rows.append(Row("copy within device memory", "torch", copied / 1e6, "GB/s"))
    call = stream_ms(torch, lambda: preprocessor(tensors))
    results.rows.append(Row(PIXELS, "endcap", call, "ms", "calls one after the other"))
    try:
        kernel = kernels_ms(torch, lambda: preprocessor(tensors))
        results.rows.append(Row(PIXELS, "endcap", kernel, "ms", "the kernel alone"))
    except RuntimeError as error:
        results.left_out.append(f"time of the kernel alone: {error}")
        kernel = call
    share = least_bytes() / kernel / copied
    results.rows += [
        Row(PIXELS, "endcap", 100 * share, "%", "of the bandwidth of a copy; rows read once"),
        Row(PIXELS, "torchvision", stream_ms(torch, lambda: peer(batch)), "ms", "one batch tensor"),
    ]


def measure_jpegs(torch: Any, results: Results) -> None:
    """From files in host memory: exact by CPU threads and GPU, by nvJPEG, and by torchvision."""
    reference = endcap.Preprocessor()
    expected = reference(files()).images
    hybrid = endcap.Preprocessor(device="cuda", jpeg_decoder="hybrid")
    np.testing.assert_array_equal(hybrid(files()).images.to_numpy(), expected)
    results.rows.append(Row(JPEGS, "CPU and GPU", float(expected.size), "numbers", "all equal"))
    cases: dict[str, Any] = {
        f"endcap, CPU, {reference.threads} threads": lambda: reference(files()),
        f"endcap, hybrid, {hybrid.threads} threads": lambda: hybrid(files()),
    }
    try:
        nvjpeg = endcap.Preprocessor(device="cuda", decode="fast", jpeg_decoder="nvjpeg")
        images = nvjpeg(files()).images.to_numpy()
        np.testing.assert_allclose(images, expected, rtol=0, atol=_NEAR_JPEG)
        cases["endcap, nvJPEG"] = lambda: nvjpeg(files())
    except endcap.CudaError as error:
        results.left_out.append(f"{JPEGS} by nvJPEG: {error}")
    try:
        from torchvision.io import ImageReadMode, decode_jpeg

        data = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files()]
        peer = Torchvision(torch)

        def by_torchvision() -> Any:
            decoded = decode_jpeg(data, mode=ImageReadMode.RGB, device="cuda")
            return peer(torch.stack(decoded))

        near = np.abs(by_torchvision().cpu().numpy() - expected).mean()
        if near > 2 * _STEP:
            raise AssertionError(f"torchvision's tensors differ by {near} on average")
        cases["torchvision, decode_jpeg on the GPU"] = by_torchvision
    except (ImportError, RuntimeError) as error:
        results.left_out.append(f"{JPEGS} by torchvision: {error}")
    for who, run in cases.items():
        milliseconds = wall_ms(torch, run, rounds=20)
        results.rows.append(Row(JPEGS, who, milliseconds, "ms", "until the GPU is done"))
        results.rows.append(Row(JPEGS, who, BATCH / milliseconds * 1e3, "images/s"))
