"""The server of the shared-memory tests, and one request to it through a lease."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import endcap
from endcap.client import ConnectionOptions, Lease
from endcap.client.connection import read_items
from endcap.client.regions import FOLDER
from tests.support import jpegs
from tests.triton.client_layouts import Layout
from tests.triton.model_folders import batching, write_preprocess

SIZE = 32
SHAPE = (1, 3, SIZE, SIZE)
REGION_BYTES = 1 << 16
SLOW_S = 2.0
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


def call(lease: Lease, image: bytes, model: str = "pre") -> tuple[str, list[Any], list[Any]]:
    """A request whose input and output are in the lease's region."""
    output = lease.output("images", SHAPE, np.float32)
    return model, [lease.put_encoded("encoded", [image], (1, 1))], [output]


def own_files() -> set[str]:
    """The names of the regions of this process that there are in /dev/shm."""
    names = {path.name for path in FOLDER.iterdir() if path.name.startswith("endcap-")}
    return {name for name in names if f"-{os.getpid()}-" in name}


def infer(pool: Any, image: bytes, model: str = "pre", **options: Any) -> Any:
    """Returns a copy of the response."""
    with pool.acquire() as lease:
        result = pool.infer(lease, *call(lease, image, model), **options)
        return lease.read("images", result).copy()


class Pools:
    """Makes pools of a layout, which are closed at the end of the block."""

    def __init__(self, layout: Layout, server: Any) -> None:
        self.layout, self.server = layout, server
        self._closing = contextlib.ExitStack()

    def __enter__(self) -> Pools:
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.close()

    def __call__(self, *, timeout_s: float = 20, retries: int = 12, **settings: Any) -> Any:
        settings = {"region_bytes": REGION_BYTES, **settings}
        options = ConnectionOptions(timeout_s=timeout_s, retries=retries)
        pool = self.layout.pool(self.server, options=options, **settings)
        return self._closing.enter_context(pool)

    def registered(self, kind: str = "system") -> set[str]:
        """The names of the regions that the server has registered."""
        with self.layout.connect(self.server) as connection:
            status = connection.request(f"get_{kind}_shared_memory_status")
        return {region["name"] for region in read_items(status, "regions")}
