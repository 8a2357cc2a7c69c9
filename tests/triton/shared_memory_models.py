"""The server of the shared-memory tests, and one request to it through a lease."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import endcap
from endcap.client import (
    AsyncSharedMemoryPool,
    ConnectionOptions,
    Lease,
    SharedMemoryPool,
)
from endcap.client.connection import Connection, read_items
from endcap.client.options import Protocol, parse_address
from endcap.client.regions import FOLDER
from tests.support import jpegs
from tests.triton.connection_calls import use
from tests.triton.model_folders import batching, write_preprocess

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


class LoopPool:
    """An AsyncSharedMemoryPool for threads: each call is a task of an event loop."""

    def __init__(self, loop: Any, url: str, **settings: Any) -> None:
        self._loop = loop
        self.pool = self.run(self._open(url, settings))

    @staticmethod
    async def _open(url: str, settings: dict[str, Any]) -> AsyncSharedMemoryPool:
        return await AsyncSharedMemoryPool(url, **settings).__aenter__()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    @property
    def names(self) -> list[str]:
        return self.pool.names

    @contextlib.contextmanager
    def acquire(self, timeout_s: float | None = None) -> Iterator[Lease]:
        block = self.pool.acquire(timeout_s)
        lease = self.run(block.__aenter__())
        try:
            yield lease
        finally:
            self.run(block.__aexit__(None, None, None))

    def infer(self, *arguments: Any, **options: Any) -> Any:
        return self.run(self.pool.infer(*arguments, **options))

    def close(self) -> None:
        self.run(self.pool.close())


class Pools:
    """Makes pools, "sync" or "async", which are closed at the end of the block."""

    def __init__(self, kind: str, authority: str, protocol: Protocol) -> None:
        self.kind = kind
        self.url = f"{protocol}://{authority}"

    def __enter__(self) -> Pools:
        self._closing = contextlib.ExitStack()
        self.loop = asyncio.new_event_loop()
        thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        thread.start()
        self._closing.callback(self.loop.close)
        self._closing.callback(thread.join)
        self._closing.callback(self.loop.call_soon_threadsafe, self.loop.stop)
        return self

    def __exit__(self, *exception: object) -> None:
        self._closing.close()

    def __call__(self, *, timeout_s: float = 20, retries: int = 12, **settings: Any) -> Any:
        settings = {"region_bytes": REGION_BYTES, **settings}
        settings["options"] = ConnectionOptions(timeout_s=timeout_s, retries=retries)
        pool: Any
        if self.kind == "sync":
            pool = SharedMemoryPool(self.url, **settings)
        else:
            pool = LoopPool(self.loop, self.url, **settings)
        self._closing.callback(pool.close)
        return pool

    def registered(self, kind: str = "system") -> set[str]:
        """The names of the regions that the server has registered."""

        async def work(connection: Connection) -> set[str]:
            status = await connection.request(f"get_{kind}_shared_memory_status")
            return {region["name"] for region in read_items(status, "regions")}

        return use(parse_address(self.url), "sync", work)

    def unregister(self, names: list[str]) -> None:
        """Unregister regions, as examples of other clients do first."""

        async def work(connection: Connection) -> None:
            for name in names:
                await connection.request("unregister_system_shared_memory", name=name)

        use(parse_address(self.url), "sync", work)
