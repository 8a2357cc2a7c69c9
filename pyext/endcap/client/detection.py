"""Detection: images to batches, requests, and results in order, written once as coroutines.

`DetectionClient` runs them in threads, `AsyncDetectionClient` in an event loop.
"""

from __future__ import annotations

import contextlib
import errno
import inspect
import io
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
    Sequence,
)
from dataclasses import fields
from pathlib import Path
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeAlias, TypeVar

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from endcap._arrays import check_pixels, view_image
from endcap._images import is_address, pillow_pixels
from endcap.client.concurrency import Tasks, Threads, as_async, run
from endcap.client.connection import Connection
from endcap.client.errors import ClientError, RequestError, as_request_error
from endcap.client.options import ClientArguments, Color
from endcap.client.results import ImageResult, Results, Task
from endcap.client.served_model import fetch_served_model
from endcap.client.shared_memory import Pool
from endcap.client.tensors import ModelTensors, Outcome, SequenceStep
from endcap.errors import EndcapError, InvalidArgumentError, UnsupportedError
from endcap.yuv import YuvImage

# An encoded file: bytes-like, a 1-D uint8 array, or a path. Pixels: [H,W,3] or [H,W] uint8, or a
# Pillow image. Pixels in YUV: those of nv12() and planar_yuv().
Image: TypeAlias = (
    "bytes | bytearray | memoryview | NDArray[np.uint8] | PIL.Image.Image | YuvImage | str | "
    "os.PathLike[str]"
)
Images = Iterable[Image] | AsyncIterable[Image]
C = TypeVar("C", bound="Detector")
P = ParamSpec("P")

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

    @classmethod
    def from_arguments(cls: type[C], arguments: ClientArguments) -> C:
        """Return a client with these arguments; raise what the constructor does."""
        names = [each.name for each in fields(arguments) if each.init]
        return cls(**{name: getattr(arguments, name) for name in names})

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
                    f"request to model '{model.name}'; leave --batch out, or give --batch "
                    f"{model.batch_limit} (`batch={model.batch_limit}` in Python)"
                )
            self._served_model = model
            self._labels = model.labels() if arguments.labels is None else list(arguments.labels)
            self._tensors = ModelTensors(
                model,
                self._connection.module,
                self._labels,
                arguments.classify,
                extras=arguments.extras,
            )
            if arguments.shared_memory != "none":
                needed = self._tensors.count_region_bytes(arguments.batch)
                self._pool = Pool(
                    self._connection,
                    regions=arguments.regions or arguments.concurrency,
                    region_bytes=arguments.region_bytes or needed,
                    kind=arguments.shared_memory,
                )
                stack.push_async_callback(self._pool.end)
                await self._pool.open()
            self._resources = stack.pop_all()
        self._is_connected = True

    async def _end(self, *, at_once: bool = False) -> None:
        """Close the client; at_once: cancel the requests in flight."""
        self._check_connected()
        if self._is_closed or not self._connection.is_own:
            return
        if at_once:
            await self._connection.close()
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
        self._check_no_sequences()
        refuse_single(images)
        report = on_result or (lambda _: None)
        if isinstance(images, Collection) and len(images) <= self._arguments.batch:
            results = await self._run_one([*images]) if len(images) else []  # no threads
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
        if step is None:
            self._check_no_sequences()
        (result,) = await self._run_one([image], step)
        return result

    # --- one request ------------------------------------------------------------------------------

    async def _process(
        self, images: Sequence[Image], start: int = 0, step: SequenceStep | None = None
    ) -> list[ImageResult]:
        """Return the results of a batch; start: the position of its first image."""
        files: list[bytes | RequestError]
        if self._is_closed:
            message = "the client was closed before this image was sent; make another one"
            files = [RequestError("cancelled", message)] * len(images)
        else:
            files = [await self._read(image) for image in images]
        sent = [file for file in files if not isinstance(file, RequestError)]
        responses = iter(await self._send_batch(sent, step) if sent else ())
        results = []
        for n, (image, file) in enumerate(zip(images, files, strict=True), start):
            outcome, details = (file, {}) if isinstance(file, RequestError) else next(responses)
            results.append(self._tensors.make_result(image_name(image, n), outcome, **details))
        return results

    async def _read(self, image: Image) -> bytes | RequestError:
        """Return an image's encoded bytes, or why there are none."""
        options = self._arguments.color, self._arguments.jpeg_quality
        try:
            if is_in_memory(image):  # no thread
                return read_image(image)
            return await self._runtime.call(read_image, image, *options)
        except RequestError as error:
            return error.with_traceback(None)  # it refers to the image

    async def _send_batch(
        self, files: Sequence[bytes], step: SequenceStep | None, spent_s: float = 0.0
    ) -> list[tuple[Outcome, dict[str, Any]]]:
        """Return for each file what `_send` returns for all.

        After an error that one of them may have caused, each is sent again in its own request.
        """
        outcomes, details = await self._send(files, step, spent_s)
        if isinstance(outcomes, RequestError):
            if len(files) > 1 and outcomes.status_name not in _SHARED_STATUSES:
                spent_s = details["latency_ms"] / 1e3
                return [
                    each for file in files for each in await self._send_batch([file], step, spent_s)
                ]
            outcomes = [outcomes] * len(files)
        return [(outcome, details) for outcome in outcomes]

    async def _send(
        self, files: Sequence[bytes], step: SequenceStep | None, spent_s: float = 0.0
    ) -> tuple[Sequence[Outcome] | RequestError, dict[str, Any]]:
        """Return what each image's part of a response holds, or the error of the request.

        Also return fields of the results: the request's id, and the time that it took.
        """
        request_id, begin = self._next_request_id(), time.perf_counter()
        tensors, pool = self._tensors, self._pool

        async def attempt(left_s: float) -> list[Outcome]:
            if pool is None:
                arguments = tensors.make_arguments(files, request_id, step=step)
                result = await self._connection.infer(arguments, left_s)
                return [tensors.read(each) for each in tensors.split(result, len(files))]
            end = time.monotonic() + left_s
            async with pool.lend(left_s) as lease:  # another one for each attempt
                arguments = tensors.make_arguments(files, request_id, step=step, lease=lease)
                result = await pool.send(lease, arguments, max(end - time.monotonic(), 1e-3))
                # No result holds a view of shared memory, which ends with the lease.
                return [tensors.read(each) for each in tensors.split(result, len(files), lease)]

        outcomes: Sequence[Outcome] | RequestError
        try:
            left_s = max(self.options.timeout_s - spent_s, 1e-3)
            outcomes = await self._connection.repeat(attempt, left_s, is_repeatable=step is None)
        except EndcapError as error:
            outcomes = as_request_error(error)
        latency_ms = (time.perf_counter() - begin) * 1e3
        return outcomes, {"request_id": request_id, "latency_ms": latency_ms}

    def _next_request_id(self) -> str:
        return f"{self._request_id_prefix}-{next(self._request_numbers)}"

    # --- checks -----------------------------------------------------------------------------------

    def _check_connected(self) -> None:
        if not self._is_connected:
            raise ClientError("the client is not connected; use it inside `async with`")

    def _check_usable(self) -> None:
        """Raise ClientError if the client is not connected, closed, or another process's."""
        self._check_connected()
        if self._is_closed:
            raise ClientError("this client is closed; make another one")
        self._connection.check_usable()

    def _check_one_response(self) -> None:
        """Raise UnsupportedError for a model that may send several responses to a request."""
        self._check_usable()
        if self._served_model.decoupled:
            raise UnsupportedError(
                f"model '{self.model}' is decoupled, it may send several responses to an image; "
                "call detect_stream()"
            )

    def _check_no_sequences(self) -> None:
        """Raise UnsupportedError for a model whose requests need the id of a sequence."""
        if self._served_model.takes_sequences:
            raise UnsupportedError(
                f"model '{self.model}' takes the frames of sequences; call track() in Python, or "
                "name a model without tracks, as in `endcap infer --model detect --track`"
            )


