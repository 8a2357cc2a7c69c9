"""Open loop: requests at the times of a schedule, however long the responses take.

A closed loop sends less while the server is slow, so that its percentiles leave out what users wait
for (coordinated omission). Here each request has a scheduled arrival, from which its latency
counts: a request that has to wait for a sender is late, not left out.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from endcap.client import DetectionClient
from endcap.tools.load.senders import Finished

# At most so many requests are in flight; further ones are sent late, which their latency shows.
SENDERS = 64
NOT_SENT = "not_sent"


class PoissonArrivals:
    """Arrivals of independent users: exponential gaps, and images drawn at random with replacement.

    The same seed gives the same images in the same order, and the same gaps in units of the mean
    gap, at every rate.

    Args:
        images: Encoded files.
        batch: Images of a request.
        rate: Requests per second on average.
        seed: Of the random numbers.
    """

    def __init__(self, images: Sequence[bytes], batch: int, rate: float, seed: int) -> None:
        self.rate = rate
        self._images = images
        self._batch = batch
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._next_s = 0.0

    def take(self) -> tuple[float, list[bytes]]:
        """Return the seconds from the begin to the next arrival, and its images. Thread-safe."""
        with self._lock:
            self._next_s += self._random.expovariate(1.0) / self.rate
            return self._next_s, self._random.choices(self._images, k=self._batch)


class OpenLoopSenders:
    """Threads that send scheduled requests, all with one client; see `senders.Senders`.

    Each takes the next arrival, waits for its time and sends it.

    Args:
        client: Whose concurrency is at least `senders`.
        arrivals: The schedule; it begins now.
        senders: Most requests in flight.
    """

    def __init__(
        self, client: DetectionClient, arrivals: PoissonArrivals, senders: int = SENDERS
    ) -> None:
        self.requests: list[Finished] = []
        self._client = client
        self._arrivals = arrivals
        self._ended = threading.Event()
        self._begin_s = time.perf_counter()
        self._stopped_s = 0.0
        self._threads = ThreadPoolExecutor(senders, thread_name_prefix="endcap load")
        self._senders = [self._threads.submit(self._send) for _ in range(senders)]

    def check(self) -> None:
        """See Senders."""
        for sender in self._senders:
            if sender.done():
                sender.result()

    def stop(self) -> None:
        """Wait for the requests in flight; arrivals until now that have no sender count as failed.

        Raises the exception of a sender.
        """
        self._stopped_s = time.perf_counter()
        self._ended.set()
        self._threads.shutdown()
        self.check()
        while True:
            after_s, images = self._arrivals.take()
            if self._begin_s + after_s >= self._stopped_s:
                break
            self._leave_out(self._begin_s + after_s, len(images))

    def _send(self) -> None:
        while True:
            after_s, images = self._arrivals.take()
            scheduled_s = self._begin_s + after_s
            if self._ended.wait(max(0.0, scheduled_s - time.perf_counter())):
                if scheduled_s < self._stopped_s:
                    self._leave_out(scheduled_s, len(images))
                return
            results = self._client.detect(images)
            self.requests.append(Finished.of(time.perf_counter(), results, scheduled_s))

    def _leave_out(self, scheduled_s: float, images: int) -> None:
        self.requests.append(
            Finished(self._stopped_s, None, 0, {NOT_SENT: images}, scheduled_s=scheduled_s)
        )
