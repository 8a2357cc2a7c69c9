"""endcap top: what a running server does, again and again."""

from __future__ import annotations

import datetime
import json
import sys
import time
from typing import Annotated

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from endcap.cli.options import SERVER_PANEL, Url, Verbose
from endcap.terminal.console import PlainConsole, printable
from endcap.terminal.failure import CANNOT_RUN, report_errors, say, stopped_by_signals
from endcap.tools.top.layout import Bounded, lines_of
from endcap.tools.top.screen import key_pressed, screen
from endcap.tools.top.table import as_lines
from endcap.tools.top.watch import Look, Watch

EXAMPLES = """
**Examples**

- `endcap top`

- `endcap top --url gpu-server --interval 5`

- `endcap top --model detect --model preprocess`

- `endcap top --once`

- `endcap top --json > figures.jsonl`

**Exit code**: 0 when it was ended, 2 when with --once no metrics could be had, or
none of a model that was named.
"""


def top(
    url: Url = "127.0.0.1",
    metrics_url: Annotated[
        str | None,
        typer.Option(
            help="Where the metrics are. Else http://HOST:8002/metrics, with the host of --url.",
            metavar="URL",
            show_default=False,
            rich_help_panel=SERVER_PANEL,
        ),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="Show this model only; may be given several times.",
            metavar="NAME",
            show_default=False,
        ),
    ] = None,
    interval: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between two looks.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Show one interval and end.")] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print a line with a JSON object for each interval.")
    ] = False,
    verbose: Verbose = False,
) -> None:
    """Show what a running Triton server does: throughput, queue, compute, batches, errors.

    Reads the server's metrics, which have to be on (Triton's --allow-metrics, which is the
    default), every --interval seconds; q or Ctrl-C ends it. Rates are what was added to the
    server's counters between two looks, times are means over the requests answered in between, in
    milliseconds. Models without requests come last, and are only counted where the terminal is too
    low for all.

    An ensemble's compute times are the sums of its steps'; its queue time is its own alone. The
    second table has what endcap's backends count: images processed, time in the JPEG decoder for
    each, detections found in each (found), images whose candidates were cut (truncated), outputs
    that found no GPU memory (spills), and of cascades regions that were classified (crops) and
    requests to other models (calls). CPU, memory and GPU are the machine's, where the server
    reports them. A narrow terminal gets fewer columns; --json always has all figures.

    --json prints objects with time (UTC), url, seconds, restarted (counters fell: the server was
    started anew), models, stages, totals and machine, null where a figure is not known; of a look
    that found no metrics, time, url and error.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=0):
        watch = Watch(url, metrics_url, model or ())
        if once:
            _once(watch, interval, json_output=json_output)
        elif json_output:
            _print_json(watch, interval)
        else:
            _show(watch, interval)


def _once(watch: Watch, interval: float, *, json_output: bool) -> None:
    look = watch.look()
    if look.problem is None and look.unknown is None:
        time.sleep(interval)
        look = watch.look()
    problem = look.problem or look.unknown
    if problem is not None:
        say(f"endcap: {problem}")
        raise typer.Exit(CANNOT_RUN)
    if json_output:
        _print_line(watch, look)
    else:
        console = PlainConsole(highlight=False)
        console.print(Group(*_shown(watch, look, console.width)))


def _print_json(watch: Watch, interval: float) -> None:
    unknown = None
    while True:
        look = watch.look()
        if look.unknown not in (None, unknown):
            unknown = look.unknown
            say(f"endcap: {unknown}")
        if look.interval is not None or look.problem is not None:
            _print_line(watch, look)
        time.sleep(interval)


def _print_line(watch: Watch, look: Look) -> None:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    figures = {"error": look.problem} if look.interval is None else look.interval.to_json()
    print(json.dumps({"time": now, "url": watch.url, **figures}), flush=True)


def _show(watch: Watch, interval: float) -> None:
    console, keys = PlainConsole(highlight=False), sys.stdin.isatty()
    with key_pressed() as ended_within, screen(console) as draw:
        while True:
            look = watch.look()
            width, height = console.size
            if console.is_terminal:
                draw(Bounded(_shown(watch, look, width, height, keys=keys), height))
            else:
                draw(Group(*_shown(watch, look, width)))
            if ended_within(interval):
                return


def _shown(
    watch: Watch, look: Look, width: int, height: int | None = None, *, keys: bool = False
) -> list[RenderableType]:
    heading = f"{printable(watch.url)}   {time.strftime('%H:%M:%S')}"
    if look.interval is not None:
        heading += f"   over {look.interval.seconds:.1f} s"
    lines: list[RenderableType] = [Text(heading + ("   q ends" if keys else ""), style="bold")]
    if look.unknown is not None:
        lines.append(Text(printable(look.unknown), style="yellow"))
    lines.append(Text())
    if look.problem is not None:
        lines.append(Text(printable(look.problem), style="red"))
    elif look.interval is None:
        lines.append(Text("Rates come with the second look."))
    else:
        left = None if height is None else height - lines_of(lines, width)
        lines += as_lines(look.interval, width, left)
    return lines
