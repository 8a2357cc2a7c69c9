"""endcap stub: the stub that a Python model's folder carries."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from endcap.cli.options import Verbose
from endcap.environment.stub import StubReport
from endcap.environment.stub import check as check_stub
from endcap.environment.stub import install as install_stub
from endcap.terminal.console import PlainConsole, printable
from endcap.terminal.failure import INTERRUPTED, report_errors, stopped_by_signals

INSTALL_EXAMPLES = """
**Examples**

- `endcap stub install model_repository/my_model`

- `endcap stub install model_repository/my_model --python 3.12`

- `endcap stub install my_model --python 3.9 --real stubs/3.9/stub`
"""
CHECK_EXAMPLES = """
**Examples**

- `endcap stub check model_repository/my_model`

**Exit code**: 0 when the stub can work, 1 when it cannot.
"""

_ModelDir = Annotated[
    Path, typer.Argument(help="Folder of one model of the repository.", metavar="MODEL_DIR")
]
_Server = Annotated[
    Path | None,
    typer.Option(
        help="Server that will run the model, as for `endcap serve`: a program or an "
        "installation's folder.",
        show_default=False,
    ),
]
_NAME_COLUMNS = 15

app = typer.Typer(
    name="stub",
    help="The stub that a Python model's folder carries: it looks whether the model's environment "
    "can work before Triton's own stub starts.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
)


@app.command("install", epilog=INSTALL_EXAMPLES)
def install(
    model_dir: _ModelDir,
    python: Annotated[
        str,
        typer.Option(
            help="Version of the Python that the model runs in. Else the one that runs endcap.",
            metavar="3.N",
            show_default=False,
        ),
    ] = f"{sys.version_info.major}.{sys.version_info.minor}",
    real: Annotated[
        Path | None,
        typer.Option(
            help="The release's own stub for that Python. Else it comes from the server.",
            show_default=False,
        ),
    ] = None,
    tritonserver: _Server = None,
    verbose: Verbose = False,
) -> None:
    """Put the stub into a model's folder, beside the one of the server's release."""
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        placed = install_stub(
            model_dir, python_version=python, real=real, tritonserver=tritonserver
        )
    origin = f", from {placed.release}" if placed.release else ""
    numpy = ", needs numpy<2" if placed.takes_numpy_2 is False else ""
    console = PlainConsole(highlight=False, soft_wrap=True)
    console.print(f"{placed.front}: the stub that Triton starts")
    console.print(f"{placed.real}: for Python {placed.python_version}{origin}{numpy}")
    console.print(f"{placed.settings}: what they belong to")


@app.command("check", epilog=CHECK_EXAMPLES)
def check(model_dir: _ModelDir, tritonserver: _Server = None, verbose: Verbose = False) -> None:
    """Look whether a model's stub can work, without a server.

    Makes the checks that the stub makes before it starts; a packed environment is read to its end
    first.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        report = check_stub(model_dir, tritonserver=tritonserver)
    _print(report)
    raise typer.Exit(1 if report.problem else 0)


def _print(report: StubReport) -> None:
    console = PlainConsole(highlight=False, soft_wrap=True)
    for each in report.checks:
        style, mark = ("bold red", "error") if each.problem else ("green", "ok")
        line = Text.assemble((f"{mark:>5}  ", style), f"{each.name:<{_NAME_COLUMNS}}")
        console.print(line + Text(printable(each.found)))
        if each.problem:
            console.print(Text(" " * 7 + printable(each.problem), style="bold"))
