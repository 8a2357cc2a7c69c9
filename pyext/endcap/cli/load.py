"""endcap load: how much a running server does, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from endcap.cli.connection_options import connection_options
from endcap.cli.demo import SAMPLES, find_repository
from endcap.cli.images import expand_images
from endcap.cli.options import (
    Batch,
    Compression,
    Headers,
    Model,
    Protocol,
    RegionBytes,
    SharedMemory,
    Shm,
    Timeout,
    TlsCa,
    Url,
    UseAsyncio,
    Verbose,
)
from endcap.cli.overwrite_check import refuse_to_overwrite
from endcap.cli.region_size import check_region_bytes
from endcap.cli.report_form import Form, chosen_form, report_stream, write_table, write_text
from endcap.client import ClientArguments
from endcap.errors import InvalidArgumentError
from endcap.terminal.console import PlainConsole, count
from endcap.terminal.failure import (
    INTERRUPTED,
    SOME_IMAGE_FAILED,
    report_errors,
    say,
    stopped_by_signals,
)
from endcap.tools.load.load_test import Level, LoadTest, Timing
from endcap.tools.load.report import as_csv, as_json, as_table

EXAMPLES = """
**Examples**

- `endcap load`

- `endcap load photos/ --concurrency 1,8,32 --duration 10`

- `endcap load photo.jpg --protocol http --json`

- `endcap load --shm system --csv --output figures.csv`

**Exit code**: 0 when all went well, 1 when an image failed, 2 when nothing could be asked, 130 when
it was interrupted; what was measured until then is reported.
"""

_MOST_CONCURRENT = 1024
_MOST_BYTES = 512 << 20


def load(
    images: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, folders and glob patterns. Else the samples of the package.",
            metavar="[IMAGE]...",
            show_default=False,
        ),
    ] = None,
    url: Url = "127.0.0.1",
    protocol: Protocol = None,
    model: Model = "detect",
    timeout: Timeout = 30.0,
    concurrency: Annotated[
        str,
        typer.Option(help="Requests in flight at once, level by level.", metavar="N,N,..."),
    ] = "1,4,16",
    duration: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds that count, of each level.")
    ] = 5.0,
    warmup: Annotated[
        float, typer.Option(min=0, max=3600, help="Seconds before them that do not.")
    ] = 1.0,
    batch: Batch = 1,
    shm: Shm = SharedMemory.none,
    region_bytes: RegionBytes = None,
    use_asyncio: UseAsyncio = False,
    header: Headers = None,
    tls_ca: TlsCa = None,
    compression: Compression = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
    csv_output: Annotated[
        bool, typer.Option("--csv", help="Print CSV, a row for each level.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="File for the report, instead of printing it.",
            show_default=False,
        ),
    ] = None,
    verbose: Verbose = False,
) -> None:
    """Put load on a running server and tell its throughput and latency.

    A closed loop: at each level so many senders are at work, and each sends its next request when
    the last is answered. The images are held in memory and taken in turn; nothing is asked again.
    After the warm-up a window of --duration seconds begins, and the requests that end in it count.

    images/s are those answered well. p50, p90, p99 and mean are the times of a request, from the
    images' bytes to their detections, so with what the client does to them; percentiles by linear
    interpolation between the closest ranks. server, queue and compute are the means of the server's
    own statistics over the window, of all requests that it had: queue is that of the model and of
    an ensemble's steps, compute that of the models. client CPU is how many cores this program used;
    where it nears one, the figures may be its limit, and that is said.

    --json has the settings and for each level these figures, with failures by status and the
    server's times step by step; --csv has one row for each level.
    """
    form = chosen_form(json=json_output, csv=csv_output)
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        levels = _read_levels(concurrency)
        check_region_bytes(region_bytes, is_shared=shm is not SharedMemory.none)
        paths = expand_images(images or [str(find_repository() / SAMPLES)])
        if output is not None:
            read = [*paths, tls_ca] if tls_ca is not None else paths
            refuse_to_overwrite(read, [output], advice="give --output another file")
        arguments = ClientArguments(
            url,
            protocol=protocol.value if protocol else None,
            model=model,
            batch=batch,
            shared_memory=shm.value,
            region_bytes=region_bytes,
            options=connection_options(
                timeout=timeout,
                retries=0,
                headers=header or (),
                tls_ca=tls_ca,
                compression=compression,
            ),
        )
        timing = Timing(warmup, duration)
        test = LoadTest(arguments, _read(paths), timing, use_asyncio=use_asyncio)
        with report_stream(output) as stream:
            measured = test.run(levels)
            if form is Form.json:
                write_text(as_json(measured, test.describe()), stream)
            elif form is Form.csv:
                write_text(as_csv(measured), stream)
            else:
                width = PlainConsole(file=stream).width
                write_table(as_table(measured, test.heading(), width), stream)
    _end(measured, levels)


def _read_levels(text: str) -> list[int]:
    try:
        levels = [int(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or not all(1 <= level <= _MOST_CONCURRENT for level in levels):
        raise InvalidArgumentError(
            f"concurrency {text!r} is no list of numbers from 1 to {_MOST_CONCURRENT}; write 1,4,16"
        )
    return levels


def _read(paths: Sequence[Path]) -> list[bytes]:
    size = sum(path.stat().st_size for path in paths)
    if size > _MOST_BYTES:
        raise InvalidArgumentError(
            f"{count(len(paths), 'image')} of {size >> 20} MiB are too many to hold in memory; "
            f"give at most {_MOST_BYTES >> 20} MiB"
        )
    return [path.read_bytes() for path in paths]


def _end(measured: Sequence[Level], levels: Sequence[int]) -> None:
    failures = sum(sum(level.figures.failures.values()) for level in measured)
    if len(measured) < len(levels) or any(level.interrupted for level in measured):
        say(f"endcap: interrupted when {len(measured)} of {count(len(levels), 'level')} were begun")
        raise typer.Exit(INTERRUPTED)
    if failures:
        say(f"endcap: {count(failures, 'image')} failed")
        raise typer.Exit(SOME_IMAGE_FAILED)
