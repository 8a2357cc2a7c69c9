"""Detection: images to batches, requests, and results in order, written once as coroutines.

`DetectionClient` runs them in threads, `AsyncDetectionClient` in an event loop.
"""

from __future__ import annotations

import contextlib
import inspect
import itertools
import os
import secrets
import time
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Collection,
    Iterable,
    Mapping,
    Sequence,
)
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar

from endcap.client.concurrency import Tasks, Threads, as_async, run
from endcap.client.connection import Connection
from endcap.client.errors import ClientError, RequestError, as_request_error, capture
from endcap.client.images import Image, image_name, is_in_memory, refuse_single
from endcap.client.options import ClientArguments
from endcap.client.requests import RequestFormat, SequenceStep, Video, check_options
from endcap.client.responses import ResponseReader
from endcap.client.results import FramePosition, ImageResult, Results, Task
from endcap.client.served_model import fetch_served_model
from endcap.client.shared_memory import Pool
from endcap.errors import EndcapError, InvalidArgumentError, UnsupportedError

Images = Iterable[Image] | AsyncIterable[Image]
Outcome = dict[str, Any] | RequestError  # fields of an ImageResult, or why there are none
ReadImage = tuple[str, bytes | RequestError, bool]  # name, file, whether it is the last one sent
C = TypeVar("C", bound="Detector")
P = ParamSpec("P")

_TRACK_IDS = "track_ids"
# Statuses of the server or the deadline, not of an image: a request per image would change nothing.
_SHARED_STATUSES = frozenset({"unavailable", "timeout", "cancelled"})


def _accept_arguments(
    value: Callable[P, ClientArguments],
) -> Callable[[Callable[[C, ClientArguments], None]], Callable[Concatenate[C, P], None]]:
    """Let a constructor that takes a value take the arguments of the value's constructor."""

    def decorate(method: Callable[[C, ClientArguments], None]) -> Callable[Concatenate[C, P], None]:
        def initialize(self: C, /, *args: P.args, **kwargs: P.kwargs) -> None:
            method(self, value(*args, **kwargs))

        return initialize

    return decorate


