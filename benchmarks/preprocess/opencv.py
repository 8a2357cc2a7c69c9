"""OpenCV, twice: the fastest code that was found, and the code that people write.

The fastest resizes straight into a padded square that it keeps, and scales planes into a tensor
that it keeps. Of the ways to normalise, `split` and one NumPy multiplication a plane is the
fastest; it was tried against blobFromImage, LUT, cv2.multiply, addWeighted and transposing in
NumPy.

The plain code is that of most Python-backend models: imdecode, resize, copyMakeBorder, the channels
reversed, transposed and divided by 255, each step with an array of its own.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from benchmarks.preprocess import PAD, SIZE
from benchmarks.preprocess.peer import (
    Batch,
    Peer,
    Single,
    Tensor,
    Write,
    letterbox,
    one_buffer,
    thread_pool,
)

_SCALE = np.float32(1 / 255)


def writer() -> Write:
    """Return the function for any number of threads: each has a square of its own."""
    import cv2

    cv2.setNumThreads(1)  # the threads, where there are some, take an image each
    local = threading.local()

    def write(encoded: bytes, tensor: Tensor) -> None:
        if not hasattr(local, "square"):
            local.square = np.empty((SIZE, SIZE, 3), np.uint8)
        square: Any = local.square
        picture = cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR)
        place = letterbox(picture.shape[1], picture.shape[0])
        _pad_around(square, place.rows, place.columns)
        inside = square[place.rows, place.columns]
        size = (place.width, place.height)
        cv2.resize(picture, size, dst=inside, interpolation=cv2.INTER_LINEAR)
        for plane, out in zip(cv2.split(square), tensor[::-1], strict=True):
            np.multiply(plane, _SCALE, out=out, dtype=np.float32)

    return write


def _pad_around(square: Any, rows: slice, columns: slice) -> None:
    square[: rows.start] = PAD
    square[rows.stop :] = PAD
    square[rows, : columns.start] = PAD
    square[rows, columns.stop :] = PAD


def single() -> Single:
    """One image at a time."""
    return one_buffer(writer())


def batch(threads: int) -> Batch:
    """Return an image a thread."""
    return thread_pool(writer(), threads)


def write_plainly(encoded: bytes, tensor: Tensor) -> None:
    """One image by the plain code."""
    import cv2

    cv2.setNumThreads(1)
    letterbox_plainly(cv2.imdecode(np.frombuffer(encoded, np.uint8), cv2.IMREAD_COLOR), tensor)


def letterbox_plainly(picture: Any, tensor: Tensor) -> None:
    """Its second half: a decoded picture, BGR [H, W, 3], into the tensor."""
    import cv2

    place = letterbox(picture.shape[1], picture.shape[0])
    if (place.width, place.height) != (picture.shape[1], picture.shape[0]):
        picture = cv2.resize(picture, (place.width, place.height), interpolation=cv2.INTER_LINEAR)
    borders = (
        place.rows.start,
        SIZE - place.rows.stop,
        place.columns.start,
        SIZE - place.columns.stop,
    )
    square = cv2.copyMakeBorder(picture, *borders, cv2.BORDER_CONSTANT, value=(PAD, PAD, PAD))
    planes = np.ascontiguousarray(square[..., ::-1].transpose(2, 0, 1))
    tensor[...] = planes.astype(np.float32) / 255


PLAIN = Peer(
    "OpenCV plain",
    "imdecode, resize INTER_LINEAR, copyMakeBorder, transpose, / 255",
    lambda: one_buffer(write_plainly),
    lambda threads: thread_pool(write_plainly, threads),
)
PEER = Peer(
    "OpenCV", "imdecode, resize INTER_LINEAR into the square, split, multiply", single, batch
)
