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

from endcap.client.errors import RequestError
from endcap.errors import InvalidArgumentError

Color = Literal["rgb", "bgr"]

# An encoded file: bytes-like, a 1-D uint8 array, or a path. Pixels: [H,W,3] or [H,W] uint8.
Image: TypeAlias = "bytes | bytearray | memoryview | NDArray[np.uint8] | str | os.PathLike[str]"


@dataclass(frozen=True)
class ImageReader:
    """Reads images as the encoded bytes that are sent.

    Encoded files are sent as they are, pixels as JPEG.

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
                "invalid_argument" for an object that is no image.
        """
        if isinstance(image, (str, os.PathLike)):
            return _read_file(Path(image))
        if isinstance(image, (bytes, bytearray, memoryview)):
            return bytes(image)
        if not isinstance(image, np.ndarray):
            raise _refused(f"an image is of type {type(image).__name__}; give bytes, a path or an")
        if image.dtype != np.uint8 or not _is_image(image):
            raise _refused(f"an image is an array {image.dtype} {list(image.shape)}; give an")
        if image.ndim == 1:
            return image.tobytes()
        pixels = image[..., ::-1] if self.color == "bgr" and image.ndim == 3 else image
        return self._encoded(pixels)

    def _encoded(self, pixels: NDArray[np.uint8]) -> bytes:
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


def is_read(image: Image) -> bool:
    """Whether an image is encoded and in memory, so that reading it takes no time."""
    encoded = isinstance(image, np.ndarray) and image.ndim == 1
    return encoded or isinstance(image, (bytes, bytearray, memoryview))


def name_of(image: Image, position: int) -> str:
    """Return an image's name in its result: its path, else "image N"."""
    return os.fspath(image) if isinstance(image, (str, os.PathLike)) else f"image {position}"


def refuse_single(images: Iterable[Any] | AsyncIterable[Any]) -> None:
    """Raise InvalidArgumentError for a single image in the place of several."""
    single = isinstance(images, (str, os.PathLike, bytes, bytearray, memoryview))
    if single or (isinstance(images, np.ndarray) and images.ndim < 4 and images.dtype != object):
        raise InvalidArgumentError(
            "images is a single image; give a list of images, or take detect_one()"
        )


def _is_image(array: NDArray[Any]) -> bool:
    return array.size > 0 and (array.ndim in (1, 2) or (array.ndim == 3 and array.shape[2] == 3))


def _read_file(path: Path) -> bytes:
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            reason = "it is a pipe or a device, which may never end"
            raise OSError(errno.EINVAL, reason, str(path))
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise RequestError("unreadable", f"cannot be read: {reason}") from error


def _refused(problem: str) -> RequestError:
    return RequestError(
        "invalid_argument",
        f"{problem} array uint8: [bytes] of an encoded file, or pixels [H,W,3] or [H,W]",
    )