class Detector:
    """The common part of both clients; `DetectionClient` has the documentation."""

    __signature__ = inspect.signature(ClientArguments)
    _make_runtime: ClassVar[type[Threads] | type[Tasks]]

    @_accept_arguments(ClientArguments)
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
        self.address, self.options = arguments.address, arguments.connection
        self.model, self.concurrency = arguments.model, arguments.concurrency
        self._is_connected = self._is_closed = False
        self._pool: Pool | None = None
        self._runtime = self._make_runtime(arguments.concurrency)
        self._permits = self._runtime.make_semaphore(arguments.concurrency)
        prefix = arguments.request_id
        self._request_id_prefix = secrets.token_hex(4) if prefix is None else prefix
        self._request_numbers = itertools.count(1)
        if not self._runtime.is_async:
            run(self._connect())

    def __repr__(self) -> str:
        state = ", closed" if self._is_closed else "" if self._is_connected else ", not connected"
        return f"<{type(self).__name__} of {self.model} at {self.address}{state}>"

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
        """Class names by id, None if neither the caller nor the server has them."""
        self._check_connected()
        return self._labels

    async def _connect(self) -> None:
        if self._is_connected:
            raise ClientError("the client is connected already; make one for each `async with`")
        arguments, runtime = self._arguments, self._runtime
        self._owner = os.getpid()
        async with contextlib.AsyncExitStack() as stack:
            stack.callback(runtime.close)
            self._connection = Connection(self.address, self.options, runtime)
            stack.push_async_callback(self._connection.close)
            model = await fetch_served_model(
                self._connection, arguments.model, best_classes=arguments.classify is not None
            )
            if arguments.batch > model.batch_limit:
                raise InvalidArgumentError(
                    f"batch {arguments.batch} is above {model.batch_limit}, the most images in one "
                    f"request to model '{model.name}'"
                )
            self._served_model = model
            self._labels = model.labels() if arguments.labels is None else list(arguments.labels)
            self._response_reader = ResponseReader(
                model, self._labels, arguments.classify, extras=arguments.extras
            )
            self._request_format = RequestFormat(
                model, self._response_reader.outputs, self._connection.module
            )
            if arguments.shared_memory != "none":
                needed = self._request_format.count_region_bytes(arguments.batch)
                self._pool = Pool(
                    self._connection,
                    regions=arguments.regions or arguments.concurrency,
                    region_bytes=arguments.region_bytes or needed,
                    kind=arguments.shared_memory,
                )
                stack.push_async_callback(runtime.call, self._pool.end)
                await runtime.call(self._pool.open)
            self._resources = stack.pop_all()
        self._is_connected = True

    async def _end(self, *, at_once: bool = False) -> None:
        """Close the client; at_once: cancel the requests in flight."""
        if at_once and self._owner == os.getpid():
            await self._connection.close()
        self._check_connected()
        if self._is_closed or self._owner != os.getpid():
            return
        self._is_closed = True
        permits = 0
        try:
            while permits < self.concurrency:
                await self._runtime.acquire(self._permits)
                permits += 1
        finally:
            await self._resources.aclose()
            for _ in range(permits):
                self._permits.release()  # waiting calls then see that it is closed

    # --- many images ------------------------------------------------------------------------------

    async def _detect(
        self, images: Images, *, on_result: Callable[[ImageResult], None] | None = None
    ) -> Results:
        """Return the result of each image, in the order of `images`; see `DetectionClient.detect`.

        Cancelling the task that awaits the results cancels its requests.
        """
        self._check_one_response()
        refuse_single(images)
        report = on_result or (lambda _: None)
        if isinstance(images, Collection) and len(images) <= self._arguments.batch:
            results = await self._run_one(list(images)) if len(images) else []  # no threads
            for result in results:
                report(result)
            return Results(results)
        by_start: dict[int, list[ImageResult]] = {}
        async with contextlib.aclosing(self._run_all(images)) as finished:
            async for start, results in finished:
                by_start[start] = results
                for result in results:
                    report(result)
        return Results(itertools.chain.from_iterable(by_start[n] for n in sorted(by_start)))

    async def _run_all(
        self, images: Images, ahead: Any = None
    ) -> AsyncGenerator[tuple[int, list[ImageResult]], None]:
        """Yield the results of batches with the positions of their first images, as they end.

        ahead: A semaphore, of which each batch takes a permit before it is read.
        """
        runtime, size = self._runtime, self._arguments.batch
        finished: Any = runtime.make_queue()  # results, then their number; or an exception
        jobs: set[Any] = set()
        is_stopped = False

        async def process(start: int, batch: list[Image]) -> None:
            try:
                finished.put_nowait((start, await self._process(batch, start)))
            except BaseException as error:
                finished.put_nowait(error)

        async def read() -> None:
            count, has_permit, is_last = 0, False, False
            is_unsized = not isinstance(images, Collection)
            try:
                async with contextlib.aclosing(as_async(images)) as source:
                    while not is_last:
                        if ahead is not None:
                            await runtime.acquire(ahead)
                        # An image is read when it can be sent.
                        has_permit = await runtime.acquire(self._permits)
                        if is_unsized and self._is_closed:
                            break
                        batch = await _take_images(source, size)
                        if is_stopped or not batch:
                            break
                        has_permit, is_last = False, len(batch) < size  # the permit is the job's
                        runtime.submit(process(count * size, batch), jobs, self._permits.release)
                        del batch
                        count += 1
                finished.put_nowait(count)
            except BaseException as error:
                finished.put_nowait(error)
            finally:
                if has_permit:
                    self._permits.release()

        jobs.add(runtime.start(read()))
        count, expected = 0, None
        try:
            while count != expected:
                message = await runtime.get(finished)
                if isinstance(message, BaseException):
                    raise message
                if isinstance(message, int):
                    expected = message
                else:
                    count += 1
                    yield message
        finally:
            is_stopped = True
            await runtime.stop(jobs)

    async def _run_one(
        self, images: Sequence[Image], step: SequenceStep | None = None
    ) -> list[ImageResult]:
        """Return the results of the images of one request, when there is room for it."""
        await self._runtime.acquire(self._permits)
        try:
            return await self._process(images, step=step)
        finally:
            self._permits.release()

    async def _detect_one(self, image: Image, *, step: SequenceStep | None = None) -> ImageResult:
        """Return the result of one image; see `DetectionClient.detect_one`."""
        self._check_one_response()
        (result,) = await self._run_one([image], step)
        return result

    # --- one request ------------------------------------------------------------------------------

    async def _process(
        self, images: Sequence[Image], start: int = 0, step: SequenceStep | None = None
    ) -> list[ImageResult]:
        """Return the results of a batch; start: the position of its first image."""
        files: list[bytes | RequestError]
        read = self._arguments.image_reader.read
        names = [image_name(image, start + n) for n, image in enumerate(images)]
        if self._is_closed:
            message = "the client was closed before this image was sent; make another one"
            files = [RequestError("cancelled", message)] * len(images)
        elif all(map(is_in_memory, images)):
            files = [capture(read, image) for image in images]
        else:
            files = await self._runtime.call(lambda: [capture(read, image) for image in images])
        named_files = [*zip(names, files, strict=True)]
        sent = [(name, file) for name, file in named_files if not isinstance(file, RequestError)]
        results = iter(await self._request(sent, step) if sent else ())
        return [
            self._response_reader.make_result(name, file)
            if isinstance(file, RequestError)
            else next(results)
            for name, file in named_files
        ]

    async def _request(
        self, files: Sequence[tuple[str, bytes]], step: SequenceStep | None, spent_s: float = 0.0
    ) -> list[ImageResult]:
        """Return the results of a batch's files, which have names.

        After an error that one of them may have caused, each is sent again in its own request.
        """
        outcomes, details = await self._send([file for _, file in files], step, spent_s)
        if isinstance(outcomes, RequestError):
            if len(files) > 1 and outcomes.status_name not in _SHARED_STATUSES:
                spent_s = details["latency_ms"] / 1e3
                return [
                    result
                    for file in files
                    for result in await self._request([file], step, spent_s)
                ]
            outcomes = [outcomes] * len(files)
        result = self._response_reader.make_result
        return [
            result(name, outcome, **details)
            for (name, _), outcome in zip(files, outcomes, strict=True)
        ]

    async def _send(
        self, files: Sequence[bytes], step: SequenceStep | None, spent_s: float = 0.0
    ) -> tuple[Sequence[Outcome] | RequestError, dict[str, Any]]:
        """Return what each image's part of a response holds, or the error of the request.

        Also return fields of the results: the request's id, and the time that it took.
        """
        request_id, begin = self._next_request_id(), time.perf_counter()
        requests, pool, connection = self._request_format, self._pool, self._connection
        read = self._response_reader.read

        async def attempt(left_s: float) -> list[Outcome]:
            if pool is None:
                arguments = requests.make_arguments(files, request_id, step=step)
                result = await connection.infer(arguments, left_s)
                return [capture(read, tensors) for tensors in requests.read(result, len(files))]
            end = time.monotonic() + left_s
            async with pool.lend(left_s) as lease:  # another one for each attempt
                arguments = requests.make_arguments(files, request_id, step=step, lease=lease)
                result = await pool.send(lease, arguments, max(end - time.monotonic(), 1e-3))
                # No result holds a view of shared memory, which ends with the lease.
                parts = requests.read(result, len(files), lease)
                return [capture(read, tensors) for tensors in parts]

        outcomes: Sequence[Outcome] | RequestError
        try:
            left_s = max(self.options.timeout_s - spent_s, 1e-3)
            outcomes = await connection.repeat(attempt, left_s, is_repeatable=step is None)
        except EndcapError as error:
            outcomes = as_request_error(error)
        latency_ms = (time.perf_counter() - begin) * 1e3
        return outcomes, {"request_id": request_id, "latency_ms": latency_ms}

    def _next_request_id(self) -> str:
        return f"{self._request_id_prefix}-{next(self._request_numbers)}"

    # --- streams ----------------------------------------------------------------------------------

    def _detect_stream(
        self, images: Images, *, sequence: int | str | None = None
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of images in their order; see `DetectionClient.detect_stream`."""
        self._check_streams(images, sequence)
        if sequence is None and not self._served_model.decoupled:
            return self._stream_in_order(images)
        return self._stream_one_by_one(images, sequence)

    def _track(self, frames: Images, *, sequence: int | str) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of a camera's frames in their order; see `DetectionClient.track`."""
        self._check_streams(frames, sequence)
        if _TRACK_IDS not in self._served_model.outputs:
            raise UnsupportedError(
                f"model '{self.model}' has no output {_TRACK_IDS}; name a model of sequences, such "
                "as detect_track of the shipped repository"
            )
        return self._stream_one_by_one(frames, sequence, restarts=True)

    def _video(
        self, video: Video, *, options: Mapping[str, object] | None = None
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of a video's frames in their order; see `DetectionClient.video`."""
        self._check_streams()
        if not self._served_model.reads_videos:
            raise UnsupportedError(
                f"model '{self.model}' does not read videos; name one that does, such as video of "
                "the shipped repository"
            )
        check_options(options)
        return self._stream_video(video, options)

    async def _stream_in_order(self, images: Images) -> AsyncGenerator[ImageResult, None]:
        ahead, early = self._runtime.make_semaphore(self.concurrency), dict[int, ImageResult]()
        position = 0
        async with contextlib.aclosing(self._run_all(images, ahead)) as finished:
            async for start, (result,) in finished:
                early[start] = result
                while position in early:
                    yield early.pop(position)
                    position += 1
                    ahead.release()

    async def _stream_one_by_one(
        self, images: Images, sequence: int | str | None, *, restarts: bool = False
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of images, which are sent one after the other.

        restarts: Whether the sequence begins again with the image after one whose request failed.
        """
        read_images, is_started = self._read_images(images), False
        source = read_images if sequence is None else _mark_last(read_images)
        async with contextlib.aclosing(source):
            async for name, file, is_last in source:
                if isinstance(file, RequestError):
                    yield self._response_reader.make_result(name, file)
                    continue
                step = None if sequence is None else SequenceStep(sequence, not is_started, is_last)
                is_started = True
                if self._served_model.decoupled:
                    request_id = self._next_request_id()
                    arguments = self._request_format.make_arguments([file], request_id, step=step)
                    async with contextlib.aclosing(
                        self._stream_responses(name, arguments)
                    ) as responses:
                        async for response in responses:
                            yield response
                    continue
                await self._runtime.acquire(self._permits)
                try:
                    outcomes, details = await self._send([file], step)
                finally:
                    self._permits.release()
                if isinstance(outcomes, RequestError):
                    is_started = not restarts
                    outcomes = [outcomes]
                yield self._response_reader.make_result(name, outcomes[0], **details)

    async def _read_images(self, images: Images) -> AsyncGenerator[ReadImage, None]:
        read, position = self._arguments.image_reader.read, 0
        async with contextlib.aclosing(as_async(images)) as source:
            async for image in source:
                name, position = image_name(image, position), position + 1
                if is_in_memory(image):
                    file = capture(read, image)
                else:
                    file = await self._runtime.call(capture, read, image)
                del image
                yield name, file, False

    async def _stream_video(
        self, video: Video, options: Mapping[str, object] | None
    ) -> AsyncGenerator[ImageResult, None]:
        requests, request_id = self._request_format, self._next_request_id()
        name = os.fspath(video) if isinstance(video, (str, os.PathLike)) else "video"
        try:
            arguments = await self._runtime.call(
                requests.make_video_arguments, video, options, request_id
            )
        except RequestError as error:
            yield self._response_reader.make_result(name, error)
            return
        async with contextlib.aclosing(self._stream_responses(name, arguments)) as results:
            async for result in results:
                if result.frame is not None or not result.ok:
                    yield result

    async def _stream_responses(
        self, name: str, arguments: dict[str, Any]
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of one request to a decoupled model, the last one `final`."""
        reader, begin = self._response_reader, time.perf_counter()

        def make_result(
            outcome: Outcome, frame: FramePosition | None = None, *, final: bool
        ) -> ImageResult:
            details = {"request_id": arguments["request_id"], "frame": frame, "final": final}
            latency_ms = (time.perf_counter() - begin) * 1e3
            return reader.make_result(name, outcome, latency_ms=latency_ms, **details)

        try:
            async with contextlib.aclosing(self._connection.stream(arguments)) as responses:
                async for response, is_last in responses:
                    frame = None
                    try:
                        (tensors,) = self._request_format.read(response, 1)
                        frame = reader.read_frame(tensors)
                        outcome: Outcome = reader.read_part(tensors)
                    except RequestError as error:
                        outcome = error
                        if frame is None and not is_last:  # after a video's frame others follow
                            yield make_result(outcome, final=True)
                            return
                    yield make_result(outcome, frame, final=is_last)
        except EndcapError as error:
            yield make_result(as_request_error(error), final=True)

    # --- checks -----------------------------------------------------------------------------------

    def _check_connected(self) -> None:
        if not self._is_connected:
            raise ClientError("the client is not connected; use it inside `async with`")

    def _check_usable(self) -> None:
        """Raise ClientError if the client is not connected, closed, or another process's."""
        self._check_connected()
        if self._is_closed:
            raise ClientError("this client is closed; make another one")
        if self._owner != os.getpid():
            raise ClientError(
                f"this client was made by process {self._owner}, before a fork, which its "
                "connection does not survive; make a client in each process"
            )

    def _check_one_response(self) -> None:
        """Raise UnsupportedError for a model that may send several responses to a request."""
        self._check_usable()
        if self._served_model.decoupled:
            raise UnsupportedError(
                f"model '{self.model}' is decoupled, it may send several responses to an image; "
                "call detect_stream()"
            )

    def _check_streams(self, images: Images = (), sequence: int | str | None = None) -> None:
        """Raise an error if these images cannot be streamed, before the first one is read."""
        refuse_single(images)
        if sequence is not None:
            SequenceStep(sequence)
        self._check_usable()
        if self.address.protocol != "grpc":
            raise UnsupportedError("Triton has streams over gRPC only; give its gRPC address")
        if self._arguments.shared_memory != "none":
            raise UnsupportedError(
                "a stream cannot use shared memory; leave shared_memory out, or call detect()"
            )
        if self._arguments.batch > 1:
            raise UnsupportedError(
                f"a stream sends each image by itself, and batch is {self._arguments.batch}; leave "
                "batch out, or call detect()"
            )


async def _take_images(source: AsyncIterator[Image], count: int) -> list[Image]:
    """Return the next images, fewer than `count` at the end."""
    images: list[Image] = []
    async for image in source:
        images.append(image)
        if len(images) == count:
            break
    return images


async def _mark_last(images: AsyncGenerator[ReadImage, None]) -> AsyncGenerator[ReadImage, None]:
    """Yield images, of which the last file is marked as the last one.

    A file is therefore held until the next one is read, with the errors of reading between them.
    """
    held: list[ReadImage] = []  # a file, and the errors after it
    async with contextlib.aclosing(images):
        async for image in images:
            if not isinstance(image[1], RequestError):
                for held_image in held:
                    yield held_image
                held = [image]
            elif held:
                held.append(image)
            else:
                yield image
    for name, file, _ in held:
        yield name, file, True
