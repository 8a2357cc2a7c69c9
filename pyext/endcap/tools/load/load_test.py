"""Load test of a server: levels of concurrency or of rate, each with a warm-up and a window."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from endcap.client import AsyncDetectionClient, ClientArguments, DetectionClient
from endcap.client.address import Address, parse_address
from endcap.terminal.console import count
from endcap.terminal.failure import StopRequested
from endcap.terminal.progress import stage_bar
from endcap.tools.load.arrivals import SENDERS, OpenLoopSenders, PoissonArrivals
from endcap.tools.load.senders import Finished, ImageCycle, Senders, TaskSenders, ThreadSenders
from endcap.tools.load.server_times import ServerStatistics, ServerTimes

PERCENTILES = "linear interpolation between the closest ranks"
TICK_S = 0.1
# From here on the figures may be the client's: Python runs on one core, and needs some of it to
# notice a response in time.
_SATURATED_FROM = 0.85


@dataclass(frozen=True)
class Timing:
    """Seconds before the window, and of the window."""

    warmup_s: float
    duration_s: float


@dataclass(frozen=True)
class Figures:
    """Throughput and latency of the requests that ended in a window, or were scheduled in it.

    Attributes:
        requests: With at least one image without an error.
        images: Without an error.
        ended_images: Those without an error whose requests ended in the window.
        latency_ms: Mean, p50, p90, p99, min, max of these requests; empty where there is none.
        failures: Images that failed, by status.
    """

    seconds: float
    requests: int
    images: int
    ended_images: int
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def images_per_s(self) -> float:
        """Throughput: what the server has done in the window, whenever it was scheduled."""
        return self.ended_images / self.seconds


def summarize(requests: Iterable[Finished], begin_s: float, end_s: float) -> Figures:
    """Return the figures of the requests in [begin_s, end_s), by their end or their schedule."""
    requests = list(requests)
    counted = [each for each in requests if begin_s <= each.counted_s < end_s]
    times = [each.latency_ms for each in counted if each.latency_ms is not None]
    failures: Counter[str] = Counter()
    for each in counted:
        failures.update(each.failures)
    images = sum(each.images for each in counted)
    ended = sum(each.images for each in requests if begin_s <= each.end_s < end_s)
    return Figures(
        end_s - begin_s, len(times), images, ended, latency_summary(times), dict(failures)
    )


def latency_summary(times: Sequence[float]) -> dict[str, float]:
    """Return mean, p50, p90, p99, min and max; nothing for no times."""
    if not times:
        return {}
    p50, p90, p99 = (float(each) for each in np.percentile(times, (50, 90, 99)))
    return {
        "mean": float(np.mean(times)),
        "p50": p50,
        "p90": p90,
        "p99": p99,
        "min": min(times),
        "max": max(times),
    }


@dataclass(frozen=True)
class Level:
    """Result of one level: so many requests in flight, or scheduled, during a window of time.

    Attributes:
        concurrency: Number of senders.
        client_cpu: Cores that this process used on average.
        server: Times in the server; None with the reason in `server_problem`.
        interrupted: Whether the window was cut short.
        rate: Requests per second of the schedule; None in a closed loop.
    """

    concurrency: int
    figures: Figures
    client_cpu: float
    server: ServerTimes | None
    server_problem: str | None
    interrupted: bool
    rate: float | None = None

    @property
    def name(self) -> str:
        """What the level asked for, as text."""
        return f"{self.concurrency} in flight" if self.rate is None else f"{self.rate:g} a second"

    @property
    def is_client_saturated(self) -> bool:
        """Whether the client rather than the server may have been the limit."""
        return self.client_cpu >= _SATURATED_FROM

    @property
    def foreign_requests(self) -> int:
        """Number of requests by other clients; 0 where it may be chance.

        Client and server may count requests in flight at the edges of the window differently, and
        a request with failed images may have been sent again.
        """
        if self.server is None or self.server.whole is None or self.figures.failures:
            return 0
        beyond = self.server.whole.requests - self.figures.requests
        return beyond if beyond > 2 * self.concurrency else 0

    def to_json(self) -> dict[str, Any]:
        """Return what `endcap load --json` prints."""
        return {
            "concurrency": self.concurrency,
            "rate": self.rate,
            "images_per_s": self.figures.images_per_s,
            **dataclasses.asdict(self.figures),
            "client_cpu": self.client_cpu,
            "server_ms": dataclasses.asdict(self.server) if self.server else None,
            "server_problem": self.server_problem,
            "interrupted": self.interrupted,
        }


class LoadTest:
    """A load test of a server, level by level.

    Args:
        arguments: Of the client, without its concurrency.
        images: Encoded files, which are sent in turn.
        timing: Of each level.
        use_asyncio: Whether to send from an event loop, else from threads.
    """

    def __init__(
        self,
        arguments: ClientArguments,
        images: Sequence[bytes],
        timing: Timing,
        *,
        use_asyncio: bool,
    ) -> None:
        self._address: Address = parse_address(arguments.url, arguments.protocol)
        self._arguments = arguments
        self._images = images
        self._timing = timing
        self._use_asyncio = use_asyncio

    def run(self, levels: Sequence[int]) -> list[Level]:
        """Return the levels of requests in flight that are measured until the end or a signal.

        Raises:
            ClientError: The server is not available, or cannot take these requests.
        """
        return self._run([(f"{level} in flight", level, None) for level in levels])

    def run_rates(self, rates: Sequence[float], seed: int) -> list[Level]:
        """Return the levels of Poisson arrivals that are measured until the end or a signal.

        Args:
            rates: Requests per second.
            seed: Of the arrivals and images.

        Raises:
            ClientError: As `run`.
        """
        return self._run(
            [
                (
                    f"{rate:g} a second",
                    SENDERS,
                    PoissonArrivals(self._images, self._arguments.batch, rate, seed),
                )
                for rate in rates
            ]
        )

    def _run(self, levels: Sequence[tuple[str, int, PoissonArrivals | None]]) -> list[Level]:
        measured: list[Level] = []
        steps = round((self._timing.warmup_s + self._timing.duration_s) / TICK_S)
        statistics = ServerStatistics(
            self._address, self._arguments.model, options=self._arguments.options, settle=False
        )
        with contextlib.closing(statistics), stage_bar() as begin:
            for name, senders, arrivals in levels:
                level = self._measure(senders, arrivals, statistics, begin(name, steps))
                measured += [level] if level else []
                if level is None or level.interrupted:
                    break
        return measured

    def describe(self) -> dict[str, Any]:
        """Return the settings for JSON."""
        return {
            "url": str(self._address),
            "protocol": self._address.protocol,
            "model": self._arguments.model,
            "batch": self._arguments.batch,
            "shared_memory": self._arguments.shared_memory,
            "region_bytes": self._arguments.region_bytes,
            "async": self._use_asyncio,
            "images": len(self._images),
            "warmup_s": self._timing.warmup_s,
            "duration_s": self._timing.duration_s,
        }

    def heading(self) -> str:
        """Return the settings as text."""
        arguments = self._arguments
        parts = [f"{arguments.model} at {self._address}", count(len(self._images), "image")]
        parts += [f"batch {arguments.batch}"] if arguments.batch > 1 else []
        if arguments.shared_memory != "none":
            parts.append(f"{arguments.shared_memory} shared memory")
        parts += ["asyncio"] if self._use_asyncio else []
        parts.append(f"{self._timing.duration_s:g} s for each level")
        return ", ".join(parts)

    def _measure(
        self,
        concurrency: int,
        arrivals: PoissonArrivals | None,
        statistics: ServerStatistics,
        advance: Callable[[], None],
    ) -> Level | None:
        images = ImageCycle(self._images, self._arguments.batch)
        arguments = dataclasses.replace(self._arguments, concurrency=concurrency)
        senders: Senders
        if arrivals is not None:
            with DetectionClient.from_arguments(arguments) as client:
                senders = OpenLoopSenders(client, arrivals, concurrency)
                level = measure_level(concurrency, senders, self._timing, statistics, advance)
            return dataclasses.replace(level, rate=arrivals.rate) if level else None
        if self._use_asyncio:
            senders = TaskSenders(
                lambda: AsyncDetectionClient.from_arguments(arguments), images, concurrency
            )
            return measure_level(concurrency, senders, self._timing, statistics, advance)
        with DetectionClient.from_arguments(arguments) as client:
            senders = ThreadSenders(client, images, concurrency)
            return measure_level(concurrency, senders, self._timing, statistics, advance)


def measure_level(
    concurrency: int,
    senders: Senders,
    timing: Timing,
    statistics: ServerStatistics | None,
    advance: Callable[[], None],
) -> Level | None:
    """Watch senders at work until their window is over, and stop them.

    Args:
        concurrency: Number of requests in flight.
        senders: At work already.
        timing: Of the warm-up and the window.
        statistics: Of the server, if known.
        advance: Called for every TICK_S.

    Returns:
        The result; a signal cuts the window short. None where the window had not begun.
    """
    begin_s = cpu_s = 0.0
    interrupted = False
    try:
        try:
            _wait_until(time.perf_counter() + timing.warmup_s, senders, advance)
            if statistics is not None:
                statistics.restart()
            begin_s, cpu_s = time.perf_counter(), time.process_time()
            end_s = begin_s + timing.duration_s
            _wait_until(end_s, senders, advance)
        except StopRequested:
            end_s, interrupted = time.perf_counter(), True
        cpu_s = time.process_time() - cpu_s
        server = statistics.times() if statistics is not None and begin_s else None
    finally:
        senders.stop()
    if not begin_s:
        return None
    return Level(
        concurrency,
        summarize(senders.requests, begin_s, end_s),
        cpu_s / (end_s - begin_s),
        server,
        statistics.problem if statistics is not None else None,
        interrupted,
    )


def _wait_until(end_s: float, senders: Senders, advance: Callable[[], None]) -> None:
    """Wait, and call `advance` for each TICK_S that has passed, those of a late wake-up, too."""
    start_s = time.perf_counter()
    steps, done = round((end_s - start_s) / TICK_S), 0
    while (left := end_s - time.perf_counter()) > 0:
        time.sleep(min(left, TICK_S))
        now = time.perf_counter()
        due = steps if now >= end_s else min(steps, int((now - start_s) / TICK_S))
        for _ in range(due - done):
            advance()
        done = due
        senders.check()
