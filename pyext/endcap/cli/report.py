"""Reports on images: tables, CSV, COCO, and where a report is written."""

from __future__ import annotations

import contextlib
import csv
import io
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TextIO

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from endcap._files import whole_text_file
from endcap.cli.coco import as_coco, json_lines
from endcap.cli.console import PlainConsole, count, printable, printable_lines
from endcap.client.results import ImageResult, Task
from endcap.predictions import ROW_COLUMNS, ClassScore, Detection, class_name


class Format(str, Enum):
    """Format of a report."""

    table = "table"
    json = "json"
    csv = "csv"
    coco = "coco"


@contextlib.contextmanager
def report_stream(output: Path | None) -> Iterator[TextIO]:
    """Yield the stream of a report: standard output, or a file, written completely or not."""
    if output is None:
        yield sys.stdout
        sys.stdout.flush()
    else:
        with whole_text_file(output) as file:
            yield file


def write_report(
    results: Sequence[ImageResult], format: Format, labels: Sequence[str] | None, stream: TextIO
) -> None:
    """Write the results; labels are class names by id."""
    if format is Format.table:
        write_table(as_table(results), stream)
        if len(results) > 1:
            PlainConsole(file=stream, highlight=False).print(f"\n{summary(results)}", markup=False)
    elif format is Format.coco:
        write_text(as_coco(results, labels), stream)
    elif format is Format.csv:
        write_text(as_csv(results), stream)
    else:
        write_text(json_lines([result.to_dict() for result in results]), stream)


def write_text(text: str, stream: TextIO) -> None:
    """Write lines for other programs; on a terminal with control characters escaped."""
    stream.write((printable_lines(text) if stream.isatty() else text) + "\n")


def write_table(table: RenderableType, stream: TextIO, *, width: int | None = None) -> None:
    """Write a table; lines wider than the terminal, or `width`, are not cut."""
    PlainConsole(file=stream, highlight=False, width=width).print(table, crop=False)


CSV_COLUMNS = ("image", "status", *ROW_COLUMNS)

# Also behind what spreadsheets leave out, and of full width.
_FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def as_csv(results: Sequence[ImageResult]) -> str:
    """Return a header and a row per detection or class; CSV_COLUMNS names the columns.

    Rotated boxes have one more column, angle, and tracked ones track_id. A class has no box. An
    image without results has one row, its cells empty from class_id on. A text that spreadsheets
    would take for a formula has an apostrophe before it.
    """
    text = io.StringIO()
    detections = [each for result in results for each in result.detections]
    columns = [*CSV_COLUMNS]
    if any(each.angle is not None for each in detections):
        columns.append("angle")
    if any(each.track_id is not None for each in detections):
        columns.append("track_id")
    write_row = csv_table(columns, text)
    for result in results:
        for row in result.to_rows():
            write_row(row)
    return text.getvalue().removesuffix("\n")


