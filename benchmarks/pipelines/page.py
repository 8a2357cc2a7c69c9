"""Writes the tables into docs/pipelines.md, between two marks, from the committed results."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.paths import RESULTS, ROOT
from benchmarks.pipelines import tables

Json = dict[str, Any]
PAGE = ROOT / "docs" / "pipelines.md"
DOCUMENT = RESULTS / "pipelines.json"
BEGIN, END = "<!-- figures begin -->", "<!-- figures end -->"
_SHOWN = ("fastapi", "opencv-python-headless", "onnxruntime")


def fill(page: str, document: Json | None) -> str:
    """The page with the figures of a document, or with "Not measured yet." for None.

    Raises:
        ValueError: The page lacks a mark.
    """
    return between_marks(page, _figures(document) if document else "Not measured yet.")


def between_marks(page: str, text: str) -> str:
    """The page with a text in the place of what stands between its marks.

    Raises:
        ValueError: The page lacks one.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks '{BEGIN}' or '{END}' behind it; put both in.")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


def committed() -> Json | None:
    """The committed results, None before there are any."""
    if not DOCUMENT.exists():
        return None
    found: Json = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    return found


def write() -> None:
    """Fill the page in place."""
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), committed()), encoding="utf-8")


def _figures(document: Json) -> str:
    found = document["pipelines"]
    parts = [_heading(document["machine"], found)]
    for comparison in found["comparisons"]:
        three = (tables.loads(comparison), tables.costs(comparison), tables.notes(comparison))
        shown = (each.markdown() for each in three if each.rows)
        parts += [f"### {tables.title(comparison).capitalize()}", _asked(comparison), *shown]
    return "\n\n".join(parts)


def _heading(machine: Json, found: Json) -> str:
    server, service = found["versions"], found["service_versions"]
    beside = ", ".join(f"{name} {service[name]}" for name in _SHOWN)
    return (
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['date'][:10]}, commit "
        f"{machine['commit']}; nvidia-pytriton {server['nvidia-pytriton']}, onnxruntime "
        f"{server['onnxruntime']}; the service with {beside}. {found['rounds']} rounds of "
        f"{found['seconds']:g} s at each concurrency; medians over the rounds."
    )


def _asked(comparison: Json) -> str:
    return (
        f"A picture of 1920x1080, {comparison['encoded_bytes'] / 1e3:.0f} KB, with "
        f"{comparison['detections']} detections."
    )
