"""endcap top: live rates of a running server."""

from __future__ import annotations

from typing import Annotated

import typer

from endcap.cli.options import SERVER_PANEL, Url, Verbose
from endcap.terminal.failure import CANNOT_RUN, report_errors, stopped_by_signals
from endcap.tools.top.watch import Watch, print_json_lines, print_once, show

EXAMPLES = """
**Examples**

- `endcap top`

- `endcap top --url gpu-server --interval 5`

- `endcap top --url 127.0.0.1:9001`

- `endcap top --metrics-url gpu-server:9002`

- `endcap top --model detect --model preprocess`

- `endcap top --once`

- `endcap top --json > figures.jsonl`

**Exit code**: 0 when ended by a key or a signal, 2 when with --once the metrics could not be read
or lack a model of --model.
"""


def top(
    url: Url = "127.0.0.1",
    metrics_url: Annotated[
        str | None,
        typer.Option(
            help="Address of the metrics. Default: those of the server at --url that runs on this "
            "machine, whatever its ports are, else http://HOST:8002/metrics, HOST of --url.",
            metavar="URL",
            show_default=False,
            rich_help_panel=SERVER_PANEL,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Show this model only; may be repeated.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between two scrapes.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Show one interval and exit.")] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print a line with a JSON object for each interval.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Show throughput, latency, batches and failures of a running Triton server.

    Reads the server's metrics, which are on by default (Triton's --allow-metrics), every --interval
    seconds; q or Ctrl-C ends it. The ports of a server of this user on this machine are found by
    its process, also those that `endcap serve --metrics-port 0` picked; where several servers run,
    --url HOST:PORT of HTTP or gRPC tells which.

    Rates are increases of the server's counters per second; times are means over the requests of
    the interval, in milliseconds. Models without requests come last, and are only counted where the
    terminal has too few lines.

    An ensemble's compute times are the sums of its steps' times; its queue time is its own alone.
    The second table has the counters of endcap's backends: images, time in the JPEG decoder and
    detections for each image, images with too many candidates (truncated), outputs that found no
    GPU memory (spills), and of cascades regions classified (crops) and requests to other models
    (calls). CPU, memory and GPU are the machine's, where the server reports them. A narrow terminal
    gets fewer columns; --json always has all of them.

    --json prints objects with time (UTC), url, seconds, restarted (counters decreased: the server
    was restarted), models, stages, totals and machine, null where a value is not known; for a
    scrape that failed, time, url and error.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=0):
        watch = Watch(url, metrics_url, model or ())
        if once:
            if not print_once(watch, interval, as_json=json_output):
                raise typer.Exit(CANNOT_RUN)
        elif json_output:
            print_json_lines(watch, interval)
        else:
            show(watch, interval)
