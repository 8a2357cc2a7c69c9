"""endcap load: throughput and latency of a running server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from endcap.cli.files import SAMPLES, find_repository, refuse_to_overwrite
from endcap.cli.images import ImageInputs, image_inputs
from endcap.cli.options import (
    DEFAULT_URL,
    OUTPUT_PANEL,
    Batch,
    Compression,
    Headers,
    Model,
    Output,
    Protocol,
    RegionBytes,
    SharedMemory,
    Shm,
    Timeout,
    TlsCa,
    Url,
    UseAsyncio,
    Verbose,
    check_region_bytes,
    connection_options,
)
from endcap.cli.report import Form, chosen_form, report_stream, write_table, write_text
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

- `endcap load photos/ --rate 40,80 --duration 30`

- `endcap load photo.jpg --protocol http --json`

- `endcap load --shm system --csv --output figures.csv`

**Exit code**: 0 without errors, 1 when an image failed, 2 when no request could be sent, 130 when
interrupted; the measurements until then are reported.
"""

_CLIENT = ClientArguments()
_LEVELS = "1,4,16"
_MOST_CONCURRENT = 1024
_SLOWEST, _FASTEST = 0.1, 100_000
_MOST_BYTES = 512 << 20


def load(
    images: Annotated[
        list[str] | None,
        typer.Argument(
            help="Files, folders, glob patterns, and http:// or https:// addresses. Default: the "
            "samples of the package.",
            show_default=False,
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    protocol: Protocol = None,
    model: Model = _CLIENT.model,
    timeout: Timeout = _CLIENT.timeout_s,
    concurrency: Annotated[
        str | None,
        typer.Option(
            help="Requests in flight at once, a number for each level. Default: 1,4,16.",
            metavar="N,N,...",
            show_default=False,
        ),
    ] = None,
    rate: Annotated[
        str | None,
        typer.Option(
            help="Requests per second at random times instead, a number for each level.",
            metavar="N,N,...",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(min=0, help="Of the arrivals and images of --rate.", metavar="N")
    ] = 1,
    duration: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds of the measurement of each level.")
    ] = 5.0,
    warmup: Annotated[
        float, typer.Option(min=0, max=3600, help="Seconds before it that do not count.")
    ] = 1.0,
    batch: Batch = _CLIENT.batch,
    shm: Shm = SharedMemory.none,
    region_bytes: RegionBytes = None,
    use_asyncio: UseAsyncio = False,
    header: Headers = None,
    tls_ca: TlsCa = None,
    compression: Compression = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print JSON, not a table.", rich_help_panel=OUTPUT_PANEL)
    ] = False,
    csv_output: Annotated[
        bool,
        typer.Option(
            "--csv", help="Print CSV, a row for each level.", rich_help_panel=OUTPUT_PANEL
        ),
    ] = False,
    output: Output = None,
    verbose: Verbose = False,
) -> None:
    """Measure the throughput and latency of a running server under load.

    A closed loop: each sender sends its next request after the last response; each level has a
    number of senders. The images are held in memory and sent in turn, without retries. A warm-up
    is followed by a window of --duration seconds, and the requests that end in it count.

    With --rate an open loop: requests are sent at the times of a Poisson process, images drawn at
    random, however long responses take; at most 64 are in flight. Those scheduled in the window
    count, with latencies from the scheduled time. What finds no sender by the end of the window is
    a failure, not_sent: the server is too slow for the rate.

    images/s counts images without errors whose requests ended in the window. p50, p90, p99 and mean
    are request latencies, from the image's bytes to its detections, with the client's own work;
    percentiles by linear interpolation between the closest ranks. server, queue and compute are
    means of the server's statistics over the window, of all its requests: queue is that of the
    model and of an ensemble's steps, compute that of the models. client CPU is the number of cores
    that this program used; a warning says where the client may be the limit.

    --json has the settings and for each level these figures, with failures by status and the
    server's times step by step; --csv has one row for each level.
    """
    form = chosen_form(json=json_output, csv=csv_output)
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        if rate is not None and (concurrency is not None or use_asyncio):
            other = "--concurrency" if concurrency is not None else "--async"
            raise InvalidArgumentError(f"--rate does not go with {other}; leave one of them out")
        rates = _read_rates(rate) if rate is not None else []
        levels = [] if rates else _read_levels(_LEVELS if concurrency is None else concurrency)
        check_region_bytes(region_bytes, is_shared=shm is not SharedMemory.none)
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
        with image_inputs(images or [str(find_repository() / SAMPLES)]) as inputs:
            if output is not None:
                read = [*inputs.paths, tls_ca] if tls_ca is not None else inputs.paths
                refuse_to_overwrite(read, [output], advice="give --output another file")
            inputs.download(timeout_s=timeout)
            contents = read_contents(inputs)
        timing = Timing(warmup, duration)
        test = LoadTest(arguments, contents, timing, use_asyncio=use_asyncio)
        with report_stream(output) as stream:
            measured = test.run_rates(rates, seed) if rates else test.run(levels)
            if form is Form.json:
                write_text(as_json(measured, test.describe()), stream)
            elif form is Form.csv:
                write_text(as_csv(measured), stream)
            else:
                width = PlainConsole(file=stream).width
                write_table(as_table(measured, test.heading(), width), stream)
    _end(measured, len(rates or levels))


def _read_levels(text: str) -> list[int]:
    try:
        levels = [int(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or not all(1 <= level <= _MOST_CONCURRENT for level in levels):
        raise InvalidArgumentError(
            f"--concurrency {text!r} is not a list of numbers from 1 to {_MOST_CONCURRENT}; "
            "write 1,4,16"
        )
    return levels


def _read_rates(text: str) -> list[float]:
    try:
        rates = [float(part) for part in text.split(",")]
    except ValueError:
        rates = []
    if not rates or not all(_SLOWEST <= rate <= _FASTEST for rate in rates):
        raise InvalidArgumentError(
            f"--rate {text!r} is not a list of numbers from {_SLOWEST:g} to {_FASTEST:g}; "
            "write 20,40.5"
        )
    return rates


def read_contents(inputs: ImageInputs) -> list[bytes]:
    """Return the files of images, which are held in memory. Raises InvalidArgumentError."""
    for url, error in inputs.failures.items():
        raise InvalidArgumentError(f"image {url} cannot be downloaded ({error})")
    paths = inputs.paths
    size = sum(path.stat().st_size for path in paths)
    if size > _MOST_BYTES:
        raise InvalidArgumentError(
            f"{count(len(paths), 'image')} of {size >> 20} MiB do not fit in memory; "
            f"give at most {_MOST_BYTES >> 20} MiB"
        )
    return [path.read_bytes() for path in paths]


def _end(measured: Sequence[Level], levels: int) -> None:
    failures = sum(sum(level.figures.failures.values()) for level in measured)
    if len(measured) < levels or any(level.interrupted for level in measured):
        say(f"endcap: interrupted in level {max(1, len(measured))} of {levels}")
        raise typer.Exit(INTERRUPTED)
    if failures:
        say(f"endcap: {count(failures, 'image')} failed")
        raise typer.Exit(SOME_IMAGE_FAILED)