def csv_table(columns: Sequence[str], stream: TextIO) -> Callable[[Mapping[str, object]], None]:
    """Write the header of a table, and return a function that writes a row."""
    writer = csv.DictWriter(stream, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    return lambda row: writer.writerow({name: csv_cell(value) for name, value in row.items()})


def csv_cell(value: object) -> object:
    """Return a value as a cell, behind an apostrophe where spreadsheets would take a formula."""
    is_formula = isinstance(value, str) and value.startswith(_FORMULAS)
    return f"'{value}" if is_formula else value


_INDENT = 2
_SIDES = ("x1", "y1", "x2", "y2")
_CLASSES_IN_SUMMARY = 10


def as_table(results: Sequence[ImageResult], *, latency: bool = False) -> Group:
    """Return a heading for each image, and below it its detections or classes, or its error.

    Args:
        results: The images.
        latency: Whether to add the milliseconds from request to response.
    """
    predictions = [each for result in results for each in result.predictions]
    width = max((len(_row_name(each)) for each in predictions), default=0)
    lines: list[Text | Padding] = []
    if predictions:
        sides = _SIDES if isinstance(predictions[0], Detection) else ()
        titles = "".join(f"{side:>8}" for side in sides)
        titles += "  class" if any(_classification(each) for each in predictions) else ""
        lines.append(one_line(f"{'':{_INDENT + width}}  score{titles}", style="dim"))
    for result in results:
        heading = image_heading(result.image)
        if latency and result.latency_ms is not None:
            heading.append(f"  {result.latency_ms:.1f} ms", style="not bold")
        lines.append(heading)
        if not result.ok:
            lines.append(_indent(Text(printable(f"{result.status}: {result.error}"), "red")))
        elif result.tensors:
            lines += (_indent(Text(printable(each))) for each in result.tensor_texts())
        elif result.segmentation is not None:
            for area in result.segmentation.classes():
                name = printable(class_name(area.class_id, area.label))
                lines.append(_indent(Text(f"{name}  {area.fraction:.1%}")))
        elif not result.predictions:
            kind = "detections" if result.task is Task.detection else "classes"
            lines.append(_indent(Text(f"no {kind}", style="dim")))
        lines += (one_line(_row(each, width)) for each in result.predictions)
    return Group(*lines)


def summary(results: Sequence[ImageResult]) -> str:
    """Return the number of images, and of detections by class or of images by best class."""
    failed = sum(not result.ok for result in results)
    text = count(len(results) - failed, "image")
    counts: Counter[str] = Counter()
    if any(result.task is Task.classification for result in results):
        counts = Counter(
            printable(_name(result.classes[0])) for result in results if result.classes
        )
    elif not any(result.task in (Task.tensors, Task.segmentation) for result in results):
        counts = Counter(printable(_name(each)) for result in results for each in result.detections)
        text = f"{count(counts.total(), 'detection')} in {text}"
    found = most_common(counts)
    if found:
        text += f": {found}"
    if failed:
        text += f"; {count(failed, 'image')} failed"
    return text


def most_common(counts: Counter[str]) -> str:
    """Return the numbers of the classes that were found most."""
    shown = counts.most_common(_CLASSES_IN_SUMMARY)
    text = ", ".join(f"{number} {name}" for name, number in shown)
    if len(counts) > len(shown):
        text += f", {counts.total() - sum(number for _, number in shown)} of other classes"
    return text


def describe_failures(results: Sequence[ImageResult]) -> str:
    """Return the number of failed images, and the error of the first one."""
    failed = [result for result in results if not result.ok]
    return (
        f"{len(failed)} of {count(len(results), 'image')} failed, first {failed[0].image} "
        f"({failed[0].status}: {failed[0].error})"
    )


def image_heading(image: str) -> Text:
    """Return the line above the results of an image."""
    return Text(printable(image), style="bold", overflow="fold")


def _row(prediction: Detection | ClassScore, width: int) -> str:
    box = prediction.box if isinstance(prediction, Detection) else ()
    sides = "".join(f"{side:8.1f}" for side in box)
    name = f"{'':{_INDENT}}{printable(_row_name(prediction)):<{width}}"
    return f"{name}  {prediction.score:.3f}{sides}{_classification(prediction)}"


def _row_name(prediction: Detection | ClassScore) -> str:
    """Return the name of a class, behind the id of a track."""
    if isinstance(prediction, ClassScore) or prediction.track_id is None:
        return _name(prediction)
    return f"#{prediction.track_id} {_name(prediction)}"


def _classification(prediction: Detection | ClassScore) -> str:
    """Return the last cell of a detection that a cascade has classified; empty for others."""
    if isinstance(prediction, ClassScore) or prediction.classification is None:
        return ""
    best = prediction.classification
    return f"  {printable(_name(best))} {best.score:.3f}"


def _name(prediction: Detection | ClassScore) -> str:
    return class_name(prediction.class_id, prediction.label)


def one_line(text: str, *, style: str = "") -> Text:
    """Return a line that is not wrapped where the terminal is narrow."""
    return Text(text, style=style, no_wrap=True, overflow="ignore")


def _indent(line: Text) -> Padding:
    return Padding(line, (0, 0, 0, _INDENT), expand=False)
