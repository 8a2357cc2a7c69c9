"""Senders of a closed loop: each sends its next request after the last response."""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from endcap.client import AsyncDetectionClient, DetectionClient, ImageResult

# A server that is gone refuses at once: without a pause the loop would use a whole core.
_PAUSE_WHEN_GONE_S = 0.05


class Finished(NamedTuple):
    """A request that ended, with success or without.

    Attributes:
        end_s: Of `time.perf_counter`.
        latency_ms: From the image's bytes to its detections, as the client measures it, or from the
            scheduled arrival; None where every image failed.
        images: Number of images without an error.
        failures: Number of failed images by status.
        scheduled_s: The scheduled arrival, of `time.perf_counter`; None in a closed loop.
    """

    end_s: float
    latency_ms: float | None
    images: int
    failures: Mapping[str, int]
    scheduled_s: float | None = None

    @property
    def counted_s(self) -> float:
        """The time that says whether a window has the request: its arrival, or else its end."""
        return self.end_s if self.scheduled_s is None else self.scheduled_s

    @classmethod
    def of(
        cls, end_s: float, results: Sequence[ImageResult], scheduled_s: float | None = None
    ) -> Finished:
        """Return the request with these results."""
        good = [result for result in results if result.ok]
        times = [result.latency_ms for result in good if result.latency_ms is not None]
        failures = Counter(result.status for result in results if not result.ok)
        latency_ms = max(times, default=None)
        if latency_ms is not None and scheduled_s is not None:
            latency_ms = (end_s - scheduled_s) * 1e3
        return cls(end_s, latency_ms, len(good), failures, scheduled_s)


class Senders(Protocol):
    """Several senders at work. requests: those that ended so far."""

    requests: list[Finished]

    def check(self) -> None:
        """Raise the exception that ended a sender early."""

    def stop(self) -> None:
        """Wait for the requests in flight and end; raise the exception of a sender."""


class ImageCycle:
    """The images of each request, in turn. Thread-safe."""

    def __init__(self, images: Sequence[bytes], batch: int) -> None:
        self._images = images
        self._batch = batch
        self._next = itertools.count(0, batch)  # next() of it is atomic

    def take(self) -> list[bytes]:
        """Return the images of the next request."""
        first = next(self._next)
        return [self._images[(first + n) % len(self._images)] for n in range(self._batch)]


class ThreadSenders:
    """A thread for each sender, all with one client."""

    def __init__(self, client: DetectionClient, images: ImageCycle, senders: int) -> None:
        self.requests: list[Finished] = []
        self._client = client
        self._images = images
        self._ended = threading.Event()
        self._threads = ThreadPoolExecutor(senders, thread_name_prefix="endcap load")
        self._senders = [self._threads.submit(self._send) for _ in range(senders)]

    def check(self) -> None:
        """See Senders."""
        for sender in self._senders:
            if sender.done():
                sender.result()

    def stop(self) -> None:
        """See Senders."""
        self._ended.set()
        self._threads.shutdown()
        self.check()

    def _send(self) -> None:
        while not self._ended.is_set():
            results = self._client.detect(self._images.take())
            self.requests.append(Finished.of(time.perf_counter(), results))
            if _is_gone(results):
                self._ended.wait(_PAUSE_WHEN_GONE_S)


class TaskSenders:
    """A task for each sender, on an event loop in a thread of its own."""

    def __init__(
        self, make_client: Callable[[], AsyncDetectionClient], images: ImageCycle, senders: int
    ) -> None:
        self.requests: list[Finished] = []
        self._make_client = make_client
        self._images = images
        self._count = senders
        self._ended = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="endcap load")
        self._loop = self._thread.submit(lambda: asyncio.run(self._send_all()))

    def check(self) -> None:
        """See Senders."""
        if self._loop.done():
            self._loop.result()

    def stop(self) -> None:
        """See Senders."""
        self._ended.set()
        self._thread.shutdown()
        self.check()

    async def _send_all(self) -> None:
        async with self._make_client() as client:
            await asyncio.gather(*(self._send(client) for _ in range(self._count)))

    async def _send(self, client: AsyncDetectionClient) -> None:
        while not self._ended.is_set():
            results = await client.detect(self._images.take())
            self.requests.append(Finished.of(time.perf_counter(), results))
            if _is_gone(results):
                await asyncio.sleep(_PAUSE_WHEN_GONE_S)


def _is_gone(results: Sequence[ImageResult]) -> bool:
    return all(result.status == "unavailable" for result in results)
