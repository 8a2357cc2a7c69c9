"""Prints what became of images: as lines for people, as JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from endcap.cli.failure import printable
from endcap.client import Detection, ImageResult

_INDENT = 2


def as_json(results: Sequence[ImageResult]) -> str:
    """Returns a JSON list with one object per image, each on its line; see ImageResult.to_json."""
    rows = (json.dumps(result.to_json(), allow_nan=False) for result in results)
    return "[\n" + ",\n".join(rows) + "\n]"


def as_table(results: Sequence[ImageResult], *, latency: bool = False) -> Group:
    """Returns a heading for each image, and below it a line for each detection, or what failed.

    latency: adds the milliseconds from sending a request to its answer.
    """
    found = [detection for result in results for detection in result.detections]
    width = max((len(_name(detection)) for detection in found), default=0)
    lines: list[Text | Padding] = []
    if found:
        titles = "".join(f"{side:>8}" for side in ("x1", "y1", "x2", "y2"))
        lines.append(Text(f"{'':{_INDENT + width}}  score{titles}", style="dim"))
    for result in results:
        lines.append(_heading(result, latency))
        lines.extend(_indented(Text(_row(each, width))) for each in result.detections)
        if not result.ok:
            lines.append(_indented(Text(f"{result.status}: {result.error}", style="red")))
        elif not result.detections:
            lines.append(_indented(Text("nothing found", style="dim")))
    return Group(*lines)


def count(number: int, noun: str) -> str:
    """Returns "1 picture" or "2 pictures"."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def describe_failures(results: Sequence[ImageResult]) -> str:
    """Returns how many images failed, and why the first one did."""
    failed = [result for result in results if not result.ok]
    return (
        f"{len(failed)} of {count(len(results), 'image')} failed, first {failed[0].image} "
        f"({failed[0].status}: {failed[0].error})"
    )


def _heading(result: ImageResult, latency: bool) -> Text:
    heading = Text(printable(result.image), style="bold", overflow="fold")
    if latency and result.latency_ms is not None:
        heading.append(f"  {result.latency_ms:.1f} ms", style="not bold")
    return heading


def _row(detection: Detection, width: int) -> str:
    sides = "".join(f"{side:8.1f}" for side in detection.box)
    return f"{_name(detection):<{width}}  {detection.score:.3f}{sides}"


def _name(detection: Detection) -> str:
    return detection.label if detection.label is not None else f"class {detection.class_id}"


def _indented(line: Text) -> Padding:
    return Padding(line, (0, 0, 0, _INDENT), expand=False)
