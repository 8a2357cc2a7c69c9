"""Measurements of configurations: a server on a copy of the repository, under open-loop traffic.

The server runs on this machine, on free ports of the loopback interface, and ends with the block of
its configuration. Before the first window it is warmed up by a closed loop, which gives the
throughput at saturation, too.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from endcap._system.stages import Progress, no_progress
from endcap.client import ClientArguments, ConnectionOptions, DetectionClient
from endcap.errors import InvalidArgumentError
from endcap.server import ServerPorts, ServerSettings, TritonServer
from endcap.server.models import repository_with_texts
from endcap.terminal.failure import StopRequested, check_stop
from endcap.tools.load.arrivals import NOT_SENT, SENDERS, OpenLoopSenders, PoissonArrivals
from endcap.tools.load.load_test import TICK_S, Timing, measure_level
from endcap.tools.load.senders import ImageCycle, ThreadSenders
from endcap.tools.tune.disturbance import Disturbance
from endcap.tools.tune.settings import (
    AS_IT_IS,
    CLIENT,
    Configuration,
    Pipeline,
    describe,
)
from endcap.tools.tune.windows import Measured, Window
from endcap.triton.errors import ServerError

# Beside each file in a region of shared memory, and for the outputs of a request.
_ELEMENT_BYTES, _OUTPUT_BYTES = 64, 1 << 20
# Statuses of requests that came at a bad time: another rate may have none of them.
OVERLOAD = frozenset({"unavailable", "timeout"})
# A window has at least so many seconds before it for the queues to fill.
_SETTLING_S = 0.5
# Seconds of the closed loop; it is repeated for longer until so many requests end in it.
_WARM_UP_S = 0.4
_WARM_UPS = ((0.8, 10), (8.0, 2), (60.0, 1))
_WARM_UP_IN_FLIGHT = 8
_CHECKED_AT_ONCE = 64
# A window ends early once this share of its requests has taken so many times the limit.
LOST_BEYOND = 2.0
_LOST_SHARE = 0.05
_FEWEST_LOST = 8
# Ticks between two looks at what other programs do.
_LOOK_EVERY = 10
# No window is measured at a rate of which the closed loop reached less than this share.
_KEEPS_UP = 0.85


@dataclass(frozen=True)
class Traffic:
    """What is sent, over gRPC: encoded images with their names, so many in each request."""

    images: Sequence[bytes]
    names: Sequence[str]
    batch: int
    timeout_s: float


# Is called about every TICK_S of a measurement with what is done.
OnTick = Callable[[str], None]


class Bench:
    """Starts servers and measures.

    Args:
        pipeline: What is served.
        traffic: What is sent.
        limit_ms: The limit of the latency, from which windows end early that are lost.
        max_wait_s: Seconds to wait, in all, for other programs to let the CPUs alone.
        images_are_checked: See the attribute.
        tritonserver: As for ServerSettings.
        on_tick: Shows the progress.
        progress: Shows the installation of a server.

    Attributes:
        wait_left_s: What is left of these seconds.
        waited_s: Seconds of waiting, and of measurements that were given up for it.
        images_are_checked: Whether each image was sent once, and none has failed; in the run that
            earlier measurements are of, or in this one.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        traffic: Traffic,
        limit_ms: float,
        *,
        max_wait_s: float = 0.0,
        images_are_checked: bool = False,
        tritonserver: Path | None = None,
        on_tick: OnTick = lambda _: None,
        progress: Progress = no_progress,
    ) -> None:
        self.pipeline = pipeline
        self.traffic = traffic
        self.limit_ms = limit_ms
        self.wait_left_s = max_wait_s
        self.waited_s = 0.0
        self.images_are_checked = images_are_checked
        self.on_tick = on_tick
        self._tritonserver = tritonserver
        self._progress = progress

    @contextlib.contextmanager
    def serve(self, configuration: Configuration) -> Iterator[Served]:
        """Yield a configuration that is ready to be measured; its server ends with the block.

        Raises:
            InvalidArgumentError: An image fails.
            ServerError: It does not get ready, and the message says which model, and why; or it
                does not serve in time.
        """
        self.on_tick(f"{describe(configuration)}: start")
        shared = any(each.model == CLIENT for each in configuration)
        settings = ServerSettings(
            tritonserver=self._tritonserver,
            models=self.pipeline.served,
            ports=ServerPorts(http=0, grpc=0, metrics=0),
            client_shared_memory=shared,
        )
        texts = self.pipeline.texts(configuration)
        with (
            repository_with_texts(self.pipeline.repository, texts) as repository,
            TritonServer(repository, settings, progress=self._progress) as server,
        ):
            served = Served(self, configuration, server)
            served.warm_up()
            yield served

    def is_quiet(
        self, others: Disturbance, server: int | None, *, is_given_up: bool = False
    ) -> bool:
        """Return whether what was measured counts; wait, where other programs have disturbed it.

        It counts where no more time is left to wait, too, unless it was given up.
        """
        if not is_given_up and (self.wait_left_s <= 0 or not others.is_disturbing):
            return True
        begin_s = others.begin_s
        is_quiet = False
        while self.wait_left_s > 0 and not is_quiet:
            others = Disturbance(server)
            for _ in range(_LOOK_EVERY):
                time.sleep(TICK_S)
                check_stop()
                self.on_tick("waiting: other programs use the CPUs")
            is_quiet = not others.is_disturbing
            now_s = time.perf_counter()
            self.wait_left_s -= now_s - begin_s
            self.waited_s += now_s - begin_s
            begin_s = now_s
        return False


