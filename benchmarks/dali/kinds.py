"""The kinds of difference between DALI's own operators and endcap, each with its reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import endcap
from benchmarks.dali import steps

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
    return steps.endcap_resize(pixels)


KINDS = (
    Kind(
        "decoding",
        "none: both run libjpeg-turbo with its default inverse DCT and chroma upsampling",
        "files",
        steps.decode,
        _decode,
    ),
    Kind(
        "decoding of CMYK",
        "ink x black / 255 is rounded by endcap, as Pillow does it, and truncated by DALI",
        "CMYK files",
        steps.decode,
        _decode,
    ),
    Kind(
        "decoding, `use_fast_idct=True`",
        "an inverse DCT of fewer bits",
        "files",
        lambda encoded: steps.decode(encoded, use_fast_idct=True),
        _decode,
    ),
    Kind(
        "decoding on a GPU",
        "nvJPEG: an inverse DCT of its own, and chroma repeated instead of interpolated",
        "files",
        steps.decode_gpu,
        _decode,
        needs_gpu=True,
    ),
    Kind(
        "decoding on a GPU, `jpeg_fancy_upsampling=True`",
        "nvJPEG: an inverse DCT of its own",
        "files",
        lambda encoded: steps.decode_gpu(encoded, jpeg_fancy_upsampling=True),
        _decode,
        needs_gpu=True,
    ),
    Kind(
        "resizing, `subpixel_scale=False, antialias=False`",
        "DALI sums in float32 and rounds once, halves to even; endcap has OpenCV's arithmetic: "
        "weights of 11 bits, and products that are cut off after some bits",
        "pixels",
        lambda pixels: steps.resize(pixels, **_EXACT),
        _plain,
    ),
    Kind(
        'the same in float32, against `quantize="none"`',
        "positions of source pixels are computed in another order of float32 roundings",
        "pixels",
        lambda pixels: steps.resize(pixels, **_EXACT, dtype="FLOAT"),
        lambda pixels: steps.endcap_resize(pixels, quantize=False),
    ),
    Kind(
        "resizing to float32",
        "not rounded to 8 bits before it is normalised",
        "pixels",
        lambda pixels: steps.resize(pixels, **_EXACT, dtype="FLOAT"),
        _plain,
    ),
    Kind(
        'resizing, `mode="not_larger", subpixel_scale=True`',
        "DALI's default: where the resized side would be 558.08 pixels, 558/558.08 of the picture "
        "is resized; endcap and the training libraries resize all of it to 558",
        "pixels",
        lambda pixels: steps.resize_not_larger(pixels, antialias=False),
        _plain,
    ),
    Kind(
        'resizing, `mode="not_larger"`, 320.5 rows',
        "DALI rounds halves up, to 321 rows; endcap to even, to 320, as Python's `round` does in "
        "the training libraries",
        "half a pixel",
        lambda pixels: steps.in_square(steps.resize_not_larger(pixels, **_EXACT)),
        lambda pixels: steps.in_square(steps.endcap_resize(pixels)),
    ),
    Kind(
        "resizing, `antialias=True`",
        "DALI's default is a triangular filter where it shrinks; endcap's default, as detectors "
        "are trained, takes the two nearest pixels of each axis",
        "pixels",
        lambda pixels: steps.resize(pixels, subpixel_scale=False, antialias=True),
        _plain,
    ),
    Kind(
        "the same, against `antialias=True`",
        "at the border DALI repeats the last pixel; endcap, as Pillow, leaves out what is outside",
        "pixels",
        lambda pixels: steps.resize(pixels, subpixel_scale=False, antialias=True),
        lambda pixels: steps.endcap_resize(pixels, antialias=True),
    ),
    Kind(
        "resizing, `INTERP_CUBIC`, against `bicubic`",
        "the cubic of DALI has a = -0.5, the one of endcap and OpenCV a = -0.75",
        "pixels",
        lambda pixels: steps.resize(pixels, "CUBIC", **_EXACT),
        lambda pixels: steps.endcap_resize(pixels, interpolation="bicubic"),
    ),
)