async def _take_images(source: AsyncIterator[Image], count: int) -> list[Image]:
    """Return the next images, fewer than `count` at the end."""
    images: list[Image] = []
    async for image in source:
        images.append(image)
        if len(images) == count:
            break
    return images


# --- images ---------------------------------------------------------------------------------------


def read_image(image: Image, color: Color = "rgb", jpeg_quality: int = 95) -> bytes:
    """Return the encoded bytes of an image: files unmodified, pixels as JPEG, YUV as lossless Y4M.

    Args:
        image: The image.
        color: The order of the channels of pixels.
        jpeg_quality: 1 to 100.

    Raises:
        RequestError: With the status "unreadable" for a file that cannot be read, and
            "invalid_argument" for an object that is not an image.
    """
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if isinstance(image, (str, os.PathLike)):
        if is_address(image):
            reason = "an image is an address: download it, and give the bytes"
            raise RequestError("unreadable", reason)
        return read_file(image)
    try:
        if isinstance(image, YuvImage):
            return image.to_y4m()
        if isinstance(image, PIL.Image.Image):
            array, color = pillow_pixels(image, "rgb"), "rgb"
        else:
            array = view_image(image)
        check_pixels(array.shape, array.dtype)
    except InvalidArgumentError as error:
        raise RequestError("invalid_argument", str(error)) from error
    if array.size == 0 or array.ndim > 3:
        raise RequestError(
            "invalid_argument",
            f"an image is {array.dtype} {list(array.shape)}: give the pixels of one image, "
            "[H,W,3] or [H,W]",
        )
    if array.ndim == 1:
        return array.tobytes()
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[..., 0]
    if array.ndim == 3 and color == "bgr":
        array = array[..., ::-1]
    file = io.BytesIO()
    try:  # 4:4:4: half the colours' resolution would move edges that a detector looks at
        picture = PIL.Image.fromarray(np.ascontiguousarray(array))
        picture.save(file, "JPEG", quality=jpeg_quality, subsampling=0)
    except (OSError, ValueError) as error:
        height, width = array.shape[:2]
        raise RequestError(
            "invalid_argument",
            f"{width} x {height} pixels cannot be written as JPEG, whose sides end at 65535; "
            "send a smaller image",
        ) from error
    return file.getvalue()


