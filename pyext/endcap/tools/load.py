"""Load on a server: a closed or an open loop of requests, their latency, and the server's times.

A closed loop sends less while the server is slow, so its percentiles leave out what users wait for
(coordinated omission). In an open loop latency counts from a request's scheduled arrival.
"""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from endcap.client import ClientArguments, ClientError, Connection, DetectionClient, RequestError

MAX_SENDERS = 64  # requests in flight of an open loop; later ones are sent late
NOT_SENT = "not_sent"
_SEED = 1
_TICK_S = 0.1
_SHOWN_EVERY_S = 5.0

Statistics = Mapping[str, Mapping[str, int]]


class ModelTime(NamedTuple):
    """Mean times in the server of a model's requests, in milliseconds.

    `transfer` is preparing inputs and handing over outputs; `total` is all of it.
    """

    model: str
    requests: int
    queue: float
    transfer: float
    compute: float
    total: float


def read_statistics(connection: Connection, model: str) -> Statistics:
    """Return Triton's counts and durations of a model and then those of its composing models.

    Returns nothing where the server does not permit it.
    """
    try:
        steps = connection.config(model).get("ensemble_scheduling", {}).get("step", [])
        names = [model, *(str(step["model_name"]) for step in steps)]
        sums: dict[str, Counter[str]] = {name: Counter() for name in names}
        for version in connection.statistics():
            for kind, numbers in version.get("inference_stats", {}).items():
                values = {f"{kind} {name}": int(value) for name, value in numbers.items()}
                sums.get(version["name"], Counter()).update(values)
    except (RequestError, ClientError):
        return {}
    return sums


def mean_times(before: Statistics, now: Statistics) -> list[ModelTime]:
    """Return the times of the requests between two readings, of models that had requests."""
    times = []
    for model, counts in now.items() if before else ():
        new = {name: value - before[model].get(name, 0) for name, value in counts.items()}
        if requests := new.get("success count", 0):
            ms = {name: value / requests / 1e6 for name, value in new.items()}
            transfer = ms["compute_input ns"] + ms["compute_output ns"]
            parts = (ms["queue ns"], transfer, ms["compute_infer ns"], ms["success ns"])
            times.append(ModelTime(model, requests, *parts))
    return times


class Request(NamedTuple):
    """A request that ended; times of `time.perf_counter`.

    Attributes:
        begin_s: When it was sent, or its scheduled arrival in an open loop.
        end_s: Its end.
        images: Images without an error.
        failures: Failed images by status.
    """

    begin_s: float
    end_s: float
    images: int
    failures: Mapping[str, int]


@dataclass(frozen=True)
class Level:
    """Result of the requests that ended in a window or, in an open loop, were scheduled in it.

    Attributes:
        requests: Those with at least one image without an error, to which `latency_ms` applies.
        images_per_s: Images without an error whose requests ended in the window.
        latency_ms: Mean, p50, p90, p99, min and max; empty without such requests.
        failures: Failed images by status.
        server_ms: Of the model and then of its composing models.
        concurrency, rate: Senders; requests per second of an open loop.
    """

    requests: int
    images_per_s: float
    latency_ms: Mapping[str, float]
    failures: Mapping[str, int]
    server_ms: Sequence[ModelTime] = ()
    concurrency: int = 1
    rate: float | None = None


def summarize_latency(times: Sequence[float]) -> dict[str, float]:
    """Return mean, p50, p90, p99 (interpolated linearly), min and max; nothing for no times."""
    if not times:
        return {}
    p50, p90, p99 = (float(each) for each in np.percentile(times, (50, 90, 99)))
    mean = float(np.mean(times))
    return {"mean": mean, "p50": p50, "p90": p90, "p99": p99, "min": min(times), "max": max(times)}


def summarize(requests: Iterable[Request], begin_s: float, end_s: float, *, is_open: bool) -> Level:
    """Return the result of a window, which includes its begin and not its end."""
    requests = list(requests)
    ended = [each for each in requests if begin_s <= each.end_s < end_s]
    counted = [each for each in requests if begin_s <= each.begin_s < end_s] if is_open else ended
    times = [(each.end_s - each.begin_s) * 1e3 for each in counted if each.images]
    failures: Counter[str] = Counter()
    for each in counted:
        failures.update(each.failures)
    images_per_s = sum(each.images for each in ended) / (end_s - begin_s)
    return Level(len(times), images_per_s, summarize_latency(times), failures)


