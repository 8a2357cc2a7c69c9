"""The server of the shared-memory tests, and one request to it through a lease."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jpegs
import numpy as np
from model_folders import batching, write_preprocess
from numpy.typing import NDArray

import endcap
from endcap.client import Lease, SharedMemoryPool
from endcap.client.calls import Call, OutputTensor
from endcap.client.regions.region import FOLDER, is_ours

SIZE = 32
SHAPE = (1, 3, SIZE, SIZE)
REGION_BYTES = 1 << 16
SLOW_S = 0.8
OPTIONS = ("--model-control-mode=explicit", "--load-model=*")

IMAGE = jpegs.photo_jpeg(40, 50)
OTHER = jpegs.photo_jpeg(60, 50, seed=1)


def write_all(folder: Path) -> None:
    """`pre` responds at once; `slow` waits SLOW_S for other requests to join the first."""
    parameters = {"preset": "ultralytics", "size": f"{SIZE},{SIZE}"}
    write_preprocess(folder, "pre", max_batch_size=8, parameters=parameters)
    more = batching(int(SLOW_S * 1e6))
    write_preprocess(folder, "slow", max_batch_size=8, parameters=parameters, more=more)


def expected(image: bytes) -> NDArray[np.float32]:
    """The output of both models for an image."""
    return np.asarray(endcap.preprocess(image, size=SIZE).images, np.float32)


def call(lease: Lease, image: bytes, model: str = "pre") -> tuple[Call, OutputTensor]:
    """A request whose input and output are in the lease's region."""
    output = lease.output("images", SHAPE, np.float32)
    return Call(model, [lease.put_encoded("encoded", [image], (1, 1))], [output]), output


def files() -> set[str]:
    """The names of all regions of pools that there are in /dev/shm."""
    return {path.name for path in FOLDER.iterdir() if is_ours(path.name)}


def infer(pool: SharedMemoryPool, image: bytes, model: str = "pre", **options: Any) -> Any:
    """Returns a copy of the response."""
    with pool.acquire() as lease:
        request, output = call(lease, image, model)
        return lease.read(output, pool.infer(lease, request, **options)).copy()