def read_file(file: str | os.PathLike[str]) -> bytes:
    """Return the content of a file; raise RequestError "unreadable" if that fails."""
    path = Path(file)
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            reason = "it is a pipe or a device, which may never end"
            raise OSError(errno.EINVAL, reason, str(path))
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise RequestError("unreadable", f"cannot be read: {reason}") from error


def is_in_memory(image: Image) -> bool:
    """Whether an image is encoded and in memory, so that reading it takes no time."""
    encoded = isinstance(image, np.ndarray) and image.ndim == 1
    return encoded or isinstance(image, (bytes, bytearray, memoryview))


def image_name(image: Image, position: int) -> str:
    """Return an image's name in its result: its path, else "image N"."""
    if not is_in_memory(image) and isinstance(image, (str, os.PathLike)):
        return os.fspath(image)
    return f"image {position}"


def refuse_single(images: Iterable[Any] | AsyncIterable[Any]) -> None:
    """Raise InvalidArgumentError for a single image instead of several."""
    types = (str, os.PathLike, bytes, bytearray, memoryview, PIL.Image.Image, YuvImage)
    holds_objects = isinstance(images, np.ndarray) and images.dtype == object
    is_array = hasattr(images, "__dlpack__") and not holds_objects
    if isinstance(images, types) or (is_array and getattr(images, "ndim", 4) < 4):
        raise InvalidArgumentError(
            "images is a single image; give a list of images, or take detect_one()"
        )
