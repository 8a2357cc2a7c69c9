"""Pictures that Pillow opens, and their EXIF orientation, read and applied as by the core.

Pillow's own functions read an orientation from XMP, too, and write the EXIF block again, which
fails on a damaged one.
"""

from __future__ import annotations

import contextlib
import io
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from PIL import Image

import endcap._core as _core
from endcap._arrays import check_pixels, view_image
from endcap.errors import CorruptImageError, InvalidArgumentError
from endcap.yuv import YuvImage

# Pillow's exceptions for a file that it cannot read as an image.
NOT_A_PICTURE = (OSError, ValueError, SyntaxError, Image.DecompressionBombError)

_TRANSFORMS = {  # by orientation; Exif 2.3, section 4.6.4
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_FIRST_THAT_SWAPS_SIDES = 5
_ORIENTATION_METADATA = ("exif", "Raw profile type exif", "xmp", "XML:com.adobe.xmp")


@contextlib.contextmanager
def open_picture(file: Path | IO[bytes]) -> Iterator[Image.Image]:
    """Open a picture with Pillow, without its warnings of sizes and of damaged EXIF blocks.

    Raises one of NOT_A_PICTURE, for pictures of more than 179 million pixels, too. Not thread-safe:
    filters of warnings are the process's.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        image = Image.open(file)
    with image:
        yield image


def oriented(image: Image.Image, *, upright: bool = True) -> Image.Image:
    """Return a copy without metadata of an orientation; upright: with the orientation applied."""
    transform = _TRANSFORMS.get(read_orientation(image)) if upright else None
    copy = image.copy() if transform is None else image.transpose(transform)
    for name in _ORIENTATION_METADATA:
        copy.info.pop(name, None)
    return copy


def read_oriented_size(file: Path | IO[bytes], *, upright: bool = True) -> tuple[int, int] | None:
    """Return width and height from an image's header, None where it has none.

    Accepts any size, for the pixels are not decoded. Not thread-safe, as `open_picture`.

    Args:
        file: The image.
        upright: Whether they are those after the EXIF orientation, or those as stored.
    """
    limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        with open_picture(file) as image:
            width, height = image.size
            swaps = upright and read_orientation(image) >= _FIRST_THAT_SWAPS_SIDES
    except NOT_A_PICTURE:
        return None
    finally:
        Image.MAX_IMAGE_PIXELS = limit
    return (height, width) if swaps else (width, height)


def read_orientation(image: Image.Image) -> int:
    """Return 1 to 8, and 1 where there is none or a damaged one, by the rules of the core."""
    return _core.read_exif_orientation(image.info.get("exif", b""))


@contextlib.contextmanager
def open_for_drawing(image: Any) -> Iterator[Image.Image]:
    """Open an image with Pillow.

    Args:
        image: A path, encoded bytes, a Pillow image, or pixels in RGB: an array uint8 [H,W,3] or
            [H,W], of NumPy or with __dlpack__ or __array__.

    Raises:
        CorruptImageError: A file that Pillow cannot read.
        InvalidArgumentError: Not an image, or one in YUV.
        OSError: A file that cannot be opened.
    """
    if isinstance(image, Image.Image):
        yield image
        return
    if isinstance(image, (str, os.PathLike)):
        with Path(image).open("rb") as file, _open(file) as picture:
            yield picture
        return
    if isinstance(image, YuvImage):
        raise InvalidArgumentError("an image in YUV cannot be drawn on: give its pixels in RGB")
    pixels = view_image(image)
    check_pixels(pixels.shape, pixels.dtype)
    if pixels.ndim > 1:
        if pixels.ndim > 3 or (pixels.ndim == 3 and pixels.shape[2] != 3) or pixels.size == 0:
            raise InvalidArgumentError(
                f"an image to draw on has shape {list(pixels.shape)}: give [H,W,3] or [H,W]"
            )
        yield Image.fromarray(np.ascontiguousarray(pixels))
        return
    with _open(io.BytesIO(pixels.tobytes())) as picture:
        yield picture


@contextlib.contextmanager
def _open(file: Any) -> Iterator[Image.Image]:
    with contextlib.ExitStack() as opened:
        try:
            picture = opened.enter_context(open_picture(file))
            picture.load()
        except NOT_A_PICTURE as error:
            raise CorruptImageError(f"the image cannot be read by Pillow ({error})") from error
        yield picture
