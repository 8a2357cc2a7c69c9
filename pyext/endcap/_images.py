"""Images as the core reads them: files, bytes, Pillow images, arrays and YUV."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from endcap import _core
from endcap._arrays import from_dlpack
from endcap._cuda_input import borrow, device_of
from endcap._device import Target
from endcap.errors import InvalidArgumentError
from endcap.yuv import YuvImage

# A bytes-like object or a 1-D uint8 array is an encoded file; [H,W] uint8 is gray pixels and
# [H,W,3] uint8 is pixels in `pixel_format`. Objects with __dlpack__ or __array__ count as arrays. A
# YuvImage is pixels in YUV.
Image: TypeAlias = Any
ImageBuffer: TypeAlias = "bytes | bytearray | memoryview | npt.NDArray[np.uint8]"
# Layout, planes, matrix and range of a YuvImage.
YuvBuffers: TypeAlias = "tuple[str, list[ImageBuffer | _core.CudaTensor], str, str]"


def open_image(image: Image, pixel_format: str, max_bytes: int) -> Image:
    """Return the bytes of a file and the pixels of a Pillow image; anything else as it is.

    Of a file longer than `max_bytes` only the beginning is read, and one byte more than that: the
    core rejects it, as it rejects such bytes.

    Raises:
        InvalidArgumentError: a path that is no file, or a Pillow image of no such pixels.
        OSError: a file that cannot be read.
    """
    if isinstance(image, (str, os.PathLike)):
        path = Path(image)
        if path.exists() and not path.is_file():  # a pipe may never end
            raise InvalidArgumentError(f"{path} is no file: give the path of an image")
        with path.open("rb") as file:
            return file.read(max_bytes + 1)
    pillow = sys.modules.get("PIL.Image")
    if pillow is not None and isinstance(image, pillow.Image):
        return _pillow_pixels(image, pixel_format)
    return image


def _pillow_pixels(image: Any, pixel_format: str) -> npt.NDArray[np.uint8]:
    if image.mode in ("I", "F") or image.mode.startswith("I;"):
        raise InvalidArgumentError(
            f"a Pillow image has the mode {image.mode}, of more than 8 bits: bring its values to 0 "
            'to 255 and convert it, for example to "L"'
        )
    if image.mode in ("L", "1"):
        return np.asarray(image.convert("L"))
    pixels = np.asarray(image.convert("RGB"))
    return pixels[..., ::-1] if pixel_format == "bgr" else pixels


def is_single_image(images: Image | Sequence[Image]) -> bool:
    """Tell one image, or an array of several, from a sequence of images."""
    return not isinstance(images, (list, tuple))


def image_count(buffers: Sequence[ImageBuffer | YuvBuffers | _core.CudaTensor]) -> int:
    """Return how many images the core sees in buffers: an only one may be a batch [N,H,W,3]."""
    if len(buffers) == 1:
        shape = tuple(getattr(buffers[0], "shape", ()))
        if len(shape) == 4:
            return int(shape[0])
    return len(buffers)


def to_buffer(image: Image) -> ImageBuffer | YuvBuffers:
    """Return a buffer of uint8 over the image's own memory where its layout allows.

    Rows may lie apart (strides are honoured); pixels that are not contiguous within a row are
    copied. Raises InvalidArgumentError for anything that is not an image.
    """
    if isinstance(image, YuvImage):
        planes: list[ImageBuffer | _core.CudaTensor] = [_to_plane(p) for p in image.planes]
        return image.layout, planes, image.matrix, image.range
    return _to_array_or_bytes(image)


def to_cuda_buffer(image: Image, target: Target) -> ImageBuffer | YuvBuffers | _core.CudaTensor:
    """Return pixels on the target's device as they lie there, and anything else as `to_buffer`.

    Encoded bytes on the device are copied to the host, for that is where decoding begins.
    """
    if isinstance(image, YuvImage):
        planes = [
            _to_plane(plane) if device_of(plane) is None else _borrow_bytes(plane, target)
            for plane in image.planes
        ]
        return image.layout, planes, image.matrix, image.range
    if device_of(image) is None:
        return _to_array_or_bytes(image)
    tensor = _borrow_bytes(image, target)
    return tensor if len(tensor.shape) != 1 else tensor.to_numpy()


def _to_array_or_bytes(image: Image) -> ImageBuffer:
    if isinstance(image, (bytes, bytearray)):
        return image
    if isinstance(image, (str, os.PathLike)):
        raise InvalidArgumentError(
            f"an image is the path {os.fspath(image)!r}: give the bytes, for example "
            "pathlib.Path(...).read_bytes()"
        )
    array = _to_array(image)
    if array.dtype != np.uint8:
        raise InvalidArgumentError(f"an image has dtype {array.dtype}: give uint8")
    if array.ndim in (2, 3) and _rows_contiguous(array):
        return array
    if array.ndim == 4 and len(array) > 0 and _rows_contiguous(array[0]):
        return array
    return np.ascontiguousarray(array)


def _to_plane(plane: Image) -> ImageBuffer:
    array = _to_array_or_bytes(plane)
    if isinstance(array, np.ndarray) and array.ndim > 1 and len(array) > 1:
        # Rows that overlap, as those of a broadcast array do.
        return array if abs(array.strides[0]) >= array[0].size else np.ascontiguousarray(array)
    return array


def _borrow_bytes(image: Image, target: Target) -> _core.CudaTensor:
    tensor = borrow(image, target, "an image")
    if tensor.type_string != "|u1":
        raise InvalidArgumentError(f"an image has dtype {np.dtype(tensor.type_string)}: give uint8")
    return tensor


def _rows_contiguous(image: npt.NDArray[np.uint8]) -> bool:
    channels = image.shape[2] if image.ndim == 3 else 1
    pixels = image.shape[1] <= 1 or image.strides[1] == channels
    return pixels and (channels == 1 or image.strides[-1] == 1)


def _to_array(image: Image) -> npt.NDArray[Any]:
    if isinstance(image, np.ndarray):
        return image
    if hasattr(image, "__dlpack__"):
        return from_dlpack(image, "an image")
    try:
        return np.asarray(image if hasattr(image, "__array__") else memoryview(image))
    except TypeError as error:
        raise InvalidArgumentError(
            f"an image is of type {type(image).__name__}: give encoded bytes, or uint8 pixels "
            "[H,W,3]"
        ) from error
