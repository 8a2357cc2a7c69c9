"""How a client asks on each way: a function that sends one request and gives the answer read."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from benchmarks.clients.drivers import Ask, AskLater
from benchmarks.clients.ready_tensor import ready_tensor, tensor_of_file
from benchmarks.clients.ways import Way
from benchmarks.pipelines.answers import Answer
from endcap.client import (
    AsyncDetectionClient,
    Connection,
    ConnectionOptions,
    DetectionClient,
    ImageResult,
    parse_address,
)

_TIMEOUT_S = 60.0


@contextmanager
def open_way(way: Way, address: str, image: bytes, concurrency: int) -> Iterator[Ask]:
    """A way for threads: `concurrency` of them may call what this gives.

    Args:
        address: HOST:PORT of the way's protocol.
    """
    if way.sends == "tensor":
        make_way = ready_tensor if way.comparison == "tensor" else tensor_of_file
        options = _connection_options(way)
        with (
            Connection(parse_address(address, way.protocol), options) as connection,
            make_way(way, connection, image, concurrency) as ask,
        ):
            yield ask
        return
    with DetectionClient(address, **_options(way, concurrency)) as client:
        yield lambda: _answer(client.detect_one(image))


@asynccontextmanager
async def open_way_later(
    way: Way, address: str, image: bytes, concurrency: int
) -> AsyncIterator[AskLater]:
    """The same for tasks of asyncio."""
    async with AsyncDetectionClient(address, **_options(way, concurrency)) as client:

        async def ask() -> Answer:
            return _answer(await client.detect_one(image))

        yield ask


def _options(way: Way, concurrency: int) -> dict[str, Any]:
    return {
        "protocol": way.protocol,
        "concurrency": concurrency,
        "shared_memory": way.shared_memory,
        "options": _connection_options(way),
    }


def _connection_options(way: Way) -> ConnectionOptions:
    return ConnectionOptions(timeout_s=_TIMEOUT_S, retries=0, compression=way.compression)


class AskError(Exception):
    """An image was not answered; the message is the client's."""


def _answer(result: ImageResult) -> Answer:
    if not result.ok:
        raise AskError(f"{result.status}: {result.error}")
    found = result.detections
    return Answer(
        [list(each.box) for each in found],
        [each.score for each in found],
        [each.class_id for each in found],
    )
