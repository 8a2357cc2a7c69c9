# Made by scripts/generate_sync_client.py: change ../_async/detection_client.py instead.

"""The client of a detector or classifier: images to batches, requests, and results in order."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from dataclasses import replace
from types import TracebackType
from typing import TypeVar

from endcap.client._sync.connection import Connection
from endcap.client._sync.detect_stream import stream_results
from endcap.client._sync.served_model import fetch_served_model
from endcap.client._sync.shared_memory_pool import SharedMemoryPool
from endcap.client.address import Address, Protocol
from endcap.client.batches import Batch, BatchRun, RequestFormat
from endcap.client.calls import Call, Response, SequenceStep
from endcap.client.errors import ClientError, RequestError, as_request_error
from endcap.client.images import Color, Image, is_read, refuse_single
from endcap.client.options import ClientArguments, ConnectionOptions, SharedMemory
from endcap.client.regions.lease import Lease
from endcap.client.regions.region import Kind
from endcap.client.response_reader import ImageResponse, ResponseReader
from endcap.client.retry import Attempts, Deadline
from endcap.client.served_model import ServedModel
from endcap.client.stream_order import SequenceSteps, StreamOrder
from endcap.client.synchronization import (
    Semaphore,
    iterate,
    map_unordered,
    run_blocking,
    sleep,
)
from endcap.client.videos import Video, check_options, video_inputs, video_name
from endcap.errors import EndcapError, InvalidArgumentError, UnsupportedError
from endcap.results import ImageResult, Results, Task

Outcome = list[ImageResponse | RequestError] | RequestError
C = TypeVar("C", bound="DetectionClient")

_TRACK_IDS = "track_ids"


class DetectionClient:
    """A client of an ensemble that takes the input `encoded` and returns detections or classes.

    Of one that `endcap init --head none` wrote, results have the network's outputs as `tensors`.

    `DetectionClient` is for threads: it connects when it is made, and is thread-safe; a forked
    child needs a client of its own. `AsyncDetectionClient` is for asyncio: it connects when its
    `async with` block begins, and any number of tasks of that event loop may use it at once.

    An image is bytes or a path of an encoded file, which is sent as it is, a Pillow image, or an
    array uint8 of NumPy or with __dlpack__: [N] of an encoded file, [H,W,3] or [H,W] of pixels.

    Args:
        url: HOST:PORT, with grpc://, grpcs://, http:// or https:// before it where `protocol` is
            not given.
        protocol: "grpc" or "http"; None takes the URL's, else gRPC.
        model: The ensemble's name.
        timeout_s: For each image: its requests, their retries, and the wait for shared memory.
        concurrency: The number of requests in flight at once.
        batch: The maximum number of images in a request.
        labels: Class names by id; None reads them from the parameter `labels` of the model's
            configuration (comma-separated, or a JSON list). A classifier's own output
            `class_labels` names what these do not.
        extras: Whether to request keypoints, angles and masks, too, where the model has them.
        shared_memory: "system" or "cuda" passes tensors through memory that this machine's server
            shares; see `SharedMemoryPool`.
        regions: The number of shared-memory regions; None is `concurrency`.
        region_bytes: The size of each; None has room for a batch, 8 MiB for each encoded image.
        classify: The number of best classes to request from Triton's classification extension, of a
            classifier with the output class_probabilities; None takes the model's own classes.
        color: "rgb" or "bgr", of images that are pixels.
        jpeg_quality: Pixels are sent as JPEG of this quality, 1 to 100, without chroma subsampling.
        request_id: The prefix of the ids of requests, which the server logs. None draws one.
        options: Of the connection: retries, headers, TLS, compression, keepalive. Its timeout_s
            takes precedence over `timeout_s`.

    Raises:
        ClientError: No server responds at the address, it does not serve the model, or the model's
            labels cannot be read.
        InvalidArgumentError: An option cannot be used.
        UnsupportedError: The model does not support an option.
    """

    def __init__(
        self,
        url: str = "127.0.0.1:8001",
        *,
        protocol: Protocol | None = None,
        model: str = "detect",
        timeout_s: float = 30.0,
        concurrency: int = 4,
        batch: int = 1,
        labels: Sequence[str] | None = None,
        extras: bool = True,
        shared_memory: SharedMemory = "none",
        regions: int | None = None,
        region_bytes: int | None = None,
        classify: int | None = None,
        color: Color = "rgb",
        jpeg_quality: int = 95,
        request_id: str | None = None,
        options: ConnectionOptions | None = None,
    ) -> None:
        self._initialize(
            ClientArguments(
                url=url,
                protocol=protocol,
                model=model,
                timeout_s=timeout_s,
                concurrency=concurrency,
                batch=batch,
                labels=labels,
                extras=extras,
                shared_memory=shared_memory,
                regions=regions,
                region_bytes=region_bytes,
                classify=classify,
                color=color,
                jpeg_quality=jpeg_quality,
                request_id=request_id,
                options=options,
            )
        )

    @classmethod
    def from_arguments(cls: type[C], arguments: ClientArguments) -> C:
        """Return a client with these arguments; raise what the constructor does."""
        client = cls.__new__(cls)
        client._initialize(arguments)
        return client

    def _initialize(self, arguments: ClientArguments) -> None:
        self._arguments = arguments
        self._is_connected = False
        self._pool: SharedMemoryPool | None = None
        self._permits = Semaphore(arguments.concurrency)
        self._is_closed = False
        self._request_id_prefix = arguments.request_id_prefix()
        self._request_numbers = itertools.count(1)
        self._connect()

    def __repr__(self) -> str:
        state = ", closed" if self._is_closed else "" if self._is_connected else ", not connected"
        return f"<{type(self).__name__} of {self.model} at {self.address}{state}>"

    def __enter__(self) -> DetectionClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None and self._process == os.getpid():
            self._connection.close()  # cancels the requests in flight
        self.close()

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

    def close(self) -> None:
        """Wait for requests in flight and close the connections.

        Images that were not sent have results with the status "cancelled".
        """
        self._check_connected()
        if self._is_closed or self._process != os.getpid():
            return
        self._is_closed = True
        permits = 0
        try:
            while permits < self._arguments.concurrency:
                self._permits.acquire()
                permits += 1
        finally:
            self._resources.close()
            for _ in range(permits):
                self._permits.release()  # waiting calls then see that it is closed

    def detect(
        self,
        images: Iterable[Image],
        *,
        on_result: Callable[[ImageResult], None] | None = None,
    ) -> Results:
        """Return the result of each image, in the order of `images`.

        When the client is closed meanwhile, images that were not sent have the status "cancelled",
        and no more are taken from an iterable without a length. In asyncio, cancelling the task
        that awaits the results cancels its requests.

        Args:
            images: An iterable, consumed one by one; at most concurrency * batch of them are in
                memory. An image that fails has its own status and message, and does not affect the
                others. Results do not wait for the next image: threads of the client consume the
                iterable, or with asyncio the event loop, which also takes asynchronous iterables.
            on_result: A function that is called, in this thread or event loop, with the result of
                each image as soon as there is one.
        """
        self._check_usable()
        self._check_one_response()
        refuse_single(images)
        results: dict[int, list[ImageResult]] = {}
        with contextlib.closing(self._run_all(images)) as finished:
            for start, batch_results in finished:
                results[start] = batch_results
                if on_result is not None:
                    for result in batch_results:
                        on_result(result)
        return Results(result for start in sorted(results) for result in results[start])

    def detect_one(self, image: Image, *, step: SequenceStep | None = None) -> ImageResult:
        """Return the result of one image.

        Args:
            image: As for `detect`.
            step: Its position in a sequence of a stateful model, for frames that come one by one
                and need their results at once. Such a request is not repeated; `track` sends the
                frames of an iterable.
        """
        self._check_usable()
        self._check_one_response()
        _, (result,) = self._run(Batch(0, [image]), step)
        return result

    def detect_stream(
        self,
        images: Iterable[Image],
        *,
        sequence: int | str | None = None,
    ) -> Generator[ImageResult, None, None]:
        """Yield the results of images, in the order of `images`, over one gRPC stream.

        A decoupled model gives several results for an image, the last one with `final`; it may be
        empty. At most `concurrency` images are in flight. Results do not wait for the next image.

        Args:
            images: As for `detect`.
            sequence: The id, a number above 0 or a text, of the images as one sequence of a
                stateful model. The first image that is sent starts it, the last one ends it; each
                is therefore sent when the next one is read. A caller that stops early leaves the
                sequence open.

        Raises:
            UnsupportedError: Over HTTP, with shared memory, or with batches.
        """
        refuse_single(images)
        self._check_streams()
        order = StreamOrder(self._request_format, self._response_reader, self._next_request_id)
        steps = SequenceSteps(sequence)
        return stream_results(
            self._connection,
            order,
            images,
            reader=self._arguments.image_reader,
            steps=steps,
            limit=self._arguments.concurrency,
        )

    def track(
        self, frames: Iterable[Image], *, sequence: int | str
    ) -> Generator[ImageResult, None, None]:
        """Yield the results of the frames of a camera or a file, with `track_ids`, in their order.

        A frame is sent when the one before has its result, so that the server's tracker gets them
        in their order; frames of several sequences are tracked at the same time by as many calls.
        A damaged frame has a status of its own, and the sequence goes on. After a request that has
        failed, as by a restart of the server or a longer pause, it begins anew.

        Args:
            frames: Images, as for `detect`. Each is sent when the next one is read, since the last
                one ends the sequence; a caller that stops early leaves it to the server to drop.
            sequence: The id of the sequence, a number above 0 or a text, such as `camera 7`; no two
                at the same time may have the same one.

        Raises:
            UnsupportedError: The model gives no tracks; over HTTP, with shared memory, or with
                batches.
        """
        refuse_single(frames)
        self._check_streams()
        if _TRACK_IDS not in self._served_model.outputs:
            raise UnsupportedError(
                f"model '{self.model}' has no output {_TRACK_IDS}; name a model of sequences, such "
                "as detect_track of the shipped repository"
            )
        return stream_results(
            self._connection,
            StreamOrder(
                self._request_format, self._response_reader, self._next_request_id, restarts=True
            ),
            frames,
            reader=self._arguments.image_reader,
            steps=SequenceSteps(sequence),
            limit=1,
        )

    def video(
        self, video: Video, *, options: Mapping[str, object] | None = None
    ) -> Generator[ImageResult, None, None]:
        """Yield the results of a video's frames, which the server reads, in their order.

        The client is of a model that reads videos, such as `video` of the shipped repository. Each
        result has the position of its frame in `frame`, and track ids unless `options` say
        otherwise. A frame that fails has a status of its own. A video that cannot be read, or not
        to its end, has a last result without `frame`, whose `error` says why. A caller that stops
        early ends the server's work.

        Args:
            video: The bytes of a video file, its path, an address that the server's
                parameter `url_prefixes` allows, or "camera:NAME" for one of its `cameras`.
            options: Of the model, as `{"every": 2}`: see "On a server" in the documentation of
                videos.

        Raises:
            InvalidArgumentError: Options that cannot be written as JSON.
            UnsupportedError: The model reads no videos; over HTTP, or with shared memory.
        """
        self._check_streams()
        if not self._served_model.reads_videos:
            raise UnsupportedError(
                f"model '{self.model}' reads no videos; name one that does, such as video of the "
                "shipped repository"
            )
        check_options(options)
        return self._video(video, options)

    def _video(
        self, video: Video, options: Mapping[str, object] | None
    ) -> Generator[ImageResult, None, None]:
        name = video_name(video)
        try:
            inputs = run_blocking(video_inputs, video, options)
        except RequestError as error:
            yield ImageResult(name, error.status_name, error=str(error), task=self.task)
            return
        request_format = self._request_format.for_video(inputs)
        results = stream_results(
            self._connection,
            StreamOrder(request_format, self._response_reader, self._next_request_id),
            [b""],  # one request, whose inputs are known
            reader=self._arguments.image_reader,
            steps=SequenceSteps(None),
            limit=1,
        )
        with contextlib.closing(results):
            for result in results:
                if result.frame is not None or not result.ok:
                    yield replace(result, image=name)

    def _run_all(self, images: Iterable[Image]) -> Generator[tuple[int, list[ImageResult]], None]:
        """Yield what `_run` returns for each batch, in order of completion."""
        size, is_endless = self._arguments.batch, True
        if isinstance(images, Collection):
            if 0 < len(images) <= size:
                yield self._run(Batch(0, list(images)))  # one request needs no threads
                return
            is_endless = False
        batches = make_batches(images, size, lambda: is_endless and self._is_closed)
        finished = map_unordered(self._run, batches, self._arguments.concurrency)
        with contextlib.closing(finished):
            for each in finished:
                yield each

    def _run(self, batch: Batch, step: SequenceStep | None = None) -> tuple[int, list[ImageResult]]:
        """Return the position of a batch's first image, and the batch's results."""
        with self._permits:
            if self._is_closed:
                return batch.start, batch.cancelled(self.task)
            run = self._read(batch)
            while (attempt := run.next()) is not None:
                deadline = Deadline(self.options.timeout_s, attempt.spent_s)
                request_id = self._next_request_id()
                begin = time.perf_counter()
                outcome = self._infer(attempt.contents, request_id, deadline, step)
                run.take(attempt, outcome, (time.perf_counter() - begin) * 1e3, request_id)
        return batch.start, run.results()

    def _read(self, batch: Batch) -> BatchRun:
        arguments = (batch, self._arguments.image_reader, self.task)
        if all(map(is_read, batch.images)):
            return BatchRun(*arguments)
        return run_blocking(BatchRun, *arguments)

    def _infer(
        self,
        contents: Sequence[bytes],
        request_id: str,
        deadline: Deadline,
        step: SequenceStep | None,
    ) -> Outcome:
        """Return each image's part of the response, or the error of the request."""
        connection, pool = self._connection, self._pool
        if pool is None:
            return self._call_model(
                contents,
                None,
                request_id,
                lambda call: connection.infer(
                    replace(call, sequence=step), timeout_s=deadline.left_s()
                ),
            )
        retries = connection.retry_policy.retries() if step is None else 0
        try:
            attempts = Attempts(retries, deadline.left_s())
        except RequestError as error:
            return error
        while True:
            outcome = self._infer_shared(pool, contents, request_id, deadline, step)
            wait_s = attempts.wait_after_lost(outcome)
            if wait_s is None:
                return outcome
            sleep(wait_s)

    def _infer_shared(
        self,
        pool: SharedMemoryPool,
        contents: Sequence[bytes],
        request_id: str,
        deadline: Deadline,
        step: SequenceStep | None,
    ) -> Outcome:
        try:
            with pool.acquire(deadline.left_s()) as lease:
                return self._call_model(
                    contents,
                    lease,
                    request_id,
                    lambda call: pool.infer(
                        lease, replace(call, sequence=step), timeout_s=deadline.left_s()
                    ),
                )
        except EndcapError as error:
            return as_request_error(error)

    def _call_model(
        self,
        contents: Sequence[bytes],
        lease: Lease | None,
        request_id: str,
        infer: Callable[[Call], Response],
    ) -> Outcome:
        # The result holds no view of shared memory, which ends with the lease.
        try:
            call = self._request_format.call(contents, request_id, lease)
            response = infer(call)
            tensors = self._request_format.read(call, response, len(contents), lease)
            return [self._response_reader.try_read(each) for each in tensors]
        except EndcapError as error:
            return as_request_error(error)

    def _connect(self) -> None:
        if self._is_connected:
            raise ClientError("the client is connected already; make one for each `with`")
        self._process = os.getpid()
        self._resources = contextlib.ExitStack()
        self._connection = Connection(self.address, self.options)
        self._resources.callback(self._connection.close)
        try:
            model = fetch_served_model(
                self._connection,
                self._arguments.model,
                best_classes=self._arguments.classify is not None,
            )
            self._prepare_requests(model)
            if self._arguments.shared_memory != "none":
                self._open_pool(self._arguments.shared_memory)
        except BaseException:
            self._resources.close()
            raise
        self._is_connected = True

    def _prepare_requests(self, model: ServedModel) -> None:
        arguments = self._arguments
        self._served_model = model
        self._labels = model.labels() if arguments.labels is None else list(arguments.labels)
        self._response_reader = ResponseReader(model, self._labels, arguments.classify)
        outputs = self._response_reader.wanted(extras=arguments.extras)
        self._request_format = RequestFormat(model, outputs, self._response_reader.class_counts)
        if arguments.batch > model.batch_limit:
            raise InvalidArgumentError(
                f"batch {arguments.batch} is above {model.batch_limit}, the most images in one "
                f"request to model '{model.name}'"
            )

    def _open_pool(self, kind: Kind) -> None:
        arguments = self._arguments
        self._pool = SharedMemoryPool(
            self._connection,
            regions=arguments.regions or arguments.concurrency,
            region_bytes=(
                arguments.region_bytes or self._request_format.region_bytes(arguments.batch)
            ),
            kind=kind,
        )
        self._resources.callback(self._pool.close)

    def _next_request_id(self) -> str:
        return f"{self._request_id_prefix}-{next(self._request_numbers)}"

    def _check_connected(self) -> None:
        if not self._is_connected:
            raise ClientError("the client is not connected; use it inside `with`")

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


def make_batches(
    images: Iterable[Image], size: int, stop: Callable[[], bool]
) -> Generator[Batch, None, None]:
    """Yield batches of `size` images; end after a batch where `stop` returns True."""
    start, taken = 0, list[Image]()
    with contextlib.closing(iterate(images)) as source:
        for image in source:
            taken.append(image)
            if len(taken) == size:
                yield Batch(start, taken)
                start, taken = start + size, []
                if stop():
                    return
    if taken:
        yield Batch(start, taken)
