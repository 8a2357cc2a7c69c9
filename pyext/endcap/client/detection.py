"""Detection: images to batches, requests, and results in order, written once as coroutines.

`DetectionClient` drives them in threads, `AsyncDetectionClient` in an event loop.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import replace
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from endcap.client.batches import Batch, RequestFormat
from endcap.client.calls import SequenceStep
from endcap.client.concurrency import Runtime, as_async, map_unordered
from endcap.client.connection import AsyncConnection
from endcap.client.errors import ClientError, RequestError, as_request_error
from endcap.client.images import Image, is_read, refuse_single
from endcap.client.options import Address, ClientArguments, ConnectionOptions
from endcap.client.response_reader import ImageResponse, ResponseReader
from endcap.client.retry import Attempts, Deadline
from endcap.client.served_model import ServedModel, fetch_served_model
from endcap.client.shared_memory import AsyncSharedMemoryPool
from endcap.client.stream import SequenceSteps, StreamOrder, stream_results
from endcap.client.videos import Video, check_options, video_inputs, video_name
from endcap.errors import EndcapError, InvalidArgumentError, UnsupportedError
from endcap.results import ImageResult, Results, Task

Images = Iterable[Image] | AsyncIterable[Image]
Outcome = Sequence[ImageResponse | RequestError] | RequestError
C = TypeVar("C", bound="Detector")
P = ParamSpec("P")

_TRACK_IDS = "track_ids"
# Statuses of the server or the deadline, not of an image: a request per image would change nothing.
_SHARED_STATUSES = frozenset({"unavailable", "timeout", "cancelled"})


def _with_arguments_of(
    value: Callable[P, ClientArguments],
) -> Callable[[Callable[[C, ClientArguments], None]], Callable[Concatenate[C, P], None]]:
    """Let a constructor that takes a value take the arguments of the value's constructor."""

    def decorate(method: Callable[[C, ClientArguments], None]) -> Callable[Concatenate[C, P], None]:
        def initialize(self: C, /, *args: P.args, **kwargs: P.kwargs) -> None:
            method(self, value(*args, **kwargs))

        parameters = inspect.signature(value).parameters.values()
        own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
        initialize.__signature__ = inspect.Signature([own, *parameters])  # type: ignore[attr-defined]
        return initialize

    return decorate


