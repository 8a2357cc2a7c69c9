"""torchvision: decode_jpeg, its uint8 resize, scaled into the padded tensor."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from benchmarks.preprocess import PAD
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


def writer() -> Write:
    """Return the function for any number of threads."""
    import torch
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms.v2 import InterpolationMode, functional

    torch.set_num_threads(1)
    # The file's bytes are read-only, and only read.
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")

    def write(encoded: bytes, tensor: Tensor) -> None:
        data = torch.from_numpy(np.frombuffer(encoded, np.uint8))
        picture = decode_jpeg(data, mode=ImageReadMode.RGB, apply_exif_orientation=True)
        place = letterbox(picture.shape[2], picture.shape[1])
        resized: Any = functional.resize(
            picture, [place.height, place.width], InterpolationMode.BILINEAR, antialias=False
        )
        out = torch.from_numpy(tensor)
        out[:, : place.top] = PAD / 255
        out[:, place.rows.stop :] = PAD / 255
        out[:, place.rows, : place.left] = PAD / 255
        out[:, place.rows, place.columns.stop :] = PAD / 255
        torch.mul(resized, 1 / 255, out=out[:, place.rows, place.columns])

    return write


def single() -> Single:
    """One image at a time."""
    return one_buffer(writer())


def batch(threads: int) -> Batch:
    """Return an image a thread."""
    return thread_pool(writer(), threads)


PEER = Peer(
    "torchvision", "decode_jpeg, v2 resize antialias=False, mul", single, batch, psnr_db=50.0
)
