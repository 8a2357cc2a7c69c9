"""OpenCV: imdecode, resize straight into the padded square, planes scaled into the tensor.

Of the ways to normalise, `split` and one NumPy multiplication a plane is the fastest; it was tried
against blobFromImage, LUT, cv2.multiply, addWeighted and transposing in NumPy.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from benchmarks.preprocess import PAD, SIZE
from benchmarks.preprocess.peer import Batch, Peer, Single, Tensor, Write, one_buffer, thread_pool
from benchmarks.preprocess.placement import letterbox

_SCALE = np.float32(1 / 255)


def writer() -> Write:
    """The function for any number of threads: each has a square of its own."""
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
    """An image a thread."""
    return thread_pool(writer(), threads)


PEER = Peer(
    "OpenCV", "imdecode, resize INTER_LINEAR into the square, split, multiply", single, batch
)
