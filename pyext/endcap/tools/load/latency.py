"""Latency of images sent one at a time, at the client and in the server."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from endcap.client import DetectionClient, ImageResult
from endcap.terminal.console import count
from endcap.terminal.progress import progress_bar
from endcap.tools.load.load_test import latency_summary
from endcap.tools.load.server_times import ModelTime, ServerStatistics, ServerTimes


@dataclass(frozen=True)
class Latency:
    """Times of requests that were sent one at a time.

    Attributes:
        times_ms: Milliseconds from request to response, by image, of successful requests.
        elapsed_s: Duration of the measurement, with reading the files.
        server: Times in the server; None with the reason in `server_problem`.
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
        """Times of all images."""
        return [each for times in self.times_ms.values() for each in times]

    @property
    def images_per_s(self) -> float:
        """Throughput."""
        return len(self.all_ms) / self.elapsed_s

    def summary(self) -> dict[str, float]:
        """Return mean, median, p90, p99, min and max in milliseconds."""
        summary = latency_summary(self.all_ms)
        return {"median" if name == "p50" else name: each for name, each in summary.items()}

    def to_json(self) -> dict[str, Any]:
        """Return the content of latency.json; times are milliseconds."""
        return {
            "requests": len(self.all_ms),
            "failed": len(self.failures),
            "concurrency": 1,
            "protocol": self.protocol,
            "images_per_s": self.images_per_s,
            "client_ms": self.summary(),
            "server_ms": dataclasses.asdict(self.server) if self.server else None,
            "images": [
                {"image": image, "latency_ms": list(times)}
                for image, times in self.times_ms.items()
            ],
        }


def measure(client: DetectionClient, images: Sequence[Path], repeat: int) -> Latency | None:
    """Send every image `repeat` times, each request after the response to the one before.

    The client's concurrency must be 1. Returns None when no request succeeded.
    """
    times: dict[str, list[float]] = {}
    failures: list[ImageResult] = []
    statistics = ServerStatistics(client.address, client.model, options=client.options)
    with contextlib.closing(statistics), progress_bar("timing", repeat * len(images)) as advance:
        statistics.restart()
        begin = time.perf_counter()
        for _ in range(repeat):
            for result in client.detect(images, on_result=lambda _: advance()):
                if result.ok and result.latency_ms is not None:
                    times.setdefault(result.image, []).append(result.latency_ms)
                else:
                    failures.append(result)
        elapsed_s = time.perf_counter() - begin
        server = statistics.times()
    if not times:
        return None
    protocol = client.address.protocol
    return Latency(protocol, times, elapsed_s, server, statistics.problem, failures)


def as_tables(latency: Latency) -> Group:
    """Return tables of the times at the client and in the server."""
    requests = count(len(latency.all_ms), "request")
    parts: list[Text | Table] = [
        Text(f"Latency of {requests}, one at a time over {latency.protocol}", style="bold"),
        _client_table(latency),
    ]
    if latency.server is not None:
        parts += [
            Text("Where the time went, ms per request on average", style="bold"),
            _server_table(latency.server, latency.summary()["mean"]),
        ]
        if latency.server.steps_overlap:
            parts.append(Text("The models' times overlap: their sum is more than the server's."))
        if _counted(latency.server) != len(latency.all_ms):
            parts.append(
                Text(
                    f"The server counted {count(_counted(latency.server), 'request')}: other "
                    "clients use it, and its times include their requests."
                )
            )
    elif latency.server_problem:
        parts.append(Text(f"Where the time went is not known: {latency.server_problem}."))
    return Group(*parts)


def _client_table(latency: Latency) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    columns = {f"{name} ms": each for name, each in latency.summary().items()}
    columns["images/s"] = latency.images_per_s
    for title in columns:
        table.add_column(title, justify="right")
    table.add_row(*(f"{value:.1f}" for value in columns.values()))
    return table


def _server_table(server: ServerTimes, client_mean_ms: float) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("")
    for name in ("queue", "in and out", "compute", "total"):
        table.add_column(name, justify="right")
    for step in server.steps or filter(None, [server.whole]):
        table.add_row(*_cells(step))
    rest = client_mean_ms - server.total
    if server.steps:
        table.add_section()
        table.add_row("server, total", "", "", "", f"{server.total:.2f}")
    table.add_row("network and client", "", "", "", f"{rest:.2f}", end_section=True)
    table.add_row("client, total", "", "", "", f"{client_mean_ms:.2f}", style="bold")
    return table


def _counted(server: ServerTimes) -> int:
    return server.whole.requests if server.whole else 0


def _cells(step: ModelTime) -> tuple[str, ...]:
    numbers = (step.queue, step.transfer, step.compute, step.total)
    return (step.model, *(f"{each:.2f}" for each in numbers))
