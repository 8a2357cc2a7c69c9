"""Images in YUV, as video decoders and cameras give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from endcap._arrays import from_dlpack
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

    def to_y4m(self) -> bytes:
        """Return the image as the bytes of a Y4M file, which a server takes as any image file.

        The planes are copied as they are, behind a header of text (YUV4MPEG2). Matrix and range go
        into the tags XCOLORMATRIX, which is endcap's own, and XCOLORRANGE, which is FFmpeg's. NV12
        has the tag Cnv12, which other programs do not read.

        Raises:
            InvalidArgumentError: planes that do not fit together, are not uint8, or lie on a GPU.
        """
        luma, *chroma = (_to_host_plane(plane) for plane in self.planes)
        if self.layout == "nv12" and not chroma:
            luma, *chroma = _split_nv12(luma)
        shapes = tuple(plane.shape for plane in chroma)
        tag = _chroma_tags(luma).get(shapes)
        if tag is None:
            raise InvalidArgumentError(
                f"planes of YUV are {', '.join(str(list(p.shape)) for p in (luma, *chroma))}: give "
                "U and V as large as Y, or half as many rows, columns or both, rounded up"
            )
        header = (
            f"YUV4MPEG2 W{luma.shape[1]} H{luma.shape[0]} F0:0 Ip A0:0 C{tag} "
            f"XCOLORRANGE={self.range.upper()} XCOLORMATRIX={self.matrix.upper()}\nFRAME\n"
        )
        # Rows that lie apart are joined one by one: nothing is copied twice.
        return b"".join(
            (
                header.encode(),
                *(
                    part.data
                    for plane in (luma, *chroma)
                    for part in ((plane,) if plane.flags.c_contiguous else plane)
                ),
            )
        )


def _to_host_plane(plane: Plane) -> npt.NDArray[np.uint8]:
    """Return a plane as an array with contiguous rows, in place where it has them."""
    is_other = hasattr(plane, "__dlpack__") and not isinstance(plane, np.ndarray)
    array = from_dlpack(plane, "a plane of an image") if is_other else np.asarray(plane)
    if array.dtype != np.uint8 or array.ndim not in (2, 3) or array.size == 0:
        raise InvalidArgumentError(
            f"a plane of an image is {array.dtype} {list(array.shape)}: give uint8 [H, W], or "
            "[H, W, 2] of U and V together"
        )
    return array if array[0].flags.c_contiguous else np.ascontiguousarray(array)


def _split_nv12(whole: npt.NDArray[np.uint8]) -> tuple[npt.NDArray[np.uint8], ...]:
    height, width = whole.shape[0] // 3 * 2, whole.shape[1]
    if whole.ndim != 2 or whole.shape[0] % 3 or height % 2 or width % 2:
        raise InvalidArgumentError(
            f"NV12 is uint8 {list(whole.shape)}: give [H*3/2, W] with even H and W"
        )
    return whole[:height], whole[height:].reshape(height // 2, width // 2, 2)


def _chroma_tags(luma: npt.NDArray[np.uint8]) -> dict[tuple[tuple[int, ...], ...], str]:
    """Return the tag C of a Y4M file for the shapes that planes of U and V may have.

    The one row or column of a plane does not count as half of one, as `planar_yuv` has it.
    """
    if luma.ndim != 2:
        return {}
    height, width = luma.shape
    half_height, half_width = (height + 1) // 2, (width + 1) // 2
    return {
        ((half_height, half_width, 2),): "nv12",
        ((half_height, half_width),) * 2: "420jpeg",
        ((half_height, width),) * 2: "440",
        ((height, half_width),) * 2: "422",
        ((height, width),) * 2: "444",
    }


def nv12(
    pixels: Plane | Sequence[Plane], *, matrix: str = "bt601", range: str = "limited"
) -> YuvImage:
    """Take pixels in NV12 for an image: a plane of Y, and one where U and V alternate.

    Nothing is copied or converted: ``preprocess`` and ``Preprocessor`` do that, row by row, and
    raise InvalidArgumentError for planes that do not fit together. U and V are enlarged by the
    triangle filter that JPEG decoders have, as if each sample lay in the middle of its four pixels.

    Args:
        pixels: uint8 [H*3/2, W] with even H and W, the Y rows first, as OpenCV and NVDEC have it;
            or a pair of planes of any size: Y uint8 [H, W], and UV uint8 [ceil(H/2), ceil(W/2), 2].
            Rows may lie apart. With ``device="cuda"`` they may be arrays on that GPU.
        matrix: how R, G and B were mixed: ``bt601`` (older video, and OpenCV), ``bt709`` (HD) or
            ``bt2020`` (UHD; with non-constant luminance).
        range: ``limited`` (video: Y from 16 to 235) or ``full`` (0 to 255, as in JPEGs).

    Raises:
        InvalidArgumentError: another matrix or range, or a sequence that is not a pair.
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
