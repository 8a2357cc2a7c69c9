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
    AsyncConnection,
    AsyncSharedMemoryPool,
    Call,
    Connection,
    ConnectionOptions,
    Lease,
    OutputTensor,
    SharedMemoryPool,
    parse_address,
)
from endcap.client.lease import FOLDER
from tests.support import jpegs
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


def call(lease: Lease, image: bytes, model: str = "pre") -> tuple[Call, OutputTensor]:
    """A request whose input and output are in the lease's region."""
    output = lease.output("images", SHAPE, np.float32)
    return Call(model, [lease.put_encoded("encoded", [image], (1, 1))], [output]), output


def own_files() -> set[str]:
    """The names of the regions of this process that there are in /dev/shm."""
    names = {path.name for path in FOLDER.iterdir() if path.name.startswith("endcap-")}
    return {name for name in names if f"-{os.getpid()}-" in name}


def infer(pool: Any, image: bytes, model: str = "pre", **options: Any) -> Any:
    """Returns a copy of the response."""
    with pool.acquire() as lease:
        request, output = call(lease, image, model)
        return lease.read(output, pool.infer(lease, request, **options)).copy()


class LoopPool:
    """An AsyncSharedMemoryPool for threads: each call is a task of an event loop."""

    def __init__(self, connection: AsyncConnection, loop: Any, **settings: Any) -> None:
        self._loop = loop
        self.pool = self.run(AsyncSharedMemoryPool.create(connection, **settings))

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

    def __init__(self, kind: str, authority: str, protocol: Any) -> None:
        self.kind = kind
        self._address = parse_address(authority, protocol)

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
        options = ConnectionOptions(timeout_s=timeout_s, retries=retries)
        pool: Any
        if self.kind == "sync":
            connection = self._closing.enter_context(Connection(self._address, options))
            pool = SharedMemoryPool(connection, **settings)
        else:
            own = AsyncConnection(self._address, options)
            pool = LoopPool(own, self.loop, **settings)
            self._closing.callback(lambda: pool.run(own.close()))
        self._closing.callback(pool.close)
        return pool

    def connect(self) -> Connection:
        """Return another connection to the server."""
        return Connection(self._address, ConnectionOptions(timeout_s=20))

    def registered(self) -> dict[str, str]:
        """What the server has registered."""
        with self.connect() as connection:
            return connection.registered("system")

    def unregister(self, names: list[str]) -> None:
        """Unregister regions, as examples of other clients do first."""
        with self.connect() as connection:
            for name in names:
                connection.unregister_shared("system", name)
