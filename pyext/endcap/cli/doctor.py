"""endcap doctor: checks of the installation, with remedies."""

from __future__ import annotations

import functools
import itertools
import json
import re
import traceback
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from endcap.cli.console import (
    INTERRUPTED,
    PlainConsole,
    count,
    printable,
    report_errors,
    stopped_by_signals,
)
from endcap.cli.files import SAMPLES, find_repository
from endcap.cli.images import expand_images
from endcap.tools.doctor import CHECKS, Check, Finding, Severity, Subject, run_checks, worst
from endcap.tools.doctor.server import START, check_start

EXAMPLES = """
**Examples**

- `endcap doctor`

- `endcap doctor --repository my_models --start`

- `endcap doctor --json > findings.json`

**Exit code**: 0 without problems (notes included), 1 for warnings, 2 for errors.
"""

_EXIT_CODES = {Severity.OK: 0, Severity.NOTE: 0, Severity.WARNING: 1, Severity.ERROR: 2}
_STYLES = {
    Severity.OK: "green",
    Severity.NOTE: "cyan",
    Severity.WARNING: "bold yellow",
    Severity.ERROR: "bold red",
}
_MARK = 9  # columns of the severity and of the title
_TITLE = 19
_NARROW = 60  # columns; below that a value has a line of its own
_MORE = " --verbose shows all."
_WORD = re.compile(r"(?:`[^`]*`|[^\s`])+|`")


def doctor(
    repository: Annotated[
        Path | None,
        typer.Option(
            help="Model repository to check. Default: the shipped one.", show_default=False
        ),
    ] = None,
    tritonserver: Annotated[
        Path | None,
        typer.Option(
            help="Server to check, as for `endcap serve`: a program or an installation's folder.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        bool, typer.Option("--start", help="Start the server, and send it a sample image.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="Print a JSON list of findings, not text.")
    ] = False,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            help="Show what is well, notes, and tracebacks.",
        ),
    ] = False,
) -> None:
    """Check this installation, and print problems with their remedies.

    Changes nothing. With --verbose what is well and what is optional is printed, too. With --json
    each finding is an object of name, group, title, severity ("ok", "note", "warning", "error"),
    found, problem and remedy; problem and remedy are null where all is well.
    """
    with report_errors(verbose=verbose), stopped_by_signals(exit_code=INTERRUPTED):
        subject = Subject(
            find_repository=find_repository if repository is None else lambda: repository,
            tritonserver=tritonserver,
        )
        findings = run_checks(
            subject,
            [*CHECKS, *([_START] if start else [])],
            on_broken=traceback.print_exc if verbose else lambda: None,
        )
        made = _print_json(findings) if json_output else _print_report(findings, verbose)
    raise typer.Exit(_EXIT_CODES[worst(made)])


def _sample() -> Path:
    return expand_images([str(find_repository() / SAMPLES)])[0]


_START = Check(START, functools.partial(check_start, find_sample=_sample))


def _print_json(findings: Iterable[Finding]) -> list[Finding]:
    made = list(findings)
    rows = (json.dumps(finding.to_json()) for finding in made)
    print("[\n" + ",\n".join(rows) + "\n]")
    return made


def _print_report(findings: Iterator[Finding], verbose: bool) -> list[Finding]:
    """Print each problem as soon as it is known, and how many findings there are of each kind.

    Args:
        findings: All.
        verbose: Whether to print the others as well.
    """
    console = PlainConsole(highlight=False)
    made: list[Finding] = []

    def shown() -> Iterator[Finding]:
        for finding in findings:
            made.append(finding)
            if verbose or finding.severity.rank >= Severity.WARNING.rank:
                yield finding

    for group, members in itertools.groupby(shown(), lambda finding: finding.group):
        console.print(Text(group.value, style="bold"))
        for finding in members:
            for line in _lines(finding, console.width, verbose):
                console.print(line, soft_wrap=True)
    if verbose or worst(made).rank >= Severity.WARNING.rank:
        console.print()
    console.print(f"{_summary(made)}{'' if verbose else _MORE}")
    return made


def _lines(finding: Finding, width: int, verbose: bool) -> Iterator[Text]:
    """Yield severity, title and value; below them the problem and the remedy."""
    mark = f"{finding.severity.value:>{_MARK}}  "
    style = _STYLES[finding.severity]
    if width < _NARROW:
        yield Text.assemble((mark, style), finding.title)
        yield from map(Text, _wrapped(finding.found, width, _MARK + 2))
    else:
        first, *more = _wrapped(finding.found, width, _MARK + 2 + _TITLE)
        yield Text.assemble((mark, style), f"{finding.title:<{_TITLE}}{first.lstrip()}")
        yield from map(Text, more)
    if finding.problem is not None:
        yield from map(Text, _wrapped(finding.problem, width, _MARK + 2))
    if finding.remedy is not None:
        for line in _wrapped(f"-> {finding.remedy}", width, _MARK + 2):
            yield Text(line, style="bold")


def _wrapped(text: str, width: int, indent: int) -> list[str]:
    """Return the lines of a text; a command in backticks stays in one, however long it is."""
    room = max(width - indent, 1)
    lines = [""]
    for word in _WORD.findall(printable(text)):
        for piece in [word] if "`" in word else _folded(word, room):
            if lines[-1] and len(lines[-1]) + 1 + len(piece) > room:
                lines.append("")
            lines[-1] += f" {piece}" if lines[-1] else piece
    return [" " * indent + line for line in lines]


def _folded(word: str, room: int) -> list[str]:
    """Split a word that is too long for a line, after slashes where it has any."""
    return re.findall(f".{{1,{room}}}(?:(?<=/)|$)|.{{1,{room}}}", word)


def _summary(findings: Sequence[Finding]) -> str:
    def number(severity: Severity) -> int:
        return sum(finding.severity is severity for finding in findings)

    problems = [
        count(number(severity), severity.value)
        for severity in (Severity.ERROR, Severity.WARNING)
        if number(severity)
    ]
    rest = (
        f"{number(Severity.OK)} of {len(findings)} are ok, {count(number(Severity.NOTE), 'note')}"
    )
    return f"{' and '.join(problems) or 'No problem'}; {rest}."
