"""Requests of each transport: functions that send one request and return its detections."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clients.transports import Transport
from benchmarks.paths import ROOT
from benchmarks.pipelines import NUM_CLASSES, SCORE_THRESHOLD
from benchmarks.pipelines.responses import Response
from benchmarks.preprocess import SIZE
from benchmarks.server.verify import VerificationError
from endcap import Postprocessor, Preprocessor, PreprocessResult, preprocess
from endcap.client import (
    AsyncDetectionClient,
    Call,
    Connection,
    ConnectionOptions,
    DetectionClient,
    ImageResult,
    InputTensor,
    OutputTensor,
    SharedMemoryPool,
    parse_address,
)

Send = Callable[[], Response]
AsyncSend = Callable[[], Awaitable[Response]]
IMAGE = ROOT / "model_repository" / "detect" / "samples" / "shapes_1920x1080.jpg"


def tensor(image: bytes) -> PreprocessResult:
    """Return the tensor of a file and its geometry, as the shipped `preprocess` makes them."""
    return preprocess(image, preset="ultralytics", size=SIZE)


_MODEL = "detector"
_HEAD_SHAPE = (1, 4 + NUM_CLASSES, 8400)
_ALIGNED = 4096  # more than two tensors lose by their alignment


class _Heads:
    """The output of the network, and the detections in it."""

    def __init__(self, geometry: NDArray[np.float32]) -> None:
        self._geometry = geometry
        self._first: tuple[NDArray[Any], Response] | None = None

    def read(self, head: Any) -> Response:
        """Return the detections; raise VerificationError for another head than the first."""
        if self._first is None:
            self._first = (np.array(head), self._detections(head))
        first, response = self._first
        if not np.array_equal(head, first):
            raise VerificationError("a head under load is not the first one")
        return response

    def _detections(self, head: Any) -> Response:
        postprocess = Postprocessor(
            "yolov8", num_classes=NUM_CLASSES, score_threshold=SCORE_THRESHOLD
        )
        found: Any = postprocess(head, self._geometry)
        found = found[0]
        return Response(found.boxes.tolist(), found.scores.tolist(), found.class_ids.tolist())


@contextmanager
def ready_tensor(
    transport: Transport, connection: Connection, image: bytes, concurrency: int
) -> Iterator[Send]:
    """Yield what threads may call, `concurrency` of them at once."""
    made = tensor(image)
    heads = _Heads(made.geometry)
    if transport.shared_memory == "none":
        call = Call(_MODEL, [InputTensor.of("images", made.images)], [OutputTensor("head")])
        yield lambda: heads.read(connection.infer(call).tensors["head"])
        return
    size = made.images.nbytes + 4 * int(np.prod(_HEAD_SHAPE)) + _ALIGNED
    with SharedMemoryPool(
        connection, regions=concurrency, region_bytes=size, kind=transport.shared_memory
    ) as pool:

        def send() -> Response:
            with pool.acquire() as lease:
                images = lease.put("images", made.images)
                head = lease.output("head", _HEAD_SHAPE, np.float32)
                response = pool.infer(lease, Call(_MODEL, [images], [head]))
                return heads.read(lease.read(head, response))

        yield send


@contextmanager
def tensor_of_file(
    transport: Transport, connection: Connection, image: bytes, concurrency: int
) -> Iterator[Send]:
    """Yield the same from a file, which is decoded and resized here, to detections."""
    preprocess = Preprocessor("ultralytics", size=SIZE)
    postprocess = Postprocessor("yolov8", num_classes=NUM_CLASSES, score_threshold=SCORE_THRESHOLD)

    def read(head: Any, geometry: NDArray[np.float32]) -> Response:
        detections: Any = postprocess(head, geometry)
        first = detections[0]
        return Response(first.boxes.tolist(), first.scores.tolist(), first.class_ids.tolist())

    if transport.shared_memory == "none":

        def send() -> Response:
            made = preprocess(image)
            call = Call(_MODEL, [InputTensor.of("images", made.images)], [OutputTensor("head")])
            return read(connection.infer(call).tensors["head"], made.geometry)

        yield send
        return
    shape = preprocess(image).images.shape
    size = 4 * (int(np.prod(shape)) + int(np.prod(_HEAD_SHAPE))) + _ALIGNED
    with SharedMemoryPool(
        connection, regions=concurrency, region_bytes=size, kind=transport.shared_memory
    ) as pool:

        def send_shared() -> Response:
            with pool.acquire() as lease:
                tensor, images = lease.empty("images", shape, np.float32)
                made = preprocess(image, out=tensor)
                head = lease.output("head", _HEAD_SHAPE, np.float32)
                response = pool.infer(lease, Call(_MODEL, [images], [head]))
                return read(lease.read(head, response), made.geometry)

        yield send_shared


_TIMEOUT_S = 60.0


@contextmanager
def open_transport(
    transport: Transport, address: str, image: bytes, concurrency: int
) -> Iterator[Send]:
    """Yield the function that sends one request, for threads.

    Args:
        transport: What to send, and how.
        address: HOST:PORT of the transport's protocol.
        image: The encoded file.
        concurrency: How many threads call it at once.
    """
    if transport.sends == "tensor":
        make_call = ready_tensor if transport.comparison == "tensor" else tensor_of_file
        options = _connection_options(transport)
        with (
            Connection(parse_address(address, transport.protocol), options) as connection,
            make_call(transport, connection, image, concurrency) as send,
        ):
            yield send
        return
    with DetectionClient(address, **_options(transport, concurrency)) as client:
        yield lambda: _respond(client.detect_one(image))


@asynccontextmanager
async def open_async(
    transport: Transport, address: str, image: bytes, concurrency: int
) -> AsyncIterator[AsyncSend]:
    """Yield the same for tasks of asyncio."""
    async with AsyncDetectionClient(address, **_options(transport, concurrency)) as client:

        async def send() -> Response:
            return _respond(await client.detect_one(image))

        yield send


def _options(transport: Transport, concurrency: int) -> dict[str, Any]:
    return {
        "protocol": transport.protocol,
        "concurrency": concurrency,
        "shared_memory": transport.shared_memory,
        "options": _connection_options(transport),
    }


def _connection_options(transport: Transport) -> ConnectionOptions:
    return ConnectionOptions(timeout_s=_TIMEOUT_S, retries=0, compression=transport.compression)


class FailedRequestError(Exception):
    """The request of an image failed; the message is the client's."""


def _respond(result: ImageResult) -> Response:
    if not result.ok:
        raise FailedRequestError(f"{result.status}: {result.error}")
    found = result.detections
    return Response(
        [list(each.box) for each in found],
        [each.score for each in found],
        [each.class_id for each in found],
    )
