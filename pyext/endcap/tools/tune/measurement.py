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
    CLIENT,
    Configuration,
    Pipeline,
    describe,
)
from endcap.tools.tune.windows import Measured, Window

# Beside each file in a region of shared memory, and for the outputs of a request.
_ELEMENT_BYTES, _OUTPUT_BYTES = 64, 1 << 20
# A window has at least so many seconds before it for the queues to fill.
_SETTLING_S = 0.5
_WARM_UP = Timing(warmup_s=0.4, duration_s=0.8)
_WARM_UP_IN_FLIGHT = 8
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
        tritonserver: As for ServerSettings.
        on_tick: Shows the progress.
        progress: Shows the installation of a server.

    Attributes:
        wait_left_s: What is left of these seconds.
        waited_s: Seconds of waiting, and of measurements that were given up for it.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        traffic: Traffic,
        limit_ms: float,
        *,
        max_wait_s: float = 0.0,
        tritonserver: Path | None = None,
        on_tick: OnTick = lambda _: None,
        progress: Progress = no_progress,
    ) -> None:
        self.pipeline = pipeline
        self.traffic = traffic
        self.limit_ms = limit_ms
        self.wait_left_s = max_wait_s
        self.waited_s = 0.0
        self.on_tick = on_tick
        self._tritonserver = tritonserver
        self._progress = progress

    @contextlib.contextmanager
    def serve(self, configuration: Configuration) -> Iterator[Served]:
        """Yield a configuration that is ready to be measured; its server ends with the block.

        Raises:
            ServerError: It does not get ready; the message says which model, and why.
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

    def is_quiet(self, others: Disturbance, server: int | None) -> bool:
        """Return whether what was measured counts; wait, where other programs have disturbed it.

        It counts where no more time is left to wait, too.
        """
        if self.wait_left_s <= 0 or not others.is_disturbing:
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
        """Send requests as fast as they are served, for a second."""
        while True:
            others = Disturbance(self.server.pid)
            saturation = self._saturate()
            if self._bench.is_quiet(others, self.server.pid):
                break
        self.saturation = saturation

    def _saturate(self) -> float:
        traffic = self._bench.traffic
        with self.client(_WARM_UP_IN_FLIGHT) as client:
            cycle = ImageCycle(traffic.images, traffic.batch)
            senders = ThreadSenders(client, cycle, _WARM_UP_IN_FLIGHT)
            level = measure_level(_WARM_UP_IN_FLIGHT, senders, _WARM_UP, None, check_stop)
        if level is None or level.interrupted:
            raise StopRequested
        return level.figures.images_per_s

    def measure(self, window: Window) -> Measured:
        """Return what a window gives; it ends early where the limit is far exceeded.

        A rate of 0 gives the saturation only, after each image was sent once. Where other programs
        disturb it, it is measured again, as long as the bench may wait.

        Raises:
            InvalidArgumentError: An image fails.
            StopRequested: A signal requested the end.
        """
        if window.rate == 0:
            self._check_images()
            return Measured(saturation=self.saturation)
        if self.saturation < _KEEPS_UP * window.rate:
            return Measured(saturation=self.saturation, ended_early=True)
        while True:
            others = Disturbance(self.server.pid)
            measured = self._measure_once(window, others)
            if self._bench.is_quiet(others, self.server.pid):
                return measured

    def _check_images(self) -> None:
        traffic = self._bench.traffic
        with self.client(1) as client:
            for name, image in zip(traffic.names, traffic.images, strict=True):
                check_stop()
                result = client.detect_one(image)
                if not result.ok:
                    raise InvalidArgumentError(
                        f"image {name} fails ({result.status}: {result.error}); leave it out"
                    )

    def _measure_once(self, window: Window, others: Disturbance) -> Measured:
        traffic = self._bench.traffic
        arrivals = PoissonArrivals(
            traffic.images, traffic.batch, window.rate / traffic.batch, window.seed
        )
        with self.client(SENDERS) as client:
            senders = OpenLoopSenders(client, arrivals)
            try:
                begin_s = time.perf_counter() + _SETTLING_S
                cpu_s = time.process_time()
                self._wait(window, senders, begin_s, others)
            finally:
                end_s = min(time.perf_counter(), begin_s + window.seconds)
                cpu_s = time.process_time() - cpu_s
                others_cpu = others.cores()
                senders.stop()
        ended_early = end_s < begin_s + window.seconds
        counted = [each for each in senders.requests if begin_s <= each.counted_s < end_s]
        times = sorted(round(each.latency_ms, 3) for each in counted if each.latency_ms is not None)
        failures: Counter[str] = Counter()
        for request in counted:
            failures.update(request.failures)
        return Measured(
            latencies_ms=tuple(times),
            failures=dict(failures),
            lasted_s=end_s - begin_s,
            saturation=self.saturation,
            client_cpu=cpu_s / (end_s - begin_s + _SETTLING_S),
            others_cpu=others_cpu,
            problem=_problem(failures),
            ended_early=ended_early,
        )

    def _wait(
        self, window: Window, senders: OpenLoopSenders, begin_s: float, others: Disturbance
    ) -> None:
        """Wait for the end of a window, or until it need not be finished.

        That is where so many requests are slow that it is lost, or where other programs disturb it
        and it will be measured again.
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
                break
            new = senders.requests[seen:]
            seen += len(new)
            slow += sum(
                each.latency_ms is not None and each.latency_ms > slow_ms
                for each in new
                if each.counted_s >= begin_s
            )


def _problem(failures: Mapping[str, int]) -> str | None:
    failed = {status: n for status, n in failures.items() if status != NOT_SENT}
    if not failed:
        return None
    return "images failed: " + ", ".join(f"{n} {status}" for status, n in failed.items())
