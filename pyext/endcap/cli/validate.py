"""endcap validate: checks of a model repository without a server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from endcap.cli.console import PlainConsole, count, printable
from endcap.cli.options import command
from endcap.repository.validation import Finding, Report, Severity, validate_repository

EXAMPLES = """
**Examples**

- `endcap validate models`

- `endcap validate models --strict`

- `endcap validate models --json > findings.json`

**Exit code**: 0 without an error, 1 with one, 2 when the repository could not be
read.
"""

_ERRORS_FOUND = 1
_STYLES = {Severity.NOTE: "cyan", Severity.WARNING: "bold yellow", Severity.ERROR: "bold red"}


@command()
def validate(
    repository: Annotated[
        Path, typer.Argument(help="Folder of model folders.", metavar="REPOSITORY")
    ],
    strict: Annotated[bool, typer.Option("--strict", help="Treat warnings as errors.")] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print a JSON list of findings, not text.")
    ] = False,
) -> None:
    """Check a model repository, and print each problem with its file and line.

    Starts no server and changes nothing. Checks the configurations, the files that they name, the
    parameters of endcap's backends, networks in ONNX files, and the names, types, shapes and batch
    sizes between the steps of an ensemble. With an error a model does not load or fails every
    request; with a warning it loads, but probably not as intended.

    With --json each finding is an object of file, line (null where there is none), severity
    ("note", "warning", "error"), model, problem and remedy.
    """
    report = validate_repository(repository)
    if strict:
        report = report.with_errors_for_warnings()
    if json_output:
        print(json.dumps([finding.to_json() for finding in report.findings], indent=2))
    else:
        _print(report)
    if report.count(Severity.ERROR):
        raise typer.Exit(_ERRORS_FOUND)


def _print(report: Report) -> None:
    console = PlainConsole(highlight=False)
    for finding in report.findings:
        console.print(_line(finding), soft_wrap=True)
    kinds = [Severity.ERROR, Severity.WARNING]
    if report.count(Severity.NOTE):
        kinds.append(Severity.NOTE)
    parts = [count(report.model_count, "model")]
    parts += [count(report.count(kind), kind.value) for kind in kinds]
    console.print(", ".join(parts), soft_wrap=True)


def _line(finding: Finding) -> Text:
    place = str(finding.file) if finding.line is None else f"{finding.file}:{finding.line}"
    return Text.assemble(
        f"{printable(place)}: ",
        (f"{finding.severity.value}:", _STYLES[finding.severity]),
        printable(f" {finding.problem}; {finding.remedy}"),
    )
