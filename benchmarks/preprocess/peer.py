"""A peer as the harness calls it, and the letterbox arithmetic that the peers share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.preprocess import SIZE

Tensor = npt.NDArray[np.float32]
# Fills the tensor [3, SIZE, SIZE] that it gives; the next call may fill the same one again.
Single = Callable[[bytes], Any]
# The same for a list of images: [N, 3, SIZE, SIZE].
Batch = Callable[[Sequence[bytes]], Any]
Write = Callable[[bytes, Tensor], object]


@dataclass(frozen=True)
class Peer:
    """One library's way from JPEG bytes to the tensor.

    Attributes:
        single: Makes the function for one image at a time on one thread; imports the library.
        batch: Makes the function for many images on so many threads.
        compared_with: The parameters of endcap whose tensor this one is verified against.
        psnr_db: How near it must come; None asks for equal 8-bit steps, as verify.py says.
    """

    name: str
    method: str
    single: Callable[[], Single]
    batch: Callable[[int], Batch]
    compared_with: tuple[tuple[str, object], ...] = ()
    psnr_db: float | None = None


def one_buffer(write: Write) -> Single:
    """Return a peer that writes into a tensor, with one tensor for all calls."""
    tensor = np.empty((3, SIZE, SIZE), np.float32)

    def run(encoded: bytes) -> Tensor:
        write(encoded, tensor)
        return tensor

    return run


def thread_pool(write: Write, threads: int) -> Batch:
    """Return a peer whose library releases the GIL, on a pool of Python threads."""
    pool = ThreadPoolExecutor(threads)
    buffers: dict[int, npt.NDArray[np.float32]] = {}

    def run(batch: Sequence[bytes]) -> npt.NDArray[np.float32]:
        count = len(batch)
        if count not in buffers:
            buffers[count] = np.empty((count, 3, SIZE, SIZE), np.float32)
        tensors = buffers[count]
        list(pool.map(write, batch, tensors))
        return tensors

    return run


@dataclass(frozen=True)
class Placement:
    """A resized picture inside the square, in pixels."""

    width: int
    height: int
    left: int
    top: int

    @property
    def rows(self) -> slice:
        """Rows of the square that the picture covers."""
        return slice(self.top, self.top + self.height)

    @property
    def columns(self) -> slice:
        """Columns of the square that the picture covers."""
        return slice(self.left, self.left + self.width)


def letterbox(width: int, height: int) -> Placement:
    """As ultralytics' LetterBox does it: sizes rounded, an odd pixel of padding goes behind."""
    ratio = min(SIZE / width, SIZE / height)
    new_width, new_height = round(width * ratio), round(height * ratio)
    return Placement(
        width=new_width,
        height=new_height,
        left=round((SIZE - new_width) / 2 - 0.1),
        top=round((SIZE - new_height) / 2 - 0.1),
    )
