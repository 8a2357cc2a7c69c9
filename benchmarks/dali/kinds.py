"""Kinds of difference between DALI's own operators and endcap, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import endcap
from benchmarks.preprocess import PAD, SIZE

Pixels = npt.NDArray[Any]


def decode(encoded: bytes, **options: Any) -> Pixels:
    """fn.decoders.image on the CPU: RGB uint8 [H, W, 3]."""
    return _run(_decoder("cpu", tuple(options.items())), np.frombuffer(encoded, np.uint8))


def decode_gpu(encoded: bytes, **options: Any) -> Pixels:
    """Return the same with device="mixed", which on most GPUs is nvJPEG."""
    return _run(_decoder("mixed", tuple(options.items())), np.frombuffer(encoded, np.uint8))


def decoder_orients() -> bool:
    """Whether this DALI's fn.decoders.image knows EXIF orientation: 2.0 did not, 2.4 does."""
    backend: Any = import_module("nvidia.dali.backend")
    return bool(backend.GetSchema("decoders__Image").HasArgument("adjust_orientation"))


def resize(pixels: Pixels, interpolation: str = "LINEAR", **options: Any) -> Pixels:
    """fn.resize to the size of the letterbox, as endcap rounds it: uint8 [h, w, 3]."""
    height, width = letterboxed(pixels.shape[0], pixels.shape[1])
    fixed = (("size", (height, width)), *options.items())
    return _run(_resizer(interpolation, fixed), pixels)


def resize_not_larger(pixels: Pixels, **options: Any) -> Pixels:
    """fn.resize with DALI's own rounding of the shorter side."""
    fixed = (("size", (SIZE, SIZE)), ("mode", "not_larger"), *options.items())
    return _run(_resizer("LINEAR", fixed), pixels)


def endcap_resize(pixels: Pixels, *, quantize: bool = True, **fields: Any) -> Pixels:
    """Resize alone by endcap: uint8 [h, w, 3], or float32 with quantize=False."""
    result = endcap.preprocess(
        pixels,
        size=SIZE,
        layout="nhwc",
        scale=1.0,
        dtype="uint8" if quantize else "float32",
        quantize="uint8" if quantize else "none",
        pad_align="top_left",
        **fields,
    )
    height, width = letterboxed(pixels.shape[0], pixels.shape[1])
    return np.asarray(result.images)[0, :height, :width]


def in_square(pixels: Pixels) -> Pixels:
    """[h, w, 3] in the middle of a square of the padding's grey; an odd pixel goes behind."""
    height, width = pixels.shape[:2]
    top, left = (SIZE - height) // 2, (SIZE - width) // 2
    square = np.full((SIZE, SIZE, 3), PAD, pixels.dtype)
    square[top : top + height, left : left + width] = pixels
    return square


def letterboxed(height: int, width: int) -> tuple[int, int]:
    """Height and width of the resized picture: sides rounded, halves to even."""
    ratio = min(SIZE / height, SIZE / width)
    return max(round(height * ratio), 1), max(round(width * ratio), 1)


@lru_cache(maxsize=8)
def _decoder(device: str, options: tuple[tuple[str, Any], ...]) -> Any:
    def graph(fn: Any, types: Any) -> Any:
        encoded = fn.external_source(name="input", dtype=types.UINT8, ndim=1)
        return fn.decoders.image(encoded, device=device, output_type=types.RGB, **dict(options))

    return _pipeline(graph, None if device == "cpu" else 0)


@lru_cache(maxsize=8)
def _resizer(interpolation: str, options: tuple[tuple[str, Any], ...]) -> Any:
    def graph(fn: Any, types: Any) -> Any:
        pixels = fn.external_source(name="input", dtype=types.UINT8, ndim=3, layout="HWC")
        filtered = getattr(types, f"INTERP_{interpolation}")
        return fn.resize(pixels, interp_type=filtered, **_typed(dict(options), types))

    return _pipeline(graph, None)


def _typed(options: dict[str, Any], types: Any) -> dict[str, Any]:
    """Arguments with the type of the pixels as DALI names it."""
    if "dtype" in options:
        options["dtype"] = getattr(types, options["dtype"])
    return options


def _pipeline(graph: Any, device_id: int | None) -> Any:
    dali: Any = import_module("nvidia.dali")
    pipeline = dali.Pipeline(
        batch_size=1,
        num_threads=1,
        device_id=device_id,
        prefetch_queue_depth=1,
        exec_async=False,
        exec_pipelined=False,
    )
    with pipeline:
        fn, types = import_module("nvidia.dali.fn"), import_module("nvidia.dali.types")
        pipeline.set_outputs(graph(fn, types))
    pipeline.build()
    return pipeline


