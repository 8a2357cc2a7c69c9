"""Pictures to draw on, of what callers hold."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from endcap._images import to_buffer
from endcap.drawing.orientation import NOT_A_PICTURE, open_picture
from endcap.errors import CorruptImageError, InvalidArgumentError


@contextmanager
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
    pixels = to_buffer(image)
    if isinstance(pixels, tuple):
        raise InvalidArgumentError("an image in YUV cannot be drawn on: give its pixels in RGB")
    if isinstance(pixels, np.ndarray) and pixels.ndim > 1:
        if pixels.ndim > 3 or (pixels.ndim == 3 and pixels.shape[2] != 3) or pixels.size == 0:
            raise InvalidArgumentError(
                f"an image to draw on has shape {list(pixels.shape)}: give [H,W,3] or [H,W]"
            )
        yield Image.fromarray(np.ascontiguousarray(pixels))
        return
    with _open(io.BytesIO(bytes(pixels))) as picture:
        yield picture


@contextmanager
def _open(file: Any) -> Iterator[Image.Image]:
    with ExitStack() as opened:
        try:
            picture = opened.enter_context(open_picture(file))
            picture.load()
        except NOT_A_PICTURE as error:
            raise CorruptImageError(f"the image cannot be read by Pillow ({error})") from error
        yield picture
