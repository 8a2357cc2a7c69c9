"""endcap doctor: checks of the installation, with remedies."""

from __future__ import annotations

import json
import traceback
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from endcap.cli.console import PlainConsole, count
from endcap.cli.files import find_repository
from endcap.cli.options import AsJson, command
from endcap.doctor import Finding, Severity, Subject, run_checks

EXAMPLES = """
**Examples**

- `endcap doctor`

- `endcap doctor --repository my_models`

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
_TITLE = 16  # columns
_MORE = " --verbose shows all."


@command()
def doctor(
    repository: Annotated[
        Path | None,
        typer.Option(help="Model repository to check. Default: the shipped one."),
    ] = None,
    tritonserver: Annotated[
        Path | None,
        typer.Option(
            help="Server to check, as for `endcap serve`: a program or an installation's folder."
        ),
    ] = None,
    json_output: AsJson = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show what is well, notes, and tracebacks.")
    ] = False,
) -> None:
    """Check this installation, and print problems with their remedies.

    Changes nothing. With --verbose what is well and what is optional is printed, too. With --json
    each finding is an object of name, group, title, severity ("ok", "note", "warning", "error"),
    found, problem and remedy; problem and remedy are null where all is well.
    """
    subject = Subject(
        find_repository=find_repository if repository is None else lambda: repository,
        tritonserver=tritonserver,
    )
    findings = run_checks(subject, on_broken=traceback.print_exc if verbose else lambda: None)
    if json_output:
        made = list(findings)
        print(json.dumps([finding.to_json() for finding in made], indent=2))
    else:
        made = _print_report(findings, verbose)
    raise typer.Exit(_EXIT_CODES[max(finding.severity for finding in made)])


def _print_report(findings: Iterable[Finding], verbose: bool) -> list[Finding]:
    """Print each problem as soon as it is known, and how many findings there are of each kind.

    Lines are not wrapped, so that a command can be copied from a terminal of any width.

    Args:
        findings: All.
        verbose: Whether to print those without a problem, and notes, as well.
    """
    console = PlainConsole(highlight=False, soft_wrap=True)
    made: list[Finding] = []
    group = ""
    for finding in findings:
        made.append(finding)
        if not verbose and finding.severity < Severity.WARNING:
            continue
        if finding.check.group != group:
            group = finding.check.group
            console.print(Text(group, style="bold"))
        mark = (f"{finding.severity.label:>9}  ", _STYLES[finding.severity])
        console.print(Text.assemble(mark, f"{finding.check.title:<{_TITLE}}{finding.found}"))
        if finding.problem:
            console.print(Text(f"{'':11}{finding.problem}"))
        if finding.remedy:
            console.print(Text(f"{'':11}-> {finding.remedy}", style="bold"))
    numbers = Counter(finding.severity for finding in made)
    bad = [count(numbers[s], s.label) for s in (Severity.ERROR, Severity.WARNING) if numbers[s]]
    rest = f"{numbers[Severity.OK]} of {len(made)} are ok, {count(numbers[Severity.NOTE], 'note')}"
    summary = f"{' and '.join(bad) or 'No problem'}; {rest}."
    console.print(f"{summary}{'' if verbose else _MORE}")
    return made
