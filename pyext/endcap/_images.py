"""Images as the core reads them: files, bytes, Pillow images, arrays and YUV."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap._arrays import check_pixels, find_device, view_image
from endcap.cuda_array import Target
from endcap.errors import InvalidArgumentError
from endcap.yuv import YuvImage

# Suffixes of files of the formats that the core decodes.
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".webp", ".bmp", ".dib", ".gif")

# A bytes-like object or a 1-D uint8 array is an encoded file; [H,W] uint8 is gray pixels and
# [H,W,3] uint8 is pixels in `pixel_format`. Objects with __dlpack__ or __array__ count as arrays. A
# YuvImage is pixels in YUV.
Image: TypeAlias = Any


@dataclass(frozen=True)
class SizeLimits:
    """Limits of an image: what exceeds them is not copied before the core rejects it."""

    max_bytes: int
    max_side: int
    max_pixels: int

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, str]) -> SizeLimits:
        """Read them from parameters of preprocess."""
        return cls(**{field.name: int(parameters[field.name]) for field in fields(cls)})

    def allow(self, height: int, width: int) -> bool:
        """Whether pixels may be as many."""
        return max(height, width) <= self.max_side and height * width <= self.max_pixels


def open_image(image: Image, pixel_format: str, limits: SizeLimits) -> Image:
    """Return the bytes of a file and the pixels of a Pillow image; anything else unmodified.

    Of a file longer than ``max_bytes`` only the beginning is read, and one byte more than that: the
    core rejects it, as it rejects such bytes. A Pillow image that is too large is not decoded.

    Raises:
        InvalidArgumentError: a path that is not a file, or a Pillow image of no such pixels.
        OSError: a file that cannot be read.
    """
    if isinstance(image, (str, os.PathLike)):
        path = Path(image)
        if is_address(image):
            raise InvalidArgumentError(
                f"an image is the address {image}: download it, and give the bytes, for example "
                "urllib.request.urlopen(image).read()"
            )
        if path.exists() and not path.is_file():  # a pipe may never end
            raise InvalidArgumentError(f"{path} is not a file: give the path of an image")
        with path.open("rb") as file:
            return file.read(limits.max_bytes + 1)
    if not _is_pillow(image):
        return image
    if not limits.allow(image.height, image.width):
        return _pixels_to_reject((image.height, image.width, 3))
    return pillow_pixels(image, pixel_format)


def is_address(path: str | os.PathLike[str]) -> bool:
    """Tell an http:// or https:// address in the place of a path."""
    return isinstance(path, str) and path.lower().startswith(("http://", "https://"))


