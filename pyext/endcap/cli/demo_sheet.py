"""The contact sheet of a demo."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from endcap.cli.pictures import save_jpeg
from endcap.cli.report import summary
from endcap.client import ImageResult
from endcap.drawing.contact_sheet import PICTURES_PER_SHEET, Card, contact_sheets
from endcap.drawing.draw import draw_result
from endcap.drawing.upright import NOT_A_PICTURE, open_picture, oriented_size
from endcap.results.task import Task
from endcap.terminal.console import count, printable
from endcap.tools.load.latency import Latency

_QUALITY = 76


def write_sheets(
    results: Sequence[ImageResult],
    latency: Latency | None,
    labels: Sequence[str] | None,
    folder: Path,
) -> list[Path]:
    """Write the contact sheets to `sheet_paths`; return these."""
    cards = [_card(result, latency, labels) for result in results]
    sheets = contact_sheets(cards, title=f"endcap: {summary(results)}", note=_note(latency))
    paths = sheet_paths(folder, len(results))
    for path, sheet in zip(paths, sheets, strict=True):
        save_jpeg(sheet, path, quality=_QUALITY)
    return paths


def sheet_paths(folder: Path, images: int) -> list[Path]:
    """Return contact_sheet.jpg, and contact_sheet_2.jpg and so on where there are many images."""
    sheets = math.ceil(images / PICTURES_PER_SHEET)
    numbers = ["", *(f"_{number}" for number in range(2, sheets + 1))]
    return [folder / f"contact_sheet{number}.jpg" for number in numbers]


def _card(result: ImageResult, latency: Latency | None, labels: Sequence[str] | None) -> Card:
    path = Path(result.image)
    name = printable(path.name)
    size = oriented_size(path)
    facts = [f"{size[0]} x {size[1]}"] if size else []
    draw = functools.partial(_draw, result, labels)
    if not result.ok:
        return Card(name, ", ".join([*facts, "failed"]), draw)
    times = latency.times_ms.get(result.image, []) if latency else []
    first = [result.latency_ms] if result.latency_ms is not None else []
    facts.append(_found(result))
    facts += [f"{statistics.median(each):.1f} ms" for each in (times or first,) if each]
    return Card(name, ", ".join(facts), draw)


def _found(result: ImageResult) -> str:
    if result.task is Task.classification:
        return f"best of {len(result.classes)}" if result.classes else "no class"
    return count(len(result.detections), "detection")


def _draw(
    result: ImageResult, labels: Sequence[str] | None, within: tuple[int, int]
) -> Image.Image | str:
    if not result.ok:
        return printable(f"{result.status}: {result.error}")
    try:
        with open_picture(Path(result.image)) as image:
            return draw_result(image, result, labels, within=within)
    except NOT_A_PICTURE as error:
        return printable(f"cannot be drawn: {error}")


def _note(latency: Latency | None) -> str:
    if latency is None:
        return "Latency of one request, as the client sees it."
    each = count(max(map(len, latency.times_ms.values())), "request")
    return f"Latency: median of {each} an image, one at a time, as the client sees it."
