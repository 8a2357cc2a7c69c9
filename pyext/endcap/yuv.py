"""Images in YUV, as video decoders and cameras give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from endcap.errors import InvalidArgumentError

# A NumPy array, or with device="cuda" an array on that GPU: by DLPack or the CUDA array interface.
Plane: TypeAlias = Any

_MATRICES = ("bt601", "bt709", "bt2020")
_RANGES = ("full", "limited")


@dataclass(frozen=True, eq=False)
class YuvImage:
    """An image in YUV, for whatever takes pixels; made by ``nv12`` and ``planar_yuv``.

    Attributes:
        layout: ``nv12`` or ``planar``.
        planes: the arrays that were given; they are read when the image is used.
        matrix: ``bt601``, ``bt709`` or ``bt2020``.
        range: ``full`` or ``limited``.
    """

    layout: str
    planes: tuple[Plane, ...]
    matrix: str
    range: str

    def __repr__(self) -> str:
        planes = ", ".join(
            str(list(shape)) if (shape := getattr(plane, "shape", None)) else type(plane).__name__
            for plane in self.planes
        )
        return f"<YuvImage {self.layout}, planes {planes}, {self.matrix}, {self.range}>"

    def __post_init__(self) -> None:
        """Refuse a matrix or range that there is not."""
        if self.matrix not in _MATRICES:
            raise InvalidArgumentError(f"matrix is {self.matrix!r}: give bt601, bt709 or bt2020")
        if self.range not in _RANGES:
            raise InvalidArgumentError(f"range is {self.range!r}: give full or limited")


def nv12(
    pixels: Plane | Sequence[Plane], *, matrix: str = "bt601", range: str = "limited"
) -> YuvImage:
    """Take pixels in NV12 for an image: a plane of Y, and one where U and V alternate.

    Nothing is copied or converted: ``preprocess`` and ``Preprocessor`` do that, row by row, and
    raise InvalidArgumentError for planes that do not fit together. U and V come to full size by the
    triangle filter that JPEG decoders have, as if each sample lay in the middle of its four pixels.

    Args:
        pixels: uint8 [H*3/2, W] with even H and W, the Y rows first, as OpenCV and NVDEC have it;
            or a pair of planes of any size: Y uint8 [H, W], and UV uint8 [ceil(H/2), ceil(W/2), 2].
            Rows may lie apart. With ``device="cuda"`` they may be arrays on that GPU.
        matrix: how R, G and B were mixed: ``bt601`` (older video, and OpenCV), ``bt709`` (HD) or
            ``bt2020`` (UHD; with non-constant luminance).
        range: ``limited`` (video: Y from 16 to 235) or ``full`` (0 to 255, as in JPEGs).

    Raises:
        InvalidArgumentError: another matrix or range, or a sequence that is no pair.
    """
    if not isinstance(pixels, (list, tuple)):
        return YuvImage("nv12", (pixels,), matrix, range)
    if len(pixels) != 2:
        raise InvalidArgumentError(
            f"NV12 came as {len(pixels)} planes: give Y and UV, or one array [H*3/2, W]"
        )
    return YuvImage("nv12", tuple(pixels), matrix, range)


def planar_yuv(
    y: Plane, u: Plane, v: Plane, *, matrix: str = "bt601", range: str = "limited"
) -> YuvImage:
    """Take three planes for an image: I420 (4:2:0), 4:2:2, 4:4:0 or 4:4:4.

    As ``nv12`` in all else.

    Args:
        y: uint8 [H, W].
        u: uint8 [H, W], or half as many rows, columns or both, rounded up. The one row or column of
            a picture that has no more is not taken for half.
        v: uint8, as large as ``u``.
        matrix: as in ``nv12``.
        range: as in ``nv12``.

    Raises:
        InvalidArgumentError: another matrix or range.
    """
    return YuvImage("planar", (y, u, v), matrix, range)