def _run(pipeline: Any, array: Pixels) -> Pixels:
    pipeline.feed_input("input", [array])
    (output,) = pipeline.run()
    return np.array((output.as_cpu() if hasattr(output, "as_cpu") else output).as_array()[0])


Source = Literal["files", "pixels", "CMYK files", "half a pixel"]


@dataclass(frozen=True)
class Kind:
    """One kind.

    Attributes:
        theirs, ours: From one input to pixels in 8-bit steps, of one shape.
        inputs: What they are given; "half a pixel" is a picture whose resized side ends in one.
    """

    name: str
    reason: str
    inputs: Source
    theirs: Callable[[Any], Any]
    ours: Callable[[Any], Any]
    needs_gpu: bool = False


_EXACT: dict[str, Any] = {"subpixel_scale": False, "antialias": False}


def _decode(encoded: Any) -> Any:
    return np.asarray(endcap.decode(encoded))


def _plain(pixels: Any) -> Any:
    return endcap_resize(pixels)


KINDS = (
    Kind(
        "decoding",
        "none: libjpeg-turbo's pixels in both, with its default inverse DCT and chroma upsampling",
        "files",
        decode,
        _decode,
    ),
    Kind(
        "decoding of CMYK",
        "ink x black / 255 is rounded by endcap, as Pillow does it, and truncated by DALI",
        "CMYK files",
        decode,
        _decode,
    ),
    Kind(
        "decoding, `use_fast_idct=True`",
        "an inverse DCT of fewer bits",
        "files",
        lambda encoded: decode(encoded, use_fast_idct=True),
        _decode,
    ),
    Kind(
        "decoding on a GPU",
        "nvJPEG: an inverse DCT of its own, and chroma repeated instead of interpolated",
        "files",
        decode_gpu,
        _decode,
        needs_gpu=True,
    ),
    Kind(
        "decoding on a GPU, `jpeg_fancy_upsampling=True`",
        "nvJPEG: an inverse DCT of its own",
        "files",
        lambda encoded: decode_gpu(encoded, jpeg_fancy_upsampling=True),
        _decode,
        needs_gpu=True,
    ),
    Kind(
        "resizing, `subpixel_scale=False, antialias=False`",
        "DALI sums in float32 and rounds once, halves to even; endcap has OpenCV's arithmetic: "
        "weights of 11 bits, and products that are cut off after some bits",
        "pixels",
        lambda pixels: resize(pixels, **_EXACT),
        _plain,
    ),
    Kind(
        'the same in float32, against `quantize="none"`',
        "positions of source pixels are computed in another order of float32 roundings",
        "pixels",
        lambda pixels: resize(pixels, **_EXACT, dtype="FLOAT"),
        lambda pixels: endcap_resize(pixels, quantize=False),
    ),
    Kind(
        "resizing to float32",
        "not rounded to 8 bits before it is normalised",
        "pixels",
        lambda pixels: resize(pixels, **_EXACT, dtype="FLOAT"),
        _plain,
    ),
    Kind(
        'resizing, `mode="not_larger", subpixel_scale=True`',
        "DALI's default: where the resized side would be 558.08 pixels, 558/558.08 of the picture "
        "is resized; endcap and the training libraries resize all of it to 558",
        "pixels",
        lambda pixels: resize_not_larger(pixels, antialias=False),
        _plain,
    ),
    Kind(
        'resizing, `mode="not_larger"`, 320.5 rows',
        "DALI rounds halves up, to 321 rows; endcap to even, to 320, as Python's `round` does in "
        "the training libraries",
        "half a pixel",
        lambda pixels: in_square(resize_not_larger(pixels, **_EXACT)),
        lambda pixels: in_square(endcap_resize(pixels)),
    ),
    Kind(
        "resizing, `antialias=True`",
        "DALI's default is a triangular filter where it shrinks; endcap's default, as detectors "
        "are trained, takes the two nearest pixels of each axis",
        "pixels",
        lambda pixels: resize(pixels, subpixel_scale=False, antialias=True),
        _plain,
    ),
    Kind(
        "the same, against `antialias=True`",
        "at the border DALI repeats the last pixel; endcap, as Pillow, leaves out what is outside",
        "pixels",
        lambda pixels: resize(pixels, subpixel_scale=False, antialias=True),
        lambda pixels: endcap_resize(pixels, antialias=True),
    ),
    Kind(
        "resizing, `INTERP_CUBIC`, against `bicubic`",
        "the cubic of DALI has a = -0.5, the one of endcap and OpenCV a = -0.75",
        "pixels",
        lambda pixels: resize(pixels, "CUBIC", **_EXACT),
        lambda pixels: endcap_resize(pixels, interpolation="bicubic"),
    ),
)
