"""Reports of a load test: table, JSON and CSV."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rich.console import Group
from rich.table import Table
from rich.text import Text

from endcap.terminal.console import count, printable
from endcap.terminal.table import UNKNOWN, Column, fitting_table, number
from endcap.tools.load.load_test import PERCENTILES, Level

CSV_COLUMNS = (
    "concurrency", "seconds", "requests", "images", "images_per_s", "p50_ms", "p90_ms", "p99_ms",
    "mean_ms", "min_ms", "max_ms", "server_ms", "queue_ms", "compute_ms", "client_cpu", "failed",
    "rate",
)  # fmt: skip

_COLUMNS: tuple[Column[Level], ...] = (
    Column("in flight", lambda level: _in_flight(level), optional=True),
    Column("rate/s", lambda level: _rate(level), optional=True),
    Column("images/s", lambda level: number(level.figures.images_per_s)),
    Column("requests", lambda level: str(level.figures.requests), rank=5),
    Column("p50 ms", lambda level: number(level.figures.latency_ms.get("p50")), rank=1),
    Column("p90 ms", lambda level: number(level.figures.latency_ms.get("p90")), rank=2),
    Column("p99 ms", lambda level: number(level.figures.latency_ms.get("p99")), rank=1),
    Column("mean ms", lambda level: number(level.figures.latency_ms.get("mean")), rank=6),
    Column("server ms", lambda level: number(_server(level, "total")), rank=3, optional=True),
    Column("queue ms", lambda level: number(_server(level, "queue")), rank=4, optional=True),
    Column("compute ms", lambda level: number(_server(level, "compute")), rank=4, optional=True),
    Column("client CPU", lambda level: number(level.client_cpu, 2), rank=3),
    Column("failed", lambda level: str(sum(level.figures.failures.values())), rank=2),
)
_EXPLANATION = (
    "Times from an image's bytes to its detections, of the requests that ended in the window, or "
    "from a request's scheduled arrival, of those scheduled in the window; "
    f"percentiles by {PERCENTILES}. Server, queue and compute are the server's own means. Client "
    "CPU is in cores."
)


def as_json(levels: Sequence[Level], settings: Mapping[str, Any]) -> str:
    """Return a JSON object with the settings and the levels."""
    rows = [level.to_json() for level in levels]
    return json.dumps({**settings, "percentiles": PERCENTILES, "levels": rows}, indent=2)


def as_csv(levels: Sequence[Level]) -> str:
    """Return a header, CSV_COLUMNS, and a row for each level; unknown figures are empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for level in levels:
        shown, times = level.figures, level.figures.latency_ms
        measured = [times.get(name) for name in ("p50", "p90", "p99", "mean", "min", "max")]
        parts = [_server(level, "total"), _server(level, "queue"), _server(level, "compute")]
        writer.writerow(
            (
                *(level.concurrency, shown.seconds, shown.requests, shown.images),
                *(shown.images_per_s, *measured, *parts, level.client_cpu),
                sum(shown.failures.values()),
                level.rate,
            )
        )
    return text.getvalue().removesuffix("\n")


def as_table(levels: Sequence[Level], heading: str, width: int) -> Group:
    """Return the table, at most `width` characters wide, an explanation and warnings."""
    parts: list[Text | Table] = [Text(heading + "\n", style="bold")]
    parts.append(fitting_table(_COLUMNS, levels, width))
    parts.append(Text("\n" + _EXPLANATION, style="dim"))
    parts += (Text(line, style="yellow") for line in _warnings(levels))
    return Group(*parts)


def _in_flight(level: Level) -> str:
    return str(level.concurrency) if level.rate is None else UNKNOWN


def _rate(level: Level) -> str:
    return UNKNOWN if level.rate is None else f"{level.rate:g}"


def _server(level: Level, part: Literal["total", "queue", "compute"]) -> float | None:
    return getattr(level.server, part) if level.server else None


def _warnings(levels: Sequence[Level]) -> list[str]:
    lines = []
    for level in levels:
        name = level.name
        if level.figures.failures:
            failed = ", ".join(f"{n} {status}" for status, n in level.figures.failures.items())
            lines.append(f"{name}: images failed: {failed}.")
        if level.is_client_saturated:
            lines.append(
                f"{name}: this client used {level.client_cpu:.2f} cores; the figures may be its "
                "limit, not the server's. Run several of them at once."
            )
        if level.foreign_requests:
            lines.append(
                f"{name}: the server counted {count(level.foreign_requests, 'request')} more than "
                "this client: other clients use it, and its times include their requests."
            )
        if level.server_problem:
            lines.append(f"{name}: the server's times are not known: {level.server_problem}.")
        if level.interrupted:
            lines.append(f"{name}: interrupted after {level.figures.seconds:.1f} s.")
    return [printable(line) for line in lines]
