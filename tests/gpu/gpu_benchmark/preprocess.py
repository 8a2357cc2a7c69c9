"""Pixels in GPU memory, and JPEG files, to the letterboxed tensor."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
from gpu_check.records import Records, Row

import endcap
from gpu_benchmark.gpus import Gpu, UnavailableError
from gpu_benchmark.inputs import Sizes, files, pictures
from gpu_benchmark.works import Times, compare, measure

_STEP = 1 / 255
# torchvision resizes 8-bit pixels in float and rounds; endcap has OpenCV's fixed-point weights.
_NEAR = 1.01 * _STEP
# What nvJPEG differs by: see NVJPEG_STEPS in tests/support/tolerances.py.
_NEAR_JPEG = 6.01 * _STEP
_SECTOR = 32  # bytes: the least that is read from GPU memory
_WEIGHT_ONE = 2048  # OpenCV's weights have 11 bits
# From the fifth call on the host waits for the first: two contexts take turns.
_CALLS_AHEAD = 4


class Torchvision:
    """The same letterbox by torchvision's functions on batches of images of one size."""

    def __init__(self, torch: Any, height: int, width: int, size: int) -> None:
        try:
            from torchvision.transforms.v2 import functional
        except ImportError as error:
            raise UnavailableError(f"torchvision is not installed: {error}") from error
        self._torch = torch
        self._functional = functional
        self._size = size
        self._height = resized_height(height, width, size)

    def __call__(self, batch: Any) -> Any:
        """Turn uint8 [N, 3, H, W] into float32 [N, 3, size, size]."""
        resized = self._functional.resize(batch, [self._height, self._size], antialias=False)
        above = (self._size - self._height) // 2
        border = [0, above, 0, self._size - self._height - above]
        padded = self._functional.pad(resized, border, fill=114)
        return padded.to(self._torch.float32) / 255


def resized_height(height: int, width: int, size: int) -> int:
    """Return the height in the tensor of an image that is wider than high."""
    return round(height * size / width)


def source_rows(height: int, resized: int) -> npt.NDArray[np.int64]:
    """Return the source rows whose weight is not zero for some row of the resized image."""
    centers = (np.arange(resized) + 0.5) * height / resized - 0.5
    above = np.floor(centers)
    below_weight = np.rint((centers - above) * _WEIGHT_ONE)
    rows = [above[below_weight < _WEIGHT_ONE], above[below_weight > 0] + 1]
    return np.array(np.unique(np.clip(np.concatenate(rows), 0, height - 1)), np.int64)


def least_bytes(batch: int, height: int, width: int, size: int) -> int:
    """Return the bytes that the work must move.

    These are the tensors, and once each 32-byte sector that holds part of a source row with a
    weight.
    """
    rows = source_rows(height, resized_height(height, width, size))
    first = rows * width * 3 // _SECTOR
    last = ((rows + 1) * width * 3 - 1) // _SECTOR
    touched = np.zeros(int(last[-1]) + 2, np.int64)
    np.add.at(touched, first, 1)
    np.add.at(touched, last + 1, -1)
    sectors = int((np.cumsum(touched) > 0).sum())
    return batch * (3 * size * size * 4 + sectors * _SECTOR)


def measure_pixels(gpu: Gpu, records: Records, sizes: Sizes) -> None:
    """Measure the fused kernel, and torchvision."""
    copied = gpu.copy_bytes_per_ms()
    work = "copy within device memory"
    records.rows.append(Row(work, "torch", "bandwidth", copied / 1e6, "GB/s", "read and written"))
    for height, width in ((sizes.height, sizes.width), *sizes.other_sizes):
        work = f"{sizes.batch} x {width}x{height} pixels -> {sizes.size}x{sizes.size} float32"
        with records.part(work):
            _measure_size(gpu, records, sizes, work, height, width, copied)