class Detector:
    """What both clients have in common; `DetectionClient` has the documentation."""

    _runtime: ClassVar[Runtime]

    @_with_arguments_of(ClientArguments)
    def __init__(self, arguments: ClientArguments) -> None:
        self._initialize(arguments)

    @classmethod
    def from_arguments(cls: type[C], arguments: ClientArguments) -> C:
        """Return a client with these arguments; raise what the constructor does."""
        client = cls.__new__(cls)
        client._initialize(arguments)
        return client

    def _initialize(self, arguments: ClientArguments) -> None:
        self._arguments = arguments
        self._is_connected = False
        self._is_closed = False
        self._pool: AsyncSharedMemoryPool | None = None
        self._permits = self._runtime.semaphore(arguments.concurrency)
        self._request_id_prefix = arguments.request_id_prefix()
        self._request_numbers = itertools.count(1)

    def __repr__(self) -> str:
        state = ", closed" if self._is_closed else "" if self._is_connected else ", not connected"
        return f"<{type(self).__name__} of {self.model} at {self.address}{state}>"

    @property
    def address(self) -> Address:
        """The server's address."""
        return self._arguments.address

    @property
    def options(self) -> ConnectionOptions:
        """The options of the connection."""
        return self._arguments.connection

    @property
    def model(self) -> str:
        """The name of the model."""
        return self._arguments.model

    @property
    def concurrency(self) -> int:
        """The number of requests in flight at once, at the most."""
        return self._arguments.concurrency

    @property
    def task(self) -> Task:
        """The task of the model, by the outputs that it has."""
        self._check_connected()
        return self._served_model.task

    @property
    def outputs(self) -> frozenset[str]:
        """The names of the model's outputs."""
        self._check_connected()
        return frozenset(self._served_model.outputs)

    @property
    def labels(self) -> list[str] | None:
        """Class names by id, None where neither caller nor server has any."""
        self._check_connected()
        return self._labels

    async def _connect(self) -> None:
        if self._is_connected:
            raise ClientError("the client is connected already; make one for each `async with`")
        self._process = os.getpid()
        self._resources = contextlib.AsyncExitStack()
        self._connection = AsyncConnection(self.address, self.options, runtime=self._runtime)
        self._resources.push_async_callback(self._connection.close)
        arguments = self._arguments
        try:
            model = await fetch_served_model(
                self._connection, arguments.model, best_classes=arguments.classify is not None
            )
            self._prepare_requests(model)
            if arguments.shared_memory != "none":
                needed = self._request_format.region_bytes(arguments.batch)
                self._pool = AsyncSharedMemoryPool(
                    self._connection,
                    regions=arguments.regions or arguments.concurrency,
                    region_bytes=arguments.region_bytes or needed,
                    kind=arguments.shared_memory,
                )
                await self._resources.enter_async_context(self._pool)
        except BaseException:
            await self._resources.aclose()
            raise
        self._is_connected = True

    def _prepare_requests(self, model: ServedModel) -> None:
        arguments = self._arguments
        self._served_model = model
        self._labels = model.labels() if arguments.labels is None else list(arguments.labels)
        self._response_reader = ResponseReader(model, self._labels, arguments.classify)
        self._outputs = self._response_reader.wanted(extras=arguments.extras)
        self._request_format = RequestFormat(
            model, self._outputs, self._response_reader.class_counts
        )
        if arguments.batch > model.batch_limit:
            raise InvalidArgumentError(
                f"batch {arguments.batch} is above {model.batch_limit}, the most images in one "
                f"request to model '{model.name}'"
            )

    async def _end(self, *, at_once: bool = False) -> None:
        """Close the client; at_once: cancel the requests in flight."""
        if at_once and self._process == os.getpid():
            await self._connection.close()
        self._check_connected()
        if self._is_closed or self._process != os.getpid():
            return
        self._is_closed = True
        permits = 0
        try:
            while permits < self.concurrency:
                await self._permits.acquire()
                permits += 1
        finally:
            await self._resources.aclose()
            for _ in range(permits):
                self._permits.release()  # waiting calls then see that it is closed

    async def _detect(
        self, images: Images, on_result: Callable[[ImageResult], None] | None
    ) -> Results:
        self._check_usable()
        self._check_one_response()
        refuse_single(images)
        results: dict[int, list[ImageResult]] = {}
        async with contextlib.aclosing(self._run_all(images)) as finished:
            async for start, batch_results in finished:
                results[start] = batch_results
                if on_result is not None:
                    for result in batch_results:
                        on_result(result)
        return Results(result for start in sorted(results) for result in results[start])

    async def _detect_one(self, image: Image, step: SequenceStep | None) -> ImageResult:
        self._check_usable()
        self._check_one_response()
        _, (result,) = await self._run(Batch(0, [image]), step)
        return result

    def _detect_stream(
        self, images: Images, sequence: int | str | None
    ) -> AsyncGenerator[ImageResult, None]:
        refuse_single(images)
        self._check_streams()
        return self._stream_results(images, SequenceSteps(sequence), limit=self.concurrency)

    def _track(self, frames: Images, sequence: int | str) -> AsyncGenerator[ImageResult, None]:
        refuse_single(frames)
        self._check_streams()
        if _TRACK_IDS not in self._served_model.outputs:
            raise UnsupportedError(
                f"model '{self.model}' has no output {_TRACK_IDS}; name a model of sequences, such "
                "as detect_track of the shipped repository"
            )
        return self._stream_results(frames, SequenceSteps(sequence), limit=1, restarts=True)

    def _video(
        self, video: Video, options: Mapping[str, object] | None
    ) -> AsyncGenerator[ImageResult, None]:
        self._check_streams()
        if not self._served_model.reads_videos:
            raise UnsupportedError(
                f"model '{self.model}' reads no videos; name one that does, such as video of the "
                "shipped repository"
            )
        check_options(options)
        return self._video_results(video, options)

    async def _video_results(
        self, video: Video, options: Mapping[str, object] | None
    ) -> AsyncGenerator[ImageResult, None]:
        name = video_name(video)
        try:
            inputs = await self._runtime.call(video_inputs, video, options)
        except RequestError as error:
            yield self._response_reader.result(name, error)
            return
        results = self._stream_results(
            [b""],  # one request, whose inputs are known
            SequenceSteps(None),
            limit=1,
            request_format=RequestFormat(self._served_model, self._outputs, inputs=inputs),
        )
        async with contextlib.aclosing(results):
            async for result in results:
                if result.frame is not None or not result.ok:
                    yield replace(result, image=name)

    def _stream_results(
        self,
        images: Images,
        steps: SequenceSteps,
        *,
        limit: int,
        restarts: bool = False,
        request_format: RequestFormat | None = None,
    ) -> AsyncGenerator[ImageResult, None]:
        order = StreamOrder(
            request_format or self._request_format,
            self._response_reader,
            self._next_request_id,
            restarts=restarts,
        )
        reader = self._arguments.image_reader
        return stream_results(
            self._connection, order, images, reader=reader, steps=steps, limit=limit
        )

    async def _run_all(self, images: Images) -> AsyncGenerator[tuple[int, list[ImageResult]], None]:
        """Yield what `_run` returns for each batch, in order of completion."""
        size, is_endless = self._arguments.batch, True
        if isinstance(images, Collection):
            if 0 < len(images) <= size:
                yield await self._run(Batch(0, list(images)))  # one request needs no threads
                return
            is_endless = False
        batches = make_batches(images, size, lambda: is_endless and self._is_closed)
        finished = map_unordered(self._runtime, self._run, batches, self.concurrency)
        async with contextlib.aclosing(finished):
            async for each in finished:
                yield each

    async def _run(
        self, batch: Batch, step: SequenceStep | None = None
    ) -> tuple[int, list[ImageResult]]:
        """Return the position of a batch's first image, and the batch's results."""
        files: list[bytes | RequestError]
        async with self._permits:
            if self._is_closed:
                message = "the client was closed before this image was sent; make another one"
                files = [RequestError("cancelled", message)] * len(batch.images)
            elif all(map(is_read, batch.images)):
                files = batch.read(self._arguments.image_reader)
            else:
                files = await self._runtime.call(batch.read, self._arguments.image_reader)
            result, results = self._response_reader.result, dict[int, ImageResult]()
            sent = dict[int, bytes]()
            for row, (name, file) in enumerate(zip(batch.names, files, strict=True)):
                if isinstance(file, RequestError):
                    results[row] = result(name, file)
                else:
                    sent[row] = file
            if sent:
                results |= await self._request(batch.names, sent, step)
        return batch.start, [results[row] for row in sorted(results)]

    async def _request(
        self,
        names: list[str],
        files: dict[int, bytes],
        step: SequenceStep | None,
        spent_s: float = 0.0,
    ) -> dict[int, ImageResult]:
        """Return the results of a batch's files by row.

        After an error that one of them may have caused, each is sent again in its own request.
        """
        deadline = Deadline(self.options.timeout_s, spent_s)
        request_id = self._next_request_id()
        begin = time.perf_counter()
        outcome = await self._infer(list(files.values()), request_id, deadline, step)
        latency_s = time.perf_counter() - begin
        if isinstance(outcome, RequestError):
            if len(files) > 1 and outcome.status_name not in _SHARED_STATUSES:
                results: dict[int, ImageResult] = {}
                for row, file in files.items():
                    results |= await self._request(names, {row: file}, step, latency_s)
                return results
            outcome = [outcome] * len(files)
        result = self._response_reader.result
        return {
            row: result(names[row], each, latency_ms=latency_s * 1e3, request_id=request_id)
            for row, each in zip(files, outcome, strict=True)
        }

    async def _infer(
        self,
        files: Sequence[bytes],
        request_id: str,
        deadline: Deadline,
        step: SequenceStep | None,
    ) -> Outcome:
        """Return each image's part of the response, or the error of the request."""
        pool = self._pool
        retries = self._connection.retry_policy.retries() if step is None else 0
        try:
            if pool is None:
                return await self._call_model(files, request_id, deadline, step, None)
            attempts = Attempts(retries, deadline.left_s())
        except EndcapError as error:
            return as_request_error(error)
        while True:
            try:
                async with pool.acquire(deadline.left_s()) as lease:
                    return await self._call_model(files, request_id, deadline, step, lease)
            except EndcapError as error:
                failed = as_request_error(error)
            try:  # with another region: that of a lost attempt is retired
                wait_s = attempts.wait_after(failed)
            except RequestError:
                return failed
            await self._runtime.sleep(wait_s)

    async def _call_model(
        self,
        files: Sequence[bytes],
        request_id: str,
        deadline: Deadline,
        step: SequenceStep | None,
        lease: Any,
    ) -> Outcome:
        call = replace(self._request_format.call(files, request_id, lease), sequence=step)
        if self._pool is None:
            response = await self._connection.infer(call, timeout_s=deadline.left_s())
        else:
            response = await self._pool.infer(lease, call, timeout_s=deadline.left_s())
        tensors = self._request_format.read(call, response, len(files), lease)
        # No result holds a view of shared memory, which ends with the lease.
        return [self._response_reader.try_read(each) for each in tensors]

    def _next_request_id(self) -> str:
        return f"{self._request_id_prefix}-{next(self._request_numbers)}"

    def _check_connected(self) -> None:
        if not self._is_connected:
            raise ClientError("the client is not connected; use it inside `async with`")

    def _check_usable(self) -> None:
        """Raise ClientError where the client is not connected, closed, or another process's."""
        self._check_connected()
        if self._is_closed:
            raise ClientError("this client is closed; make another one")
        if self._process != os.getpid():
            raise ClientError(
                f"this client was made by process {self._process}, before a fork, which its "
                "connection does not survive; make a client in each process"
            )

    def _check_one_response(self) -> None:
        """Raise UnsupportedError for a model that may send several responses to a request."""
        if self._served_model.decoupled:
            raise UnsupportedError(
                f"model '{self.model}' is decoupled, it may send several responses to an image; "
                "call detect_stream() (`endcap infer --stream`)"
            )

    def _check_streams(self) -> None:
        """Raise UnsupportedError where the client's arguments rule a stream out."""
        self._check_usable()
        if self.address.protocol != "grpc":
            raise UnsupportedError("Triton has streams over gRPC only; give its gRPC address")
        if self._arguments.shared_memory != "none":
            raise UnsupportedError(
                "a stream cannot use shared memory; leave shared_memory out, or call detect() "
                "(`endcap infer` without --stream)"
            )
        if self._arguments.batch > 1:
            raise UnsupportedError(
                f"a stream sends each image by itself, and batch is {self._arguments.batch}; leave "
                "batch out, or call detect() (`endcap infer` without --stream)"
            )


async def make_batches(
    images: Images, size: int, stop: Callable[[], bool]
) -> AsyncGenerator[Batch, None]:
    """Yield batches of `size` images; end after a batch where `stop` returns True."""
    start, taken = 0, list[Image]()
    async with contextlib.aclosing(as_async(images)) as source:
        async for image in source:
            taken.append(image)
            if len(taken) == size:
                yield Batch(start, taken)
                start, taken = start + size, []
                if stop():
                    return
    if taken:
        yield Batch(start, taken)
