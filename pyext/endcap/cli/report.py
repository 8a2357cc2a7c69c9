"""Prints what became of images, for people to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from endcap.client import ClassScore, Detection, ImageResult, Task
from endcap.drawing.skeleton import SEEN
from endcap.terminal.console import count, printable

_INDENT = 2
_SIDES = ("x1", "y1", "x2", "y2")
_CELL = 11  # of what only some models give
_CLASSES_IN_SUMMARY = 10


def as_table(results: Sequence[ImageResult], *, latency: bool = False) -> Group:
    """Return a heading for each image, and below it a line for each answer, or what failed.

    An answer is a detection, or a class of a classifier. latency: adds the milliseconds from
    sending a request to its answer.
    """
    found = [each for result in results for each in result.found]
    width = max((len(_name(each)) for each in found), default=0)
    lines: list[Text | Padding] = []
    if found:
        titles = "".join(f"{side:>8}" for side in _SIDES) if isinstance(found[0], Detection) else ""
        titles += "".join(f"{title:>{_CELL}}" for title, _ in _extra_cells(found[0]))
        titles += "  class" if any(_classification(each) for each in found) else ""
        lines.append(one_line(f"{'':{_INDENT + width}}  score{titles}", style="dim"))
    for result in results:
        lines.append(_heading(result, latency))
        if result.found:
            lines += (one_line(_row(each, width)) for each in result.found)
        elif result.ok:
            lines.append(_indented(Text("nothing found", style="dim")))
        else:
            lines.append(failure_line(f"{result.status}: {result.error}"))
    return Group(*lines)


def summary(results: Sequence[ImageResult]) -> str:
    """Return how many images were answered, and what they hold.

    That is how many objects of which classes, or which class is the best of how many images.
    """
    failed = sum(not result.ok for result in results)
    text = count(len(results) - failed, "image")
    if any(result.task is Task.classification for result in results):
        found = Counter(printable(_name(result.classes[0])) for result in results if result.classes)
    else:
        found = Counter(printable(_name(each)) for result in results for each in result.detections)
        text = f"{count(found.total(), 'detection')} in {text}"
    shown = found.most_common(_CLASSES_IN_SUMMARY)
    if shown:
        text += ": " + ", ".join(f"{number} {name}" for name, number in shown)
    if len(found) > len(shown):
        text += f", {found.total() - sum(number for _, number in shown)} of other classes"
    if failed:
        text += f"; {count(failed, 'image')} failed"
    return text


def describe_failures(results: Sequence[ImageResult]) -> str:
    """Return how many images failed, and why the first one did."""
    failed = [result for result in results if not result.ok]
    return (
        f"{len(failed)} of {count(len(results), 'image')} failed, first {failed[0].image} "
        f"({failed[0].status}: {failed[0].error})"
    )


def image_heading(image: str) -> Text:
    """Return the line above what there is to say of an image."""
    return Text(printable(image), style="bold", overflow="fold")


def failure_line(message: str) -> Padding:
    """Return the line that says why an image failed."""
    return _indented(Text(printable(message), "red"))


def _heading(result: ImageResult, latency: bool) -> Text:
    heading = image_heading(result.image)
    if latency and result.latency_ms is not None:
        heading.append(f"  {result.latency_ms:.1f} ms", style="not bold")
    return heading


def _row(answer: Detection | ClassScore, width: int) -> str:
    box = answer.box if isinstance(answer, Detection) else ()
    sides = "".join(f"{side:8.1f}" for side in box)
    extras = "".join(f"{cell:>{_CELL}}" for _, cell in _extra_cells(answer))
    name = f"{'':{_INDENT}}{printable(_name(answer)):<{width}}"
    return f"{name}  {answer.score:.3f}{sides}{extras}{_classification(answer)}"


def _extra_cells(answer: Detection | ClassScore) -> list[tuple[str, str]]:
    """Titles and cells of what only some models give."""
    if isinstance(answer, ClassScore):
        return []
    cells = []
    if answer.keypoints is not None:
        seen = sum(visibility >= SEEN for _, _, visibility in answer.keypoints)
        cells.append(("points", f"{seen}/{len(answer.keypoints)}"))
    if answer.angle is not None:
        cells.append(("radians", f"{answer.angle:.3f}"))
    if answer.mask is not None:
        height, width = answer.mask["size"]
        cells.append(("mask HxW", f"{height}x{width}"))
    return cells


def _classification(answer: Detection | ClassScore) -> str:
    """The last cell of a detection that a cascade has classified; of others, nothing."""
    if isinstance(answer, ClassScore) or answer.classification is None:
        return ""
    best = answer.classification
    return f"  {printable(_name(best))} {best.score:.3f}"


def _name(answer: Detection | ClassScore) -> str:
    return answer.label if answer.label is not None else f"class {answer.class_id}"


def one_line(text: str, *, style: str = "") -> Text:
    """A line that is longer than the terminal is wide stays one, as far as endcap is concerned."""
    return Text(text, style=style, no_wrap=True, overflow="ignore")


def _indented(line: Text) -> Padding:
    return Padding(line, (0, 0, 0, _INDENT), expand=False)