def _measure_size(
    gpu: Gpu, records: Records, sizes: Sizes, work: str, height: int, width: int, copied: float
) -> None:
    """copied: bytes per millisecond of a copy."""
    images = pictures(height, width, sizes.batch)
    tensors = [gpu.upload(image) for image in images]
    preprocessor = endcap.Preprocessor(device="cuda", size=sizes.size)
    with records.check(f"{work}: GPU equals CPU"):
        ours = preprocessor(tensors).images.to_numpy()
        reference = endcap.Preprocessor(size=sizes.size)(images).images
        np.testing.assert_array_equal(ours, reference)
    bound = least_bytes(sizes.batch, height, width, sizes.size) / copied
    times = measure(
        gpu,
        records,
        work,
        lambda: preprocessor(tensors),
        bound_ms=bound,
        queued_rounds=_CALLS_AHEAD,
    )
    stacked = gpu.upload(np.stack(images))
    measure(
        gpu,
        records,
        work,
        lambda: preprocessor(stacked),
        by="endcap, one array",
        bound_ms=bound,
        queued_rounds=_CALLS_AHEAD,
    )
    share = 100 * bound / times["kernel"]
    notes = "kernel; source rows with a weight in 32-byte sectors, and the output"
    records.rows.append(Row(work, "endcap", "share", share, "%", notes))
    with records.part(f"{work} by torchvision", optional=(UnavailableError,)):
        torch = gpu.peer()
        batch = torch.stack(tensors).permute(0, 3, 1, 2).contiguous()
        peer = Torchvision(torch, height, width, sizes.size)
        expected = torch.from_dlpack(preprocessor(tensors).images)
        torch.testing.assert_close(peer(batch), expected, rtol=0, atol=_NEAR)
        theirs = measure(
            gpu, records, work, lambda: peer(batch), by="torchvision", notes="one batch tensor"
        )
        compare(records, work, "endcap", times, theirs)


def measure_jpegs(gpu: Gpu, records: Records, sizes: Sizes) -> None:
    """Measure files in host memory: exact by CPU threads and GPU, by nvJPEG, by torchvision."""
    work = f"{sizes.batch} x {sizes.width}x{sizes.height} JPEG -> {sizes.size}x{sizes.size} float32"
    batch = files(sizes.height, sizes.width, sizes.batch)
    reference = endcap.Preprocessor(size=sizes.size)
    expected = reference(batch).images
    by_cpu = f"endcap, CPU, {reference.threads} threads"
    taken = gpu.latency(lambda: reference(batch))
    records.rows.append(Row(work, by_cpu, "latency", taken.ms, "ms", "", taken.spread))
    measured: dict[str, Times] = {}
    with records.part(f"{work}, hybrid"):
        hybrid = endcap.Preprocessor(device="cuda", size=sizes.size, jpeg_decoder="hybrid")
        by = f"endcap, hybrid, {hybrid.threads} threads"
        with records.check(f"{work}, hybrid: GPU equals CPU"):
            result = hybrid(batch)
            np.testing.assert_array_equal(result.images.to_numpy(), expected)
        measured[by] = _measure_decoder(gpu, records, work, by, hybrid, batch)
    # The emulated GPU has no nvJPEG.
    optional = (endcap.CudaError, endcap.UnsupportedError) if gpu.emulated else ()
    with records.part(f"{work}, nvJPEG", optional=optional):
        nvjpeg = endcap.Preprocessor(
            device="cuda", size=sizes.size, decode="fast", jpeg_decoder="nvjpeg"
        )
        by = "endcap, nvJPEG"
        images = nvjpeg(batch).images.to_numpy()
        with records.check(f"{work}, nvJPEG: at most 6 of 255 from the CPU"):
            np.testing.assert_allclose(images, expected, rtol=0, atol=_NEAR_JPEG)
        measured[by] = _measure_decoder(gpu, records, work, by, nvjpeg, batch)
    # A torchvision without nvJPEG is no failure of ours.
    with records.part(f"{work} by torchvision", optional=(ImportError, RuntimeError)):
        torch = gpu.peer()
        from torchvision.io import ImageReadMode, decode_jpeg

        data = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in batch]
        peer = Torchvision(torch, sizes.height, sizes.width, sizes.size)

        def by_torchvision() -> Any:
            decoded = decode_jpeg(data, mode=ImageReadMode.RGB, device="cuda")
            return peer(torch.stack(decoded))

        near = np.abs(by_torchvision().cpu().numpy() - expected).mean()
        if near > 2 * _STEP:
            raise AssertionError(f"torchvision's tensors differ by {near} on average")
        name = "torchvision, decode_jpeg on the GPU"
        theirs = measure(gpu, records, work, by_torchvision, by=name, waits=True, call_rounds=5)
        for by, ours in measured.items():
            compare(records, work, by, ours, theirs)


def _measure_decoder(
    gpu: Gpu, records: Records, work: str, by: str, preprocessor: Any, batch: list[bytes]
) -> Times:
    """Measure a decoder, and count the images by the decoder that ran."""
    for decoder, count in Counter(preprocessor(batch).decoders).items():
        name = f"decoded by {decoder or 'none'}"
        records.rows.append(Row(work, by, name, float(count), "images"))
    times = measure(
        gpu, records, work, lambda: preprocessor(batch), by=by, waits=True, call_rounds=10
    )
    rate = len(batch) / times["call"] * 1e3
    records.rows.append(Row(work, by, "throughput", rate, "images/s", "calls one after the other"))
    return times
