"""Latency of the demo's images, sent one at a time, at the client and in the server."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from endcap.cli.console import count, progress_bar
from endcap.client import Connection, DetectionClient, ImageResult
from endcap.tools.load import ModelTime, mean_times, read_statistics, summarize_latency

_COUNTED_WITHIN_S = 0.2  # a model counts a request after its response is sent


@dataclass(frozen=True)
class Latency:
    """Times of requests that were sent one at a time.

    Attributes:
        times_ms: Milliseconds from request to response, by image, of successful requests.
        elapsed_s: Duration of the measurement, with reading the files.
        server: Times in the server of the model and of its composing models, if it gives them.
        failures: The requests that failed; they count nowhere else.
    """

    protocol: str
    times_ms: Mapping[str, Sequence[float]]
    elapsed_s: float
    server: Sequence[ModelTime]
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
        summary = summarize_latency(self.all_ms)
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
            "server_ms": [each._asdict() for each in self.server],
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
    with (
        Connection(client.address, client.options) as connection,
        progress_bar("timing", repeat * len(images)) as advance,
    ):
        before = read_statistics(connection, client.model)
        begin = time.perf_counter()
        for _ in range(repeat):
            for result in client.detect(images, on_result=lambda _: advance()):
                if result.ok and result.latency_ms is not None:
                    times.setdefault(result.image, []).append(result.latency_ms)
                else:
                    failures.append(result)
        elapsed_s = time.perf_counter() - begin
        time.sleep(_COUNTED_WITHIN_S)
        server = mean_times(before, read_statistics(connection, client.model))
    if not times:
        return None
    return Latency(client.address.protocol, times, elapsed_s, server, failures)


def as_tables(latency: Latency) -> Group:
    """Return tables of the times at the client and in the server."""
    requests = count(len(latency.all_ms), "request")
    title = f"Latency of {requests}, one at a time over {latency.protocol}"
    summary = {f"{name} ms": each for name, each in latency.summary().items()}
    summary["images/s"] = latency.images_per_s
    client = _table(*summary)
    client.add_row(*(f"{value:.1f}" for value in summary.values()))
    parts: list[Text | Table] = [Text(title, style="bold"), client]
    mean_ms = latency.summary()["mean"]
    if not latency.server:
        return Group(*parts, Text("The server gives no statistics."))
    table = _table("", "queue", "in and out", "compute", "total")
    whole, *steps = latency.server
    for step in steps or [whole]:
        times = (step.queue, step.transfer, step.compute, step.total)
        table.add_row(step.model, *(f"{each:.2f}" for each in times))
    if steps:
        table.add_section()
        table.add_row("server, total", "", "", "", f"{whole.total:.2f}")
    rest_ms = mean_ms - whole.total
    table.add_row("network and client", "", "", "", f"{rest_ms:.2f}", end_section=True)
    table.add_row("client, total", "", "", "", f"{mean_ms:.2f}", style="bold")
    parts += [Text("Where the time went, ms per request on average", style="bold"), table]
    if sum(step.total for step in steps) > whole.total:
        parts.append(Text("The models' times overlap: their sum is more than the server's."))
    if whole.requests != len(latency.all_ms):
        parts.append(
            Text(
                f"The server counted {count(whole.requests, 'request')}: other clients use it, and "
                "its times include their requests."
            )
        )
    return Group(*parts)


def _table(*titles: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title else "left")
    return table