class Served:
    """A configuration that is served, and the windows that are measured on it."""

    def __init__(self, bench: Bench, configuration: Configuration, server: TritonServer) -> None:
        self.server = server
        self.saturation = 0.0
        self._bench = bench
        self._configuration = configuration
        self._is_full = False  # whether saturation is that of as many requests as may be in flight

    def client(self, concurrency: int) -> DetectionClient:
        """Return a client of the model, with the configuration's settings of clients."""
        traffic = self._bench.traffic
        shared = [each.value for each in self._configuration if each.model == CLIENT]
        largest = max(map(len, traffic.images))
        region_bytes = traffic.batch * (largest + _ELEMENT_BYTES) + _OUTPUT_BYTES
        return DetectionClient.from_arguments(
            ClientArguments(
                self.server.grpc_url,
                model=self._bench.pipeline.model,
                concurrency=concurrency,
                batch=traffic.batch,
                shared_memory="system" if "system" in shared else "none",
                region_bytes=region_bytes if shared else None,
                options=ConnectionOptions(timeout_s=traffic.timeout_s, retries=0),
            )
        )

    def warm_up(self) -> None:
        """Send requests as fast as they are served, for a second.

        The first server with the configuration as it is gets each image, too.

        Raises:
            InvalidArgumentError: An image fails.
            ServerError: No request is served, or one is not in time.
        """
        self.saturation = self._saturate_quietly(_WARM_UP_IN_FLIGHT)

    def _saturate_quietly(self, in_flight: int) -> float:
        while True:
            others = Disturbance(self.server.pid)
            saturation = self._saturate(in_flight)
            if self._configuration == AS_IT_IS and not self._bench.images_are_checked:
                # Before the wait for other programs, which an image that fails would waste.
                self._check_images()
                self._bench.images_are_checked = True
            if self._bench.is_quiet(others, self.server.pid):
                return saturation

    def _saturate(self, in_flight: int) -> float:
        traffic = self._bench.traffic
        name = f"{describe(self._configuration)}: {in_flight} in flight"

        def advance() -> None:
            check_stop()
            self._bench.on_tick(name)

        for seconds, fewest in _WARM_UPS:
            with self.client(in_flight) as client:
                cycle = ImageCycle(traffic.images, traffic.batch)
                senders = ThreadSenders(client, cycle, in_flight)
                timing = Timing(_WARM_UP_S, seconds)
                level = measure_level(in_flight, senders, timing, None, advance)
            if level is None or level.interrupted:
                raise StopRequested
            figures = level.figures
            if figures.requests >= fewest or not OVERLOAD.issuperset(figures.failures):
                break
        # Images that fail for another reason are named when each is tried.
        if not figures.requests and OVERLOAD.issuperset(figures.failures):
            failures = ", ".join(f"{n} {status}" for status, n in figures.failures.items())
            raise ServerError(
                f"no request was served within {seconds:g} s ({failures or 'none failed'})"
            )
        return figures.images_per_s

    def measure(self, window: Window) -> Measured:
        """Return what a window gives; it ends early where the limit is far exceeded.

        A rate of 0 gives the saturation only. Where other programs disturb it, it is measured
        again, as long as the bench may wait.

        Raises:
            ServerError: With more requests in flight none is served.
            StopRequested: A signal requested the end.
        """
        if window.rate == 0:
            return Measured(saturation=self.saturation)
        if not self._keeps_up(window.rate):
            return Measured(saturation=self.saturation, ended_early=True)
        while True:
            others = Disturbance(self.server.pid)
            measured = self._measure_once(window, others)
            is_given_up = measured is None
            is_quiet = self._bench.is_quiet(others, self.server.pid, is_given_up=is_given_up)
            if measured is not None and is_quiet:
                return measured

    def _keeps_up(self, rate: float) -> bool:
        """Return whether a rate may be reached; some servers need more requests in flight."""
        if self.saturation < _KEEPS_UP * rate and not self._is_full:
            self._is_full = True
            self.saturation = max(self.saturation, self._saturate_quietly(SENDERS))
        return self.saturation >= _KEEPS_UP * rate

    def _check_images(self) -> None:
        traffic = self._bench.traffic
        names, images = list(traffic.names), list(traffic.images)
        with self.client(_WARM_UP_IN_FLIGHT) as client:
            for first in range(0, len(images), _CHECKED_AT_ONCE):
                check_stop()
                self._bench.on_tick(f"images: {first} of {len(images)} tried")
                chosen = slice(first, first + _CHECKED_AT_ONCE)
                for name, image, result in zip(
                    names[chosen], images[chosen], client.detect(images[chosen]), strict=True
                ):
                    # A busy server may take it alone; it may have failed with a neighbour, too.
                    again = result if result.ok else client.detect_one(image)
                    if again.status in OVERLOAD:
                        raise ServerError(f"image {name}, sent alone: {again.error}")
                    if not again.ok:
                        raise InvalidArgumentError(
                            f"image {name} fails ({again.status}: {again.error}); leave it out"
                        )

    def _measure_once(self, window: Window, others: Disturbance) -> Measured | None:
        """Return what a window gives; None where other programs have disturbed it."""
        traffic = self._bench.traffic
        arrivals = PoissonArrivals(
            traffic.images, traffic.batch, window.rate / traffic.batch, window.seed
        )
        with self.client(SENDERS) as client:
            senders = OpenLoopSenders(client, arrivals)
            try:
                begin_s = time.perf_counter() + _SETTLING_S
                cpu_s = time.process_time()
                is_given_up = self._wait(window, senders, begin_s, others)
            finally:
                end_s = min(time.perf_counter(), begin_s + window.seconds)
                cpu_s = time.process_time() - cpu_s
                others_cpu = others.cores()
                senders.stop()
        if is_given_up:
            return None
        ended_early = end_s < begin_s + window.seconds
        counted = [each for each in senders.requests if begin_s <= each.counted_s < end_s]
        times = sorted(round(each.latency_ms, 3) for each in counted if each.latency_ms is not None)
        failures: Counter[str] = Counter()
        refused = 0
        for request in counted:
            failures.update(request.failures)
            refused += request.latency_ms is None and not OVERLOAD.isdisjoint(request.failures)
        return Measured(
            latencies_ms=tuple(times),
            failures=dict(failures),
            refused=refused,
            lasted_s=end_s - begin_s,
            saturation=self.saturation,
            client_cpu=cpu_s / (end_s - begin_s + _SETTLING_S),
            others_cpu=others_cpu,
            problem=_problem(failures),
            ended_early=ended_early,
        )

    def _wait(
        self, window: Window, senders: OpenLoopSenders, begin_s: float, others: Disturbance
    ) -> bool:
        """Wait for the end of a window, or until it need not be finished.

        That is where so many requests are slow or refused that it is lost, or where other programs
        disturb it and it has to be measured again: then the return value is true.
        """
        bench = self._bench
        end_s = begin_s + window.seconds
        slow_ms = LOST_BEYOND * bench.limit_ms
        most = max(_FEWEST_LOST, _LOST_SHARE * window.rate / bench.traffic.batch * window.seconds)
        name = f"{describe(window.configuration)}: {window.rate:.3g} images/s"
        seen = slow = ticks = 0
        while (left := end_s - time.perf_counter()) > 0 and slow <= most:
            time.sleep(min(left, TICK_S))
            check_stop()
            senders.check()
            bench.on_tick(name)
            ticks += 1
            if ticks % _LOOK_EVERY == 0 and bench.wait_left_s > 0 and others.is_disturbing:
                return True
            new = senders.requests[seen:]
            seen += len(new)
            slow += sum(
                not OVERLOAD.isdisjoint(each.failures)
                if each.latency_ms is None
                else each.latency_ms > slow_ms
                for each in new
                if each.counted_s >= begin_s
            )
        return False


def _problem(failures: Mapping[str, int]) -> str | None:
    failed = {status: n for status, n in failures.items() if status not in {NOT_SENT, *OVERLOAD}}
    if not failed:
        return None
    return "images failed: " + ", ".join(f"{n} {status}" for status, n in failed.items())
