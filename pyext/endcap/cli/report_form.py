"""The form of a report, and where it goes."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TextIO

import typer
from rich.console import Group

from endcap._system.written_file import whole_text_file
from endcap.cli.export import as_coco, as_csv, as_json
from endcap.cli.report import as_table, summary
from endcap.client import ImageResult
from endcap.terminal.console import PlainConsole, printable_lines


class Form(str, Enum):
    """What the report looks like."""

    table = "table"
    json = "json"
    csv = "csv"
    coco = "coco"


def chosen_form(**wanted: bool) -> Form:
    """Return the one form whose option was given, else a table. Raises BadParameter for two."""
    chosen = [name for name, is_wanted in wanted.items() if is_wanted]
    if len(chosen) > 1:
        raise typer.BadParameter(f"{' and '.join(f'--{name}' for name in chosen)}: give one only")
    return Form(chosen[0]) if chosen else Form.table


@contextlib.contextmanager
def report_stream(output: Path | None) -> Iterator[TextIO]:
    """Give what a report is written to: a file, whole or not at all, or standard output."""
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
    else:
        with whole_text_file(output) as file:
            yield file


def write_report(
    results: Sequence[ImageResult], form: Form, labels: Sequence[str] | None, stream: TextIO
) -> None:
    """Write what was answered. labels: class names by id."""
    if form is Form.table:
        write_table(as_table(results), stream)
        if len(results) > 1:
            PlainConsole(file=stream, highlight=False).print(f"\n{summary(results)}", markup=False)
        return
    if form is Form.coco:
        text = as_coco(results, labels)
    else:
        text = as_csv(results) if form is Form.csv else as_json(results)
    write_text(text, stream)


def write_text(text: str, stream: TextIO) -> None:
    """Write lines for other programs; on a terminal with control characters escaped."""
    stream.write((printable_lines(text) if stream.isatty() else text) + "\n")


def write_table(table: Group, stream: TextIO) -> None:
    """Write lines for people to read; one that is longer than the terminal is wide is not cut."""
    PlainConsole(file=stream, highlight=False).print(table, crop=False)