class Senders:
    """Threads that send requests with one client until `stop`.

    In a closed loop each sends the images in turn, the next request after the last response. In an
    open loop requests arrive by a Poisson process, with images drawn at random.

    Args:
        client: Whose concurrency is at least `count`.
        images: Encoded files.
        batch: Images of a request.
        count: Threads.
        rate: Requests per second of an open loop.
    """

    def __init__(
        self,
        client: DetectionClient,
        images: Sequence[bytes],
        batch: int,
        count: int,
        rate: float | None,
    ) -> None:
        self.requests: list[Request] = []
        self._client, self._images, self._batch, self._rate = client, images, batch, rate
        self._random, self._lock, self._ended = (
            random.Random(_SEED),
            threading.Lock(),
            threading.Event(),
        )
        self._taken, self._next_s = 0, time.perf_counter()
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="endcap load")
        self._senders = [self._threads.submit(self._send) for _ in range(count)]

    def check(self) -> None:
        """Raise the exception that ended a sender early."""
        for sender in self._senders:
            if sender.done():
                sender.result()

    def stop(self) -> None:
        """Wait for the requests in flight; in an open loop, what was not sent until now failed."""
        stopped_s = time.perf_counter()
        self._ended.set()
        self._threads.shutdown()
        self.check()
        while self._rate is not None and self._next_s < stopped_s:
            self._leave_out(*self._take())

    def _take(self) -> tuple[float, list[bytes]]:
        """Return the time of the next request, and its images."""
        with self._lock:
            if self._rate is not None:
                self._next_s += self._random.expovariate(1.0) / self._rate
                return self._next_s, self._random.choices(self._images, k=self._batch)
            first, self._taken = self._taken, self._taken + self._batch
            numbers = range(first, self._taken)
            images = [self._images[number % len(self._images)] for number in numbers]
            return time.perf_counter(), images

    def _send(self) -> None:
        while not self._ended.is_set():
            begin_s, images = self._take()
            if self._ended.wait(max(0.0, begin_s - time.perf_counter())):
                self._leave_out(begin_s, images)
                return
            results = self._client.detect(images)
            failures = Counter(each.status for each in results if not each.ok)
            good = len(results) - failures.total()
            self.requests.append(Request(begin_s, time.perf_counter(), good, failures))

    def _leave_out(self, begin_s: float, images: Sequence[bytes]) -> None:
        if self._rate is not None:
            failed = {NOT_SENT: len(images)}
            self.requests.append(Request(begin_s, time.perf_counter(), 0, failed))


def measure_level(
    arguments: ClientArguments,
    images: Sequence[bytes],
    rate: float | None,
    *,
    warmup_s: float,
    duration_s: float,
    progress: Callable[[str], None],
) -> Level:
    """Send requests for a warm-up and a window, and return the result of the window.

    Args:
        arguments: Of the client; its concurrency is the number of senders.
        images: Encoded files.
        rate: Requests per second of an open loop; None for a closed loop.
        warmup_s: Seconds before the window.
        duration_s: Seconds of the window.
        progress: Is called with the state of the work every few seconds.

    Raises:
        ClientError: The server is not available, or cannot take these requests.
    """
    count, model = arguments.concurrency, arguments.model
    with (
        DetectionClient.from_arguments(arguments) as client,
        Connection(client.address, client.options) as connection,
    ):
        start_s = shown_s = time.perf_counter()
        senders = Senders(client, images, arguments.batch, count, rate)

        def wait_until(end_s: float) -> None:
            nonlocal shown_s
            while (now := time.perf_counter()) < end_s:
                time.sleep(min(end_s - now, _TICK_S))
                senders.check()
                if now - shown_s >= _SHOWN_EVERY_S:
                    shown_s = now
                    progress(f"{now - start_s:.0f} s, {len(senders.requests)} requests")

        try:
            wait_until(start_s + warmup_s)
            before = read_statistics(connection, model)
            begin_s = time.perf_counter()
            wait_until(begin_s + duration_s)
            end_s = time.perf_counter()
            server_ms = mean_times(before, read_statistics(connection, model))
        finally:
            senders.stop()
    level = summarize(senders.requests, begin_s, end_s, is_open=rate is not None)
    return replace(level, server_ms=server_ms, concurrency=count, rate=rate)
