"""endcap load: throughput and latency of a running server."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from endcap.cli.console import INTERRUPTED, SOME_IMAGE_FAILED, StopRequested, count, say
from endcap.cli.files import SAMPLES, find_repository
from endcap.cli.images import expand_images
from endcap.cli.options import MODEL, SERVER, AsJson, ServerOptions, command
from endcap.cli.report import write_table, write_text
from endcap.client import ClientArguments
from endcap.errors import InvalidArgumentError
from endcap.tools.load import Level, measure_level

EXAMPLES = """
**Examples**

- `endcap load photos/ --concurrency 1,8,32 --duration 10`

- `endcap load photos/ --duration 30 --json`

**Exit code**: 0 without errors, 1 when an image failed, 2 when no request could be sent, 130 when
interrupted; the levels measured until then are reported.
"""

_CLIENT = ClientArguments()
_MAX_BYTES = 512 << 20


@command(server=SERVER)
def load(
    server: ServerOptions,
    images: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, folders and glob patterns. Default: the samples of the package.",
        ),
    ] = None,
    model: Annotated[str, MODEL] = _CLIENT.model,
    concurrency: Annotated[
        str, typer.Option(help="Requests in flight at once, by level.", metavar="N,N,...")
    ] = "1,4,16",
    duration: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds of the measurement of each level.")
    ] = 5.0,
    warmup: Annotated[
        float, typer.Option(min=0, max=3600, help="Seconds before it that do not count.")
    ] = 1.0,
    json_output: AsJson = False,
) -> None:
    """Measure the throughput and latency of a running server under load.

    Each sender sends its next request after the last response; the requests that end in the window
    of --duration count.

    p50, p90 and p99 are latencies of requests, from the image's bytes to its detections. server,
    queue and compute are means of the server's own statistics over the window; queue and compute
    are those of all models of an ensemble. --json has these figures, failures by status, and the
    server's times by model.
    """
    levels = _read_levels(concurrency)
    arguments = server.client_arguments(model=model, retries=0)
    paths = expand_images(images or [str(find_repository() / SAMPLES)])
    if sum(path.stat().st_size for path in paths) > _MAX_BYTES:
        raise InvalidArgumentError(
            f"the images are held in memory; give at most {_MAX_BYTES >> 20} MiB"
        )
    contents = [path.read_bytes() for path in paths]
    measured: list[Level] = []
    try:
        for senders in levels:
            name = f"{senders} in flight"
            say(f"endcap: {name}, {warmup + duration:g} s")
            level = measure_level(
                dataclasses.replace(arguments, concurrency=senders),
                contents,
                warmup_s=warmup,
                duration_s=duration,
                progress=lambda text: say(f"endcap: {text}"),
            )
            measured.append(level)
            for status, number in level.failures.items():
                say(f"endcap: {name}: {count(number, 'image')} failed: {status}")
    except StopRequested:
        say(f"endcap: interrupted in level {len(measured) + 1} of {len(levels)}")
    if json_output:
        rows = [
            {**vars(level), "server_ms": [each._asdict() for each in level.server_ms]}
            for level in measured
        ]
        write_text(
            json.dumps({"model": model, "batch": server.batch, "levels": rows}, indent=2),
            sys.stdout,
        )
    elif measured:
        write_table(_make_table(measured), sys.stdout)
    if len(measured) < len(levels):
        raise typer.Exit(INTERRUPTED)
    if any(level.failures for level in measured):
        raise typer.Exit(SOME_IMAGE_FAILED)


def _read_levels(text: str) -> list[int]:
    try:
        levels = [int(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or not all(0 < level <= 1024 for level in levels):
        raise InvalidArgumentError(
            f"--concurrency {text!r} is not a list of numbers from 1 to 1024; write 1,4,16"
        )
    return levels


def _make_table(levels: Sequence[Level]) -> Table:
    """Return a row for each level."""
    table = Table(box=None, pad_edge=False)
    for title in ("in flight", "images/s", "requests",
                  "p50 ms", "p90 ms", "p99 ms", "server ms", "queue ms", "compute ms"):  # fmt: skip
        table.add_column(title, justify="right", no_wrap=True, min_width=len(title))
    for level in levels:
        times = [level.latency_ms.get(percentile) for percentile in ("p50", "p90", "p99")]
        if level.server_ms:
            whole, *steps = level.server_ms
            queue_ms = sum(each.queue for each in level.server_ms)
            times += [whole.total, queue_ms, sum(each.compute for each in steps or [whole])]
        else:
            times += [None] * 3
        table.add_row(
            str(level.concurrency),
            f"{level.images_per_s:.1f}",
            str(level.requests),
            *("-" if each is None else f"{each:.1f}" for each in times),
        )
    return table