def _is_pillow(image: Any) -> bool:
    """Tell a Pillow image from others without an import of Pillow."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(image, pillow.Image)


def pillow_pixels(image: Any, pixel_format: str) -> npt.NDArray[np.uint8]:
    """Return the pixels of a Pillow image, [H,W] or [H,W,3]; its transparency is dropped.

    Raises:
        InvalidArgumentError: a mode of more than 8 bits, or one that Pillow does not convert.
    """
    if image.mode == "F" or image.mode.startswith("I"):
        raise InvalidArgumentError(
            f"a Pillow image has the mode {image.mode}, of more than 8 bits: bring its values to 0 "
            "to 255 and convert it; those of 0 to 65535 by "
            'image.point(lambda value: value / 257).convert("L")'
        )
    try:
        if image.mode in ("L", "1"):
            return np.asarray(image.convert("L"))
        pixels = np.asarray(image.convert("RGB"))
    except ValueError as error:
        raise InvalidArgumentError(
            f"a Pillow image has the mode {image.mode}, which is not converted to RGB ({error}): "
            "give it as RGB or L"
        ) from error
    return pixels[..., ::-1] if pixel_format == "bgr" else pixels


def is_single_image(images: Image | Sequence[Image]) -> bool:
    """Tell one image, or an array of several, from a sequence of images."""
    return not isinstance(images, (list, tuple))


def image_count(buffers: Sequence[_core.ImageBuffer | _core.YuvBuffers | _core.CudaTensor]) -> int:
    """Return how many images the core sees in buffers: an only one may be a batch [N,H,W,3]."""
    if len(buffers) == 1:
        shape = tuple(getattr(buffers[0], "shape", ()))
        if len(shape) == 4:
            return int(shape[0])
    return len(buffers)


def to_buffer(image: Image, limits: SizeLimits | None = None, target: Target | None = None) -> Any:
    """Return a buffer of uint8 over the image's own memory where its layout allows.

    Rows may lie apart (strides are honoured); pixels that are not contiguous within a row are
    copied, unless they exceed the limits. Pixels on the target's device stay there; encoded bytes
    on it are copied to the host, for that is where decoding begins. Raises InvalidArgumentError for
    anything that is not an image.
    """
    if isinstance(image, YuvImage):
        planes = [
            _to_plane(plane, image, limits)
            if target is None or find_device(plane) is None
            else _borrow_plane(plane, target)
            for plane in image.planes
        ]
        return image.layout, planes, image.matrix, image.range
    if target is None or limits is None or find_device(image) is None:
        return _to_image(image, limits)
    tensor = target.borrow(image, "an image")
    check_pixels(tuple(tensor.shape), np.dtype(tensor.type_string))
    return tensor if len(tensor.shape) != 1 else tensor.rows(0, limits.max_bytes + 1).to_numpy()


def _to_image(image: Image, limits: SizeLimits | None) -> _core.ImageBuffer:
    if isinstance(image, (bytes, bytearray)):
        return image
    if isinstance(image, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"an image is the path {os.fspath(image)!r}: give the bytes, for example "
            "pathlib.Path(...).read_bytes()"
        )
    array = view_image(image)
    check_pixels(array.shape, array.dtype)
    first = array[0] if array.ndim == 4 and len(array) > 0 else array
    if first.ndim in (2, 3) and _rows_contiguous(first):
        return array
    if array.ndim == 1:
        if limits is not None and not array.flags.c_contiguous:
            array = array[: limits.max_bytes + 1]
        return np.ascontiguousarray(array)
    height, width = array.shape[-3:-1] if array.ndim > 2 else array.shape
    return _copy_pixels(array, height, width, limits)


def _copy_pixels(
    array: npt.NDArray[np.uint8], height: int, width: int, limits: SizeLimits | None
) -> npt.NDArray[np.uint8]:
    """Return a contiguous copy of the pixels of an image of that size."""
    if limits is None or limits.allow(height, width):
        return np.ascontiguousarray(array)
    return _pixels_to_reject(array.shape)


def _pixels_to_reject(shape: tuple[int, ...]) -> npt.NDArray[np.uint8]:
    """Return pixels of a shape that the core rejects, in memory for one row."""
    row_rank = 1 if len(shape) == 2 else 2
    return np.broadcast_to(np.zeros(shape[-row_rank:], np.uint8), shape)


def _to_plane(plane: Image, image: YuvImage, limits: SizeLimits | None) -> _core.ImageBuffer:
    if isinstance(plane, (bytes, bytearray)):
        return plane
    array = view_image(plane)
    if array.dtype != np.uint8:
        raise InvalidArgumentError(f"a plane of an image is {array.dtype}: give uint8")
    if array.ndim not in (2, 3) or len(array) == 0:
        return np.ascontiguousarray(array)
    # Rows overlap in a broadcast array.
    overlap = len(array) > 1 and abs(array.strides[0]) < array[0].size
    if _rows_contiguous(array) and not overlap:
        return array
    height, width = array.shape[:2]
    if len(image.planes) == 1:
        height = height * 2 // 3  # the other rows are chroma
    return _copy_pixels(array, height, width, limits)


def _borrow_plane(plane: Image, target: Target) -> _core.CudaTensor:
    tensor = target.borrow(plane, "an image")
    if tensor.type_string != "|u1":
        raise InvalidArgumentError(
            f"a plane of an image is {np.dtype(tensor.type_string)}: give uint8"
        )
    return tensor


def _rows_contiguous(image: npt.NDArray[np.uint8]) -> bool:
    channels = image.shape[2] if image.ndim == 3 else 1
    pixels = image.shape[1] <= 1 or image.strides[1] == channels
    return pixels and (channels == 1 or image.strides[-1] == 1)
