"""Sends encoded images to an ensemble and reads its answers."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from pathlib import Path
from types import TracebackType

from endcap.client.address import Protocol, parse_address
from endcap.client.connection import Connection
from endcap.client.errors import ClientError, RequestError
from endcap.client.labels import parse_labels
from endcap.client.results import ImageResult
from endcap.client.rows import read_classes, read_rows
from endcap.client.served_model import ServedModel, check_model
from endcap.client.task import Task
from endcap.errors import InvalidArgumentError

_LONGEST_TIMEOUT_S = 86400.0  # a day

Image = bytes | bytearray | memoryview | str | os.PathLike[str]


class DetectionClient:
    """A client of an ensemble that takes `encoded` and answers with detections or classes.

    url: HOST:PORT, with grpc:// or http:// before it where `protocol` is not given.
    protocol: "grpc" or "http"; None takes the URL's, else gRPC.
    model: the ensemble's name.
    timeout_s: for each request.
    concurrency: how many requests are in flight at once.
    labels: class names by id; None reads them from the parameter `labels` of the model's
        configuration (comma-separated, or a JSON list). A classifier's own output `class_labels`
        names what these do not.
    extras: whether to ask for keypoints, angles and masks, too, where the model has them.

    Attributes:
        task: what the model answers with, by the outputs that it has.
        outputs: the names of these outputs.
        labels: class names by id, None where neither caller nor server has any.

    Raises ClientError when no server answers there, it does not serve the model, or the model's
    labels cannot be read, and InvalidArgumentError for an option that cannot be used. Thread-safe.
    """

    def __init__(
        self,
        url: str = "127.0.0.1:8001",
        *,
        protocol: Protocol | None = None,
        model: str = "detect",
        timeout_s: float = 30.0,
        concurrency: int = 4,
        labels: Sequence[str] | None = None,
        extras: bool = True,
    ) -> None:
        if concurrency < 1:
            raise InvalidArgumentError(f"concurrency {concurrency} is below 1")
        if not 0 < timeout_s <= _LONGEST_TIMEOUT_S:
            raise InvalidArgumentError(
                f"timeout is {timeout_s:g} s: give more than 0 and at most {_LONGEST_TIMEOUT_S:g}"
            )
        self.address = parse_address(url, protocol)
        self.model = model
        self._timeout_s = timeout_s
        self._resources = contextlib.ExitStack()
        self._per_thread = threading.local()
        self._shared = self._open()
        try:
            served = check_model(self._shared, model)
            self.task, self.outputs = served.task, served.outputs
            self.labels = list(labels) if labels is not None else self._served_labels()
        except BaseException:
            self.close()
            raise
        self._wanted = _wanted_outputs(served, extras)
        self._workers = self._resources.enter_context(
            ThreadPoolExecutor(concurrency, thread_name_prefix="endcap client")
        )

    def __enter__(self) -> DetectionClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is not None:
            self._shared.close()  # cancels what is in flight over gRPC: nobody waits for it
        self.close()

    def close(self) -> None:
        """Waits for requests in flight and closes the connections."""
        self._resources.close()

    def detect(
        self,
        images: Sequence[Image],
        *,
        on_result: Callable[[ImageResult], None] | None = None,
    ) -> list[ImageResult]:
        """Returns what became of each image, in the order of `images`.

        images: encoded files, as bytes or as paths; they are sent as they are, one request each.
            One that fails has its own status and message, and does not concern the others.
        on_result: is called, in this thread, for each image as soon as it is answered.
        """
        futures: list[Future[ImageResult]] = [
            self._workers.submit(self._detect_one, _name(image, position), image)
            for position, image in enumerate(images)
        ]
        try:
            for future in as_completed(futures):
                if on_result is not None:
                    on_result(future.result())
        finally:
            for future in futures:
                future.cancel()
        return [future.result() for future in futures]

    def _detect_one(self, name: str, image: Image) -> ImageResult:
        result = functools.partial(ImageResult, name, task=self.task)
        try:
            encoded = _read(image)
        except OSError as error:
            return result("unreadable", error=f"cannot be read: {error.strerror}")
        begin = time.perf_counter()
        try:
            outputs = self._connection().infer(self.model, encoded, self._wanted)
            latency_ms = (time.perf_counter() - begin) * 1e3
            if self.task is Task.classification:
                classes = read_classes(outputs, self.labels)
                return result("ok", classes=classes, latency_ms=latency_ms)
            detections = read_rows(outputs, self.labels)
            return result("ok", detections=detections, latency_ms=latency_ms)
        except RequestError as error:
            latency_ms = (time.perf_counter() - begin) * 1e3
            return result(error.status_name, error=str(error), latency_ms=latency_ms)

    def _connection(self) -> Connection:
        if self.address.protocol == "grpc":
            return self._shared
        if not hasattr(self._per_thread, "connection"):
            self._per_thread.connection = self._open()
        connection: Connection = self._per_thread.connection
        return connection

    def _open(self) -> Connection:
        connection = Connection(self.address, self._timeout_s)
        self._resources.callback(connection.close)
        return connection

    def _served_labels(self) -> list[str] | None:
        served = self._shared.parameter(self.model, "labels")
        try:
            return parse_labels(served or "") or None
        except InvalidArgumentError as error:
            raise ClientError(
                f"in the parameter labels of model '{self.model}', {error}"
            ) from error


def _wanted_outputs(served: ServedModel, extras: bool) -> list[str]:
    every = extras or served.task is Task.classification
    asked = served.task.outputs if every else served.task.required
    return [name for name in asked if name in served.outputs]


def _read(image: Image) -> bytes:
    if not isinstance(image, (str, os.PathLike)):
        return bytes(image)
    path = Path(image)
    if path.exists() and not path.is_file() and not path.is_dir():
        raise OSError(errno.EINVAL, "it is a pipe or a device, which may never end", str(path))
    return path.read_bytes()


def _name(image: Image, position: int) -> str:
    return os.fspath(image) if isinstance(image, (str, os.PathLike)) else f"image {position}"
