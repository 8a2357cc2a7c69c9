"""The command line: python -m benchmarks COMMAND."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TaskID, TimeElapsedColumn

from benchmarks import chart, cpu, paths, report, server_process
from benchmarks.dali import run as dali_run
from benchmarks.images import SourceMissingError

EXAMPLES = """Side by side with the libraries people use today.

Examples:

  make bench                                    everything, in some minutes

  make bench BENCH_OPTIONS='--quick'            about a minute, rough figures

  python -m benchmarks run --no-server          without the Triton server

  python -m benchmarks server                   the Triton server only

  python -m benchmarks pipelines                the pipelines of docs/pipelines.md

  python -m benchmarks dali                     the pipelines of docs/dali.md

  python -m benchmarks show benchmarks/results/cpu.json
"""
app = typer.Typer(help=EXAMPLES, no_args_is_help=True, add_completion=False)
console = Console()
console.width = max(console.width, 116)  # a table cut short would be of no use

Quick = Annotated[bool, typer.Option(help="Fewer images, boxes and rounds; figures are rough.")]
Output = Annotated[
    Path | None,
    typer.Option(help="Folder for JSON and charts: benchmarks/results, or build/bench-quick."),
]
ServerPython = Annotated[
    Path, typer.Option(help="The Python of the server's environment, as `make build` makes it.")
]
DEFAULT_PYTHON = paths.ROOT / ".venv" / "bin" / "python"


@app.command()
def run(
    quick: Quick = False,
    server: Annotated[bool, typer.Option(help="Also measure on a Triton server.")] = True,
    server_python: ServerPython = DEFAULT_PYTHON,
    output: Output = None,
) -> None:
    """Measure everything; write cpu.json, cpu.png, server.json and server.png."""
    extent = cpu.QUICK if quick else cpu.COMPLETE
    with _progress("measuring") as (bar, task):
        bar.update(task, total=cpu.steps(extent))
        document = cpu.run(extent, lambda what: bar.update(task, advance=1, description=what))
    _finish(document, _folder(output, quick), "cpu", quick)
    if server:
        _measure_server(quick, server_python, output)


@app.command()
def server(
    quick: Quick = False, server_python: ServerPython = DEFAULT_PYTHON, output: Output = None
) -> None:
    """Measure on a Triton server only; write server.json and server.png."""
    _measure_server(quick, server_python, output)


@app.command()
def pipelines(
    quick: Quick = False, server_python: ServerPython = DEFAULT_PYTHON, output: Output = None
) -> None:
    """Measure the pipelines to detections on a server; write pipelines.json and pipelines.png."""
    with _progress("writing the models") as (bar, task):
        document = server_process.run_pipelines(
            server_python.absolute(),
            quick=quick,
            start=lambda total: bar.update(task, total=total),
            done=lambda what: bar.update(task, advance=1, description=what),
        )
    _finish(document, _folder(output, quick), "pipelines", quick)


@app.command()
def dali(
    quick: Quick = False,
    times: Annotated[bool, typer.Option(help="Also measure times, not only differences.")] = True,
    output: Output = None,
) -> None:
    """Compare DALI's pipelines; write dali_parity.json, dali.json and dali.png."""
    plan = dali_run.QUICK if quick else dali_run.COMPLETE
    with _progress("comparing") as (bar, task):
        bar.update(task, total=dali_run.steps(plan, times))

        def done(what: str) -> None:
            bar.update(task, advance=1, description=what)

        parity = dali_run.parity(plan, done)
        document = dali_run.times(plan, done) if times else None
    _finish(parity, _folder(output, quick), "dali_parity", quick)
    if document:
        _finish(document, _folder(output, quick), "dali", quick)


@app.command()
def show(documents: list[Path]) -> None:
    """Print the tables of results written before, and draw their charts again."""
    for path in documents:
        document = json.loads(path.read_text())
        report.show(document, console)
        chart.draw(document, path.with_suffix(".png"))


def _measure_server(quick: bool, python: Path, output: Path | None) -> None:
    with _progress("starting the server") as (bar, task):
        document = server_process.run(
            python.absolute(),
            quick=quick,
            start=lambda total: bar.update(task, total=total),
            done=lambda what: bar.update(task, advance=1, description=what),
        )
    _finish(document, _folder(output, quick), "server", quick)


def _finish(document: dict[str, Any], folder: Path, name: str, quick: bool) -> None:
    document["quick"] = quick
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps(document, indent=1) + "\n")
    report.show(document, console)
    picture = path.with_suffix(".png")
    drawn = chart.draw(document, picture)
    console.print(f"written: {path}{f' and {picture.name}' if drawn else ''}")


def _folder(output: Path | None, quick: bool) -> Path:
    return output or (paths.BUILD / "bench-quick" if quick else paths.RESULTS)


@contextmanager
def _progress(what: str) -> Iterator[tuple[Progress, TaskID]]:
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        yield bar, bar.add_task(what, total=None)


def main() -> None:
    """Run the command line; what cannot be measured ends with a message and status 1."""
    try:
        app()
    except (
        server_process.ServerPartError,
        SourceMissingError,
        dali_run.DaliMissingError,
    ) as error:
        console.print(f"[red]benchmarks:[/] {error}")
        raise SystemExit(1) from error


if __name__ == "__main__":
    main()
