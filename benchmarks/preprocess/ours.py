"""endcap, through its public Python interface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import endcap
from benchmarks.preprocess import SIZE
from benchmarks.preprocess.peer import Batch, Peer, Single, Tensor


def single(**fields: Any) -> Single:
    """One image, one thread."""
    preprocess = endcap.Preprocessor(size=SIZE, threads=1, **fields)
    tensor = np.empty((1, 3, SIZE, SIZE), np.float32)

    def run(encoded: bytes) -> Any:
        return preprocess(encoded, out=tensor).images[0]

    return run


def batch(threads: int, **fields: Any) -> Batch:
    """Return a list of images on endcap's own threads."""
    preprocess = endcap.Preprocessor(size=SIZE, threads=threads, **fields)
    buffers: dict[int, Tensor] = {}

    def run(images: Sequence[bytes]) -> Tensor:
        count = len(images)
        if count not in buffers:
            buffers[count] = np.empty((count, 3, SIZE, SIZE), np.float32)
        preprocess(images, out=buffers[count])
        return buffers[count]

    return run


EXACT = Peer("endcap", "Preprocessor(decode='exact')", single, batch)
FAST = Peer(
    "endcap fast",
    "Preprocessor(decode='fast')",
    lambda: single(decode="fast"),
    lambda threads: batch(threads, decode="fast"),
    psnr_db=25.0,
)
