"""Single steps by DALI's own operators and by endcap, each from the same input to 8-bit pixels."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt

import endcap
from benchmarks.preprocess import PAD, SIZE

Pixels = npt.NDArray[Any]


def decode(encoded: bytes, **options: Any) -> Pixels:
    """fn.decoders.image on the CPU: RGB uint8 [H, W, 3]."""
    return _run(_decoder("cpu", tuple(options.items())), np.frombuffer(encoded, np.uint8))


def decode_gpu(encoded: bytes, **options: Any) -> Pixels:
    """The same with device="mixed", which on most GPUs is nvJPEG."""
    return _run(_decoder("mixed", tuple(options.items())), np.frombuffer(encoded, np.uint8))


def decoder_turns() -> bool:
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
    """endcap's resize alone: uint8 [h, w, 3], or float32 with quantize=False."""
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
