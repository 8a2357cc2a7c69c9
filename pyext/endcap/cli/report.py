"""Prints what became of images, for people to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from endcap.cli.failure import printable
from endcap.client import Detection, ImageResult

_INDENT = 2
_CLASSES_IN_SUMMARY = 10


def as_table(results: Sequence[ImageResult], *, latency: bool = False) -> Group:
    """Returns a heading for each image, and below it a line for each detection, or what failed.

    latency: adds the milliseconds from sending a request to its answer.
    """
    found = [detection for result in results for detection in result.detections]
    width = max((len(_name(detection)) for detection in found), default=0)
    lines: list[Text | Padding] = []
    if found:
        titles = "".join(f"{side:>8}" for side in ("x1", "y1", "x2", "y2"))
        lines.append(_one_line(f"{'':{_INDENT + width}}  score{titles}", style="dim"))
    for result in results:
        lines.append(_heading(result, latency))
        if result.detections:
            lines += (_one_line(_row(each, width)) for each in result.detections)
        elif result.ok:
            lines.append(_indented(Text("nothing found", style="dim")))
        else:
            lines.append(_indented(Text(printable(f"{result.status}: {result.error}"), "red")))
    return Group(*lines)


def summary(results: Sequence[ImageResult]) -> str:
    """Returns how many images were answered, and how many objects of which classes they hold."""
    found = Counter(printable(_name(each)) for result in results for each in result.detections)
    failed = sum(not result.ok for result in results)
    answered = count(len(results) - failed, "image")
    text = f"{count(found.total(), 'detection')} in {answered}"
    shown = found.most_common(_CLASSES_IN_SUMMARY)
    if shown:
        text += ": " + ", ".join(f"{number} {name}" for name, number in shown)
    if len(found) > len(shown):
        text += f", {found.total() - sum(number for _, number in shown)} of other classes"
    if failed:
        text += f"; {count(failed, 'image')} failed"
    return text


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
    name = printable(_name(detection))
    return f"{'':{_INDENT}}{name:<{width}}  {detection.score:.3f}{sides}"


def _name(detection: Detection) -> str:
    return detection.label if detection.label is not None else f"class {detection.class_id}"


def _one_line(text: str, *, style: str = "") -> Text:
    """A line that is longer than the terminal is wide stays one, as far as endcap is concerned."""
    return Text(text, style=style, no_wrap=True, overflow="ignore")


def _indented(line: Text) -> Padding:
    return Padding(line, (0, 0, 0, _INDENT), expand=False)
