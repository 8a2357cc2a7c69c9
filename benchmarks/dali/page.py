"""Writes the tables into docs/dali.md and docs/dali_parity.md, from the committed results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.dali import tables
from benchmarks.paths import RESULTS, ROOT
from benchmarks.pipelines.page import between_marks

Json = dict[str, Any]
PAGE = ROOT / "docs" / "dali.md"
DOCUMENT = RESULTS / "dali.json"
PARITY_PAGE = ROOT / "docs" / "dali_parity.md"
PARITY_DOCUMENT = RESULTS / "dali_parity.json"


def fill(page: str, document: Json | None) -> str:
    """The page with the times of a document, or with "Not measured yet." for None.

    Raises:
        ValueError: The page lacks a mark.
    """
    return between_marks(page, _times(document) if document else "Not measured yet.")


def fill_parity(page: str, document: Json | None) -> str:
    """The page with the differences of a document; else as `fill`."""
    return between_marks(page, _differences(document) if document else "Not measured yet.")


def committed(path: Path) -> Json | None:
    """The committed results, None before there are any."""
    if not path.exists():
        return None
    found: Json = json.loads(path.read_text(encoding="utf-8"))
    return found


def write() -> None:
    """Fill both pages in place."""
    for page, document, filled in (
        (PAGE, DOCUMENT, fill),
        (PARITY_PAGE, PARITY_DOCUMENT, fill_parity),
    ):
        page.write_text(filled(page.read_text(encoding="utf-8"), committed(document)), "utf-8")


def _times(document: Json) -> str:
    found = document["dali"]
    every = (
        tables.throughput(found),
        tables.latency(found),
        tables.gpu(found),
        tables.notes(found),
    )
    parts = [_heading(document["machine"])]
    for table in every:
        parts += [f"### {table.title}", table.markdown()]
    return "\n\n".join(parts)


def _differences(document: Json) -> str:
    table = tables.differences(document["dali_parity"])
    return f"{_heading(document['machine'])}\n\n{table.markdown()}"


def _heading(machine: Json) -> str:
    return (
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['date'][:10]}, commit "
        f"{machine['commit']}; {machine['dali']}."
    )
