"""Images as arguments of a client, and their encoded bytes."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import AsyncIterable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from endcap._arrays import check_pixels, view_image
from endcap._images import is_address, pillow_pixels
from endcap.client.errors import RequestError
from endcap.errors import InvalidArgumentError
from endcap.yuv import YuvImage

Color = Literal["rgb", "bgr"]

# An encoded file: bytes-like, a 1-D uint8 array, or a path. Pixels: [H,W,3] or [H,W] uint8, or a
# Pillow image. Pixels in YUV: those of nv12() and planar_yuv().
Image: TypeAlias = (
    "bytes | bytearray | memoryview | NDArray[np.uint8] | PIL.Image.Image | YuvImage | str | "
    "os.PathLike[str]"
)


@dataclass(frozen=True)
class ImageReader:
    """Reads images as the encoded bytes that are sent.

    Encoded files are sent unmodified, pixels as JPEG, and pixels in YUV as lossless Y4M.

    Attributes:
        color: The order of the channels of pixels.
        jpeg_quality: 1 to 100.
    """

    color: Color = "rgb"
    jpeg_quality: int = 95

    def __post_init__(self) -> None:
        if self.color not in ("rgb", "bgr"):
            raise InvalidArgumentError(f"color {self.color!r} is unknown; use rgb or bgr")
        if not 1 <= self.jpeg_quality <= 100:
            raise InvalidArgumentError(f"jpeg_quality {self.jpeg_quality} is not from 1 to 100")

    def read(self, image: Image) -> bytes:
        """Return the encoded bytes of an image.

        Raises:
            RequestError: With the status "unreadable" for a file that cannot be read, and
                "invalid_argument" for an object that is not an image.
        """
        if isinstance(image, (str, os.PathLike)):
            if is_address(image):
                raise RequestError(
                    "unreadable", "an image is an address: download it, and give the bytes"
                )
            return read_file(Path(image))
        if isinstance(image, (bytes, bytearray, memoryview)):
            return bytes(image)
        try:
            if isinstance(image, YuvImage):
                return image.to_y4m()
            if isinstance(image, PIL.Image.Image):
                return self._encode(pillow_pixels(image, "rgb"))
            array = view_image(image)
            check_pixels(array.shape, array.dtype)
        except InvalidArgumentError as error:
            raise RequestError("invalid_argument", str(error)) from error
        if array.size == 0 or array.ndim > 3:
            raise RequestError(
                "invalid_argument",
                f"an image is {array.dtype} {list(array.shape)}: give the pixels of one image, "
                "[H,W,3] or [H,W]",
            )
        if array.ndim == 1:
            return array.tobytes()
        if array.ndim == 3 and array.shape[2] == 1:
            array = array[..., 0]
        return self._encode(array[..., ::-1] if self.color == "bgr" and array.ndim == 3 else array)

    def _encode(self, pixels: NDArray[np.uint8]) -> bytes:
        file = io.BytesIO()
        picture = PIL.Image.fromarray(np.ascontiguousarray(pixels))
        try:  # 4:4:4: half the colours' resolution would move edges that a detector looks at
            picture.save(file, "JPEG", quality=self.jpeg_quality, subsampling=0)
        except (OSError, ValueError) as error:
            height, width = pixels.shape[:2]
            raise RequestError(
                "invalid_argument",
                f"{width} x {height} pixels cannot be written as JPEG, whose sides end at 65535; "
                "send a smaller image",
            ) from error
        return file.getvalue()


def is_in_memory(image: Image) -> bool:
    """Whether an image is encoded and in memory, so that reading it takes no time."""
    encoded = isinstance(image, np.ndarray) and image.ndim == 1
    return encoded or isinstance(image, (bytes, bytearray, memoryview))


def image_name(image: Image, position: int) -> str:
    """Return an image's name in its result: its path, else "image N"."""
    return os.fspath(image) if isinstance(image, (str, os.PathLike)) else f"image {position}"


def refuse_single(images: Iterable[Any] | AsyncIterable[Any]) -> None:
    """Raise InvalidArgumentError for a single image instead of several."""
    types = (str, os.PathLike, bytes, bytearray, memoryview, PIL.Image.Image, YuvImage)
    holds_objects = isinstance(images, np.ndarray) and images.dtype == object
    is_array = hasattr(images, "__dlpack__") and not holds_objects
    if isinstance(images, types) or (is_array and getattr(images, "ndim", 4) < 4):
        raise InvalidArgumentError(
            "images is a single image; give a list of images, or take detect_one()"
        )


def read_file(path: Path) -> bytes:
    """Return the content of a file; raise RequestError "unreadable" if that fails."""
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            reason = "it is a pipe or a device, which may never end"
            raise OSError(errno.EINVAL, reason, str(path))
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise RequestError("unreadable", f"cannot be read: {reason}") from error
