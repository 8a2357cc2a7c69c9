"""Failure classes: one exception type and one status code for each.

The codes are those of the ``status`` tensor and of ``endcap/error.h``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any


class Status(IntEnum):
    """Status of one image; the values of the ``status`` tensor (int32)."""

    OK = 0
    CORRUPT_IMAGE = 1
    IMAGE_LIMIT = 2
    UNSUPPORTED = 3
    INVALID_ARGUMENT = 4
    CUDA = 5
    OUT_OF_MEMORY = 6
    INTERNAL = 7

    @property
    def label(self) -> str:
        """The name in lower case, for example ``corrupt_image``."""
        return self.name.lower()


class EndcapError(Exception):
    """Base of every error that endcap raises on purpose. ``status`` is its code."""

    status: Status = Status.INTERNAL


class CorruptImageError(EndcapError, ValueError):
    """Not an image, truncated, or damaged data."""

    status = Status.CORRUPT_IMAGE


class ImageLimitError(EndcapError, ValueError):
    """Beyond a limit on files.

    ``max_pixels``, ``max_side``, ``max_bytes``, ``max_scans``, ``max_coefficient_bytes`` or
    ``max_decoded_bytes``.
    """

    status = Status.IMAGE_LIMIT


class UnsupportedError(EndcapError, NotImplementedError):
    """Well-formed, but of a kind that this build cannot process."""

    status = Status.UNSUPPORTED


class InvalidArgumentError(EndcapError, ValueError):
    """A parameter, shape, dtype or value that cannot be used."""

    status = Status.INVALID_ARGUMENT


class CudaError(EndcapError, RuntimeError):
    """No usable GPU, or a CUDA call failed."""

    status = Status.CUDA


class OutOfMemoryError(EndcapError, MemoryError):
    """The host or the device ran out of memory."""

    status = Status.OUT_OF_MEMORY


class ServerError(EndcapError, RuntimeError):
    """A Triton server was not found, did not start, or ended by itself.

    The message says what was found and what to do next.
    """


class VideoError(EndcapError, RuntimeError):
    """A video that cannot be opened, read or written; the message says what to do."""

    status = Status.CORRUPT_IMAGE


_CLASSES: dict[Status, type[EndcapError]] = {
    cls.status: cls
    for cls in (
        CorruptImageError,
        ImageLimitError,
        UnsupportedError,
        InvalidArgumentError,
        CudaError,
        OutOfMemoryError,
    )
}


def error_for_status(status: int, message: str) -> EndcapError:
    """Return the error that stands for a status code other than 0, holding ``message``."""
    return _CLASSES.get(Status(status), EndcapError)(message)


def raise_first(items: Sequence[tuple[Any, ...]]) -> None:
    """Raise the error of the first image that failed; an item begins with status and message."""
    for index, (status, message, *_) in enumerate(items):
        if status != 0:
            place = f"image index {index} of {len(items)}: " if len(items) > 1 else ""
            raise error_for_status(status, place + message)
