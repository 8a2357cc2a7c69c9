"""Pillow: open, resize with its (antialiased) BILINEAR, paste, bands scaled into the tensor."""

from __future__ import annotations

from io import BytesIO

import numpy as np
from PIL import Image, ImageOps

from benchmarks.preprocess import PAD, SIZE
from benchmarks.preprocess.peer import (
    Batch,
    Peer,
    Single,
    Tensor,
    letterbox,
    one_buffer,
    thread_pool,
)

_SCALE = np.float32(1 / 255)


def write(encoded: bytes, tensor: Tensor) -> None:
    """Fill the tensor from one image."""
    picture: Image.Image = Image.open(BytesIO(encoded))
    ImageOps.exif_transpose(picture, in_place=True)
    if picture.mode != "RGB":
        picture = picture.convert("RGB")
    place = letterbox(*picture.size)
    resized = picture.resize((place.width, place.height), Image.Resampling.BILINEAR)
    square = Image.new("RGB", (SIZE, SIZE), (PAD, PAD, PAD))
    square.paste(resized, (place.left, place.top))
    for plane, out in zip(square.split(), tensor, strict=True):
        np.multiply(np.asarray(plane), _SCALE, out=out, dtype=np.float32)


def single() -> Single:
    """One image at a time."""
    return one_buffer(write)


def batch(threads: int) -> Batch:
    """Return an image a thread."""
    return thread_pool(write, threads)


PEER = Peer(
    "Pillow",
    "open, resize BILINEAR, paste, split, multiply",
    single,
    batch,
    compared_with=(("antialias", True),),
)
