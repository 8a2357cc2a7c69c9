"""Instance masks in COCO's compressed run-length encoding (RLE)."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

import endcap._core as _core
from endcap._arrays import empty, require_host
from endcap.errors import InvalidArgumentError


def encode_rle(mask: npt.ArrayLike) -> bytes:
    """Encode a mask by run lengths (RLE).

    Args:
        mask: [H, W] booleans or numbers; a pixel that is not 0 is inside.

    Returns:
        COCO's compressed ``counts``, equal to ``pycocotools.mask.encode(mask)["counts"]``. The size
        is not part of it.

    Raises:
        InvalidArgumentError: no two axes, or 2^32 pixels or more.
    """
    require_host(mask, "mask")
    pixels = np.asarray(mask)
    if pixels.ndim != 2 or pixels.dtype.kind not in "biuf":
        raise InvalidArgumentError(
            f"mask is {pixels.dtype} of shape {list(pixels.shape)}: give [H, W] booleans or numbers"
        )
    inside = pixels if pixels.dtype == np.bool_ else pixels != 0
    return _core.encode_rle(np.ascontiguousarray(inside.T).view(np.uint8))


def decode_rle(
    rle: bytes | str, size: tuple[SupportsIndex, SupportsIndex]
) -> npt.NDArray[np.bool_]:
    """Decode a mask from its RLE.

    Args:
        rle: COCO's compressed ``counts``, as encode_rle or pycocotools writes them.
        size: height and width of the mask, as in the ``size`` next to such counts.

    Returns:
        bool [H, W], True inside. In memory the columns lie one after the other.

    Raises:
        InvalidArgumentError: not such an RLE, or not that of a mask of that size.
        OutOfMemoryError: not enough memory for the mask.
    """
    if isinstance(rle, str):
        rle = rle.encode("utf-8")
    if not isinstance(rle, bytes):
        raise InvalidArgumentError(f"rle is of type {type(rle).__name__}: give bytes or a string")
    height, width = _sides(size)
    columns = empty((width, height), np.dtype(np.uint8))
    _core.decode_rle(rle, columns)
    return columns.view(np.bool_).T


def _sides(size: tuple[SupportsIndex, SupportsIndex]) -> tuple[int, int]:
    try:
        height, width = (operator.index(side) for side in size)
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"size is {size!r}: give height and width") from None
    if height < 0 or width < 0:
        raise InvalidArgumentError(f"size is {size!r}: sides cannot be negative")
    return height, width


def pad_rle(rle: Sequence[Sequence[bytes]], rows: int) -> npt.NDArray[np.object_]:
    """Return the RLE of B images as a tensor of bytes [B, rows], empty without a mask."""
    padded = np.full((len(rle), rows), b"", np.object_)
    for row, masks in zip(padded, rle, strict=True):
        row[: len(masks)] = masks
    return padded
