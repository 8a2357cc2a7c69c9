"""Tables of the network step, and their place in docs/triton.md."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.paths import RESULTS, ROOT
from benchmarks.pipelines.tables import TextTable, between_marks

Json = dict[str, Any]
PAGE = ROOT / "docs" / "triton.md"
DOCUMENT = RESULTS / "network.json"


def figures(document: Json) -> str:
    """Return the heading and the tables of a document as Markdown."""
    found = document["network"]
    tables = (_steps(found["steps"]), _loads(found["loads"]))
    return "\n\n".join([_heading(document["machine"], found), *(t.markdown() for t in tables)])


def fill(page: str, document: Json | None) -> str:
    """Return the page with the figures of a document, or with "Not measured yet." for None.

    Raises:
        ValueError: The page lacks a mark.
    """
    return between_marks(page, figures(document) if document else "Not measured yet.")


def committed() -> Json | None:
    """Return the committed results, None before there are any."""
    if not DOCUMENT.exists():
        return None
    found: Json = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    return found


def write() -> None:
    """Fill docs/triton.md in place from the committed results."""
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), committed()), encoding="utf-8")


def _heading(machine: Json, found: Json) -> str:
    return (
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['date'][:10]}, commit "
        f"{machine['commit']}, ONNX Runtime {found['versions']['onnxruntime']}. The first network "
        "is the sample detector at 640x640; the others have the arithmetic of ResNet-18, MobileNet "
        f"and ViT-Tiny at 224x224. Loads: medians of {found['rounds']} rounds of "
        f"{found['seconds']:g} s."
    )


def _steps(rows: list[Json]) -> TextTable:
    header = ("network", "batch", "ONNX Runtime, ms", "spinning, ms", "step, ms", "request, ms")
    cells = [
        (
            row["network"],
            str(row["batch"]),
            f"{row['bare_waiting_ms']:.1f}",
            f"{row['bare_spinning_ms']:.1f}",
            f"{row['step_ms']:.1f} ({row['step_ms'] / row['bare_waiting_ms']:.2f}x)",
            f"{row['request_ms']:.1f}",
        )
        for row in rows
    ]
    return TextTable("One call at a time", header, cells, words=1)


def _loads(rows: list[Json]) -> TextTable:
    concurrencies = sorted({row["concurrency"] for row in rows})
    rates = {
        (row["network"], row["setting"], row["concurrency"]): row["images_per_second"]
        for row in rows
    }
    kinds = list(dict.fromkeys((row["network"], row["setting"]) for row in rows))
    cells = [
        (*kind, " / ".join(f"{rates[kind[0], kind[1], number]:.0f}" for number in concurrencies))
        for kind in kinds
    ]
    at = " / ".join(str(number) for number in concurrencies)
    return TextTable("Load", ("network", "threads", f"images/s at {at}"), cells, words=2)
