"""Writes the tables into docs/clients.md, between two marks, from the committed results."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.clients import tables
from benchmarks.clients.ways import COMPARISONS
from benchmarks.paths import RESULTS, ROOT
from benchmarks.pipelines.page import between_marks

Json = dict[str, Any]
PAGE = ROOT / "docs" / "clients.md"
DOCUMENT = RESULTS / "clients.json"


def fill(page: str, document: Json | None) -> str:
    """The page with the figures of a document, or with "Not measured yet." for None.

    Raises:
        ValueError: The page lacks a mark.
    """
    return between_marks(page, _figures(document) if document else "Not measured yet.")


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
    found = document["clients"]
    parts = [_heading(document["machine"], found), tables.ratios(found).markdown()]
    for comparison, title in COMPARISONS.items():
        two = (tables.loads(found, comparison, title), tables.costs(found, comparison, title))
        parts += [f"### {title}", *(each.markdown() for each in two if each.rows)]
    unmeasured = [way for way in found["ways"] if way["outcome"] != "measured"]
    parts += [f"Not measured: {way['name']} ({way['note']})." for way in unmeasured]
    return "\n\n".join(parts)


def _heading(machine: Json, found: Json) -> str:
    versions = found["versions"]
    beside = ", ".join(
        f"{name} {versions[name]}" for name in ("nvidia-pytriton", "tritonclient", "grpcio")
    )
    return (
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['date'][:10]}, commit "
        f"{machine['commit']}; {beside}. A picture of 1920x1080, {found['encoded_bytes']:,} bytes, "
        f"with {found['detections']} detections. {found['rounds']} rounds of "
        f"{found['seconds']:g} s at each concurrency; medians over the rounds."
    )
