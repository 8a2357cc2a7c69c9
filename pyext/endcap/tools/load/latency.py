"""How long images take one at a time: measured at the client, and split up by the server."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from endcap.client import ClientError, DetectionClient, ImageResult
from endcap.terminal.console import count
from endcap.terminal.progress import progress_bar
from endcap.tools.load.server_times import ModelTime, ServerClock, ServerTimes


@dataclass(frozen=True)
class Latency:
    """Times of requests that were sent one at a time.

    Attributes:
        times_ms: By image, milliseconds from sending each request to its answer; answered ones
            only.
        elapsed_s: The whole measurement, with reading the files.
        server: What the server says about these requests; None with the reason in `server_problem`.
        failures: The requests that failed; they count nowhere else.
    """

    protocol: str
    times_ms: Mapping[str, Sequence[float]]
    elapsed_s: float
    server: ServerTimes | None
    server_problem: str | None
    failures: Sequence[ImageResult]

    @property
    def all_ms(self) -> list[float]:
        """Every time, whatever the image."""
        return [each for times in self.times_ms.values() for each in times]

    def summary(self) -> dict[str, float]:
        """Return mean, median, p90, p99, min, max in milliseconds and images_per_s."""
        times = self.all_ms
        median, p90, p99 = (float(each) for each in np.percentile(times, (50, 90, 99)))
        return {
            "mean": float(np.mean(times)),
            "median": median,
            "p90": p90,
            "p99": p99,
            "min": min(times),
            "max": max(times),
            "images_per_s": len(times) / self.elapsed_s,
        }

    def to_json(self) -> dict[str, Any]:
        """Return what the demo writes to latency.json; times are milliseconds."""
        client = self.summary()
        return {
            "requests": len(self.all_ms),
            "failed": len(self.failures),
            "concurrency": 1,
            "protocol": self.protocol,
            "images_per_s": client.pop("images_per_s"),
            "client_ms": client,
            "server_ms": dataclasses.asdict(self.server) if self.server else None,
            "images": [
                {"image": image, "latency_ms": list(times)}
                for image, times in self.times_ms.items()
            ],
        }


def measure(client: DetectionClient, images: Sequence[Path], repeat: int) -> Latency | None:
    """Send every image `repeat` times, each request after the answer to the one before.

    The client's concurrency must be 1. Returns None when no request was answered.
    """
    times: dict[str, list[float]] = {}
    failures: list[ImageResult] = []
    with _ServerPart(client) as server, progress_bar("timing", repeat * len(images)) as advance:
        begin = time.perf_counter()
        for _ in range(repeat):
            for result in client.detect(images, on_result=lambda _: advance()):
                if result.ok and result.latency_ms is not None:
                    times.setdefault(result.image, []).append(result.latency_ms)
                else:
                    failures.append(result)
        elapsed_s = time.perf_counter() - begin
    if not times:
        return None
    protocol = client.address.protocol
    return Latency(protocol, times, elapsed_s, server.times, server.problem, failures)


class _ServerPart:
    """What the server says about the requests of the block; a problem with that spoils nothing."""

    def __init__(self, client: DetectionClient) -> None:
        self._client = client
        self._resources = contextlib.ExitStack()
        self._clock: ServerClock | None = None
        self.times: ServerTimes | None = None
        self.problem: str | None = None

    def __enter__(self) -> _ServerPart:
        try:
            self._clock = ServerClock(
                self._client.address, self._client.model, options=self._client.options
            )
            self._resources.callback(self._clock.close)
        except ClientError as error:
            self.problem = str(error)
        return self

    def __exit__(self, *failure: object) -> None:
        with self._resources:
            if self._clock is not None and failure == (None, None, None):
                try:
                    self.times = self._clock.times()
                except ClientError as error:
                    self.problem = str(error)
                else:
                    self.problem = None if self.times else "the server counted no request"


def as_tables(latency: Latency) -> Group:
    """Return the client's times, and below them where the time went."""
    requests = count(len(latency.all_ms), "request")
    parts: list[Text | Table] = [
        Text(f"Latency of {requests}, one at a time over {latency.protocol}", style="bold"),
        _client_table(latency.summary()),
    ]
    if latency.server is not None:
        parts += [
            Text("Where the time went, ms per request on average", style="bold"),
            _server_table(latency.server, latency.summary()["mean"]),
        ]
        if latency.server.steps_overlap:
            parts.append(Text("The models' times overlap: they add up to more than the server's."))
        if latency.server.whole.requests != len(latency.all_ms):
            parts.append(
                Text(
                    f"The server counted {count(latency.server.whole.requests, 'request')}: others "
                    "use it, too, and their requests are in its part."
                )
            )
    elif latency.server_problem:
        parts.append(Text(f"Where the time went is not known: {latency.server_problem}."))
    return Group(*parts)


def _client_table(numbers: Mapping[str, float]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in numbers:
        table.add_column("images/s" if name == "images_per_s" else f"{name} ms", justify="right")
    table.add_row(*(f"{value:.1f}" for value in numbers.values()))
    return table


def _server_table(server: ServerTimes, client_mean_ms: float) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in ("queue", "in and out", "compute", "all"):
        table.add_column(name, justify="right")
    for step in server.steps or [server.whole]:
        table.add_row(*_cells(step))
    rest = client_mean_ms - server.whole.total
    if server.steps:
        table.add_section()
        table.add_row("the server in all", "", "", "", f"{server.whole.total:.2f}")
    table.add_row("network and client", "", "", "", f"{rest:.2f}", end_section=True)
    table.add_row("as the client sees it", "", "", "", f"{client_mean_ms:.2f}", style="bold")
    return table


def _cells(step: ModelTime) -> tuple[str, ...]:
    numbers = (step.queue, step.transfer, step.compute, step.total)
    return (step.model, *(f"{each:.2f}" for each in numbers))
