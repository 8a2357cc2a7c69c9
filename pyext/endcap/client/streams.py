"""Streams: results as they arrive, sequences, decoupled models and videos, over gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from typing import Any

from endcap.client.concurrency import as_async
from endcap.client.connection import Arguments, Connection, import_client
from endcap.client.detection import Detector, Images, image_name, refuse_single
from endcap.client.errors import (
    RequestError,
    as_request_error,
    closed_error,
    from_grpc,
    from_message,
    timeout_error,
)
from endcap.client.results import TIMESTAMP, TRACK_IDS, FramePosition, ImageResult
from endcap.client.tensors import Outcome, SequenceStep
from endcap.errors import EndcapError, InvalidArgumentError, UnsupportedError

# Name, file, time stamp, whether it is the last one sent.
ReadImage = tuple[str, bytes | RequestError, float | None, bool]
Video = bytes | bytearray | memoryview | str | os.PathLike[str]

_MAX_TIMESTAMP = 1e100  # of the tracker
_STREAM_END_S = 1.0  # for a server to end a stream after its last response


class StreamDetector(Detector):
    """The streams of both clients; `DetectionClient` has the documentation."""

    def _detect_stream(
        self, images: Images, *, sequence: int | str | None = None
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of images in their order; see `DetectionClient.detect_stream`."""
        self._check_streams(images, sequence)
        if sequence is None:
            self._check_no_sequences()
        if sequence is None and not self._served_model.decoupled:
            return self._stream_in_order(images)
        return self._stream_one_by_one(images, sequence)

    def _track(
        self, frames: Images, *, sequence: int | str, timestamps: Iterable[float] | None = None
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of a camera's frames in their order; see `DetectionClient.track`."""
        self._check_streams(frames, sequence)
        if TRACK_IDS not in self._served_model.outputs:
            raise UnsupportedError(
                f"model '{self.model}' has no output {TRACK_IDS}; name a model of sequences, such "
                "as detect_track of the shipped repository"
            )
        if timestamps is not None and not self._served_model.takes_timestamps:
            raise UnsupportedError(
                f"model '{self.model}' has no input {TIMESTAMP}; leave timestamps out, or add the "
                "input to its configuration, as detect_track of the shipped repository has it"
            )
        return self._stream_one_by_one(frames, sequence, timestamps, restarts=True)

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
        try:
            encoded = json.dumps(dict(options), allow_nan=False).encode() if options else b""
        except (TypeError, ValueError) as error:
            raise InvalidArgumentError(
                f"options cannot be written as JSON ({error}); give numbers, texts, True and False"
            ) from error
        return self._stream_video(video, encoded)

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
        self,
        images: Images,
        sequence: int | str | None,
        timestamps: Iterable[float] | None = None,
        *,
        restarts: bool = False,
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of images, which are sent one after the other.

        restarts: Whether the sequence begins again with the image after one whose request failed.
        """
        read_images, is_started = self._read_all(images), False
        if timestamps is not None:
            read_images = _add_timestamps(read_images, iter(timestamps))
        source = read_images if sequence is None else _mark_last(read_images)
        async with contextlib.aclosing(source):
            async for name, file, timestamp, is_last in source:
                if isinstance(file, RequestError):
                    yield self._tensors.make_result(name, file)
                    continue
                step = None
                if sequence is not None:
                    step = SequenceStep(sequence, not is_started, is_last, timestamp)
                is_started = True
                if self._served_model.decoupled:
                    request_id = self._next_request_id()
                    arguments = self._tensors.make_arguments([file], request_id, step=step)
                    async with contextlib.aclosing(self._stream_results(name, arguments)) as parts:
                        async for part in parts:
                            yield part
                    continue
                await self._runtime.acquire(self._permits)
                try:
                    outcomes, details = await self._send([file], step)
                finally:
                    self._permits.release()
                if isinstance(outcomes, RequestError):
                    is_started = not restarts
                    outcomes = [outcomes]
                yield self._tensors.make_result(name, outcomes[0], **details)

    async def _read_all(self, images: Images) -> AsyncGenerator[ReadImage, None]:
        position = 0
        async with contextlib.aclosing(as_async(images)) as source:
            async for image in source:
                name, file = image_name(image, position), await self._read(image)
                del image
                yield name, file, None, False
                position += 1

    async def _stream_video(
        self, video: Video, options: bytes
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of a video's frames; options: JSON, or nothing."""
        name = os.fspath(video) if isinstance(video, (str, os.PathLike)) else "video"
        content = await self._read(video)
        if isinstance(content, RequestError):
            yield self._tensors.make_result(name, content)
            return
        request_id = self._next_request_id()
        arguments = self._tensors.make_video_arguments(content, options, request_id)
        async with contextlib.aclosing(self._stream_results(name, arguments)) as results:
            async for result in results:
                if result.frame is not None or not result.ok:
                    yield result

    async def _stream_results(
        self, name: str, arguments: Arguments
    ) -> AsyncGenerator[ImageResult, None]:
        """Yield the results of one request to a decoupled model, the last one `final`."""
        tensors, begin = self._tensors, time.perf_counter()

        def make_result(
            outcome: Outcome, frame: FramePosition | None = None, *, final: bool
        ) -> ImageResult:
            details = {"request_id": arguments["request_id"], "frame": frame, "final": final}
            latency_ms = (time.perf_counter() - begin) * 1e3
            return tensors.make_result(name, outcome, latency_ms=latency_ms, **details)

        try:
            responses = _stream_responses(self._connection, arguments)
            async with contextlib.aclosing(responses):
                async for response, is_last in responses:
                    frame = None
                    try:
                        (part,) = tensors.split(response, 1)
                        frame = tensors.read_frame(part)
                        outcome = tensors.read_part(part)
                    except RequestError as error:
                        outcome = error
                    # After the error of a video's frame others follow.
                    is_over = isinstance(outcome, RequestError) and frame is None
                    yield make_result(outcome, frame, final=is_last or is_over)
                    if is_over and not is_last:  # otherwise the server ends the stream
                        return
        except EndcapError as error:
            yield make_result(as_request_error(error), final=True)

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
    for name, file, timestamp, _ in held:
        yield name, file, timestamp, True


async def _add_timestamps(
    images: AsyncGenerator[ReadImage, None], timestamps: Iterator[float]
) -> AsyncGenerator[ReadImage, None]:
    """Yield images with their time stamps; the server's tracker would refuse those with an error.

    Raises:
        InvalidArgumentError: The time stamps end before the images.
    """
    previous = -math.inf
    async with contextlib.aclosing(images):
        async for name, file, _, is_last in images:
            try:
                timestamp = next(timestamps)
            except StopIteration:
                raise InvalidArgumentError(
                    f"timestamps ended before the images, of which {name} is the next; give one "
                    "for each image"
                ) from None
            if not isinstance(file, RequestError):
                if previous < timestamp < _MAX_TIMESTAMP:
                    previous = timestamp
                else:
                    file = RequestError(
                        "invalid_argument",
                        f"timestamp is {timestamp}: give finite seconds, after those of the "
                        "previous frame",
                    )
            yield name, file, timestamp, is_last


async def _stream_responses(
    connection: Connection, arguments: Arguments
) -> AsyncGenerator[tuple[Any, bool], None]:
    """Yield the InferResults of a request to a decoupled model, over a gRPC stream.

    Each comes with whether it is the last one. Unless the caller stops early, the server ends the
    stream: release 24.10 can crash when one that ends is cancelled.

    Raises:
        RequestError: An error of the request, or no response in time after the one before.
    """
    connection.check_usable()
    runtime, limit_s = connection.runtime, connection.options.timeout_s
    received: Any = runtime.make_queue()
    call = _start_stream(connection, arguments)

    async def receive() -> None:
        try:
            async with contextlib.aclosing(as_async(call)) as messages:
                async for message in messages:
                    received.put_nowait(message)
            received.put_nowait(None)
        except (Exception, asyncio.CancelledError) as error:  # gRPC's aio cancels calls so
            received.put_nowait(error)

    async def wait_for_end() -> None:
        with contextlib.suppress(TimeoutError):
            await runtime.get(received, min(limit_s, _STREAM_END_S))

    job = runtime.start(receive())
    try:
        while (message := await runtime.get(received, limit_s)) is not None:
            if isinstance(message, BaseException):
                raise _stream_error(connection, message) from message
            if message.error_message:
                await wait_for_end()
                raise from_message(message.error_message)
            last = message.infer_response.parameters.get("triton_final_response")
            is_last = last is not None and last.bool_param
            yield connection.module.InferResult(message.infer_response), is_last
            if is_last:
                await wait_for_end()
                return
    except TimeoutError as error:
        raise timeout_error(limit_s) from error
    finally:
        call.cancel()
        await runtime.stop([job])


def _start_stream(connection: Connection, arguments: Arguments) -> Any:
    """Return gRPC's call: tritonclient's own streams do not report their end."""
    utilities = import_client("grpc._utils")
    defaults = {"model_version": "", "priority": 0, "parameters": None, "timeout": None}
    defaults |= {"sequence_id": 0, "sequence_start": False, "sequence_end": False}
    request = utilities._get_inference_request(**defaults | arguments)
    request.parameters["triton_enable_empty_final_response"].bool_param = True
    return connection.transport.client._client_stub.ModelStreamInfer(
        iter([request]),
        metadata=tuple(connection.headers().items()),
        compression=utilities._grpc_compression_type(connection.options.compression),
    )


def _stream_error(connection: Connection, error: Any) -> RequestError:
    status = error.code().name if hasattr(error, "code") else "CANCELLED"
    if connection.is_closed or status == "CANCELLED":
        return closed_error()
    return from_grpc(status, error.details() or status)
