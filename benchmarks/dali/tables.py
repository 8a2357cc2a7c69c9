"""Tables of the DALI pipelines, for the screen and for docs/dali.md and docs/dali_parity.md."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.paths import RESULTS, ROOT
from benchmarks.pipelines.tables import TextTable, between_marks, number

Json = dict[str, Any]


def every(found: Json) -> Iterator[TextTable]:
    """All tables of the timed pipelines; a document without them has none."""
    if not found:
        return
    yield throughput(found)
    yield latency(found)
    yield gpu(found)
    yield notes(found)


def throughput(found: Json) -> TextTable:
    """Return a row for each pipeline: images a second, and milliseconds an image, by threads."""
    comparisons = found["throughput"]
    units = [_threads(comparison) for comparison in comparisons]
    header = (
        "pipeline",
        *(f"images/s, {unit}" for unit in units),
        *(f"ms an image, {unit}" for unit in units),
    )
    rows = [
        (
            pipeline,
            *(_rate(comparison, pipeline) for comparison in comparisons),
            *(_milliseconds(comparison, pipeline) for comparison in comparisons),
        )
        for pipeline in comparisons[0]["rows"]
    ]
    return TextTable(f"Batches of {len(found['batch'])} photographs", header, rows, words=1)


def latency(found: Json) -> TextTable:
    """Return a row for each photograph: milliseconds of each pipeline; last, the mean ratios."""
    compared = list(found["throughput"][0]["rows"])
    rows = [
        (
            image["name"],
            f"{image['encoded_bytes'] / 1e3:.0f} KB",
            *(_median(image["rows"][pipeline]) for pipeline in compared),
        )
        for image in found["latency"]["images"]
    ]
    ratios = found["latency"]["ratios"]
    means = (f"{ratios[pipeline]:.2f}x" if pipeline in ratios else "" for pipeline in compared)
    rows.append((f"mean to {compared[0]}", "", *means))
    header = ("photograph", "file", *compared)
    return TextTable("One photograph at a time, one thread: ms", header, rows, words=1)


def gpu(found: Json) -> TextTable:
    """Return a row for each pipeline with a GPU."""
    comparison = found["gpu"]
    rows = [
        (pipeline, _rate(comparison, pipeline), _milliseconds(comparison, pipeline))
        for pipeline in comparison["rows"]
    ]
    title = f"With a GPU, {_threads(comparison)}, batches of {len(found['batch'])} photographs"
    return TextTable(title, ("pipeline", "images/s", "ms an image"), rows, words=1)


def notes(found: Json) -> TextTable:
    """Return a row for each pipeline: how it was verified, or why it has no figures somewhere."""
    rows = []
    for pipeline, how in found["ways"].items():
        comparisons = [
            each for each in (*found["throughput"], found["gpu"]) if pipeline in each["rows"]
        ]
        every = [comparison["rows"][pipeline] for comparison in comparisons]
        told = next((row for row in every if row["timing"] is None), every[0])
        rows.append((pipeline, how, told["note"] if told["timing"] else _reason(told)))
    header = ("pipeline", "operators", "images against endcap.preprocess, or why not measured")
    return TextTable("Responses", header, rows, words=3)


def differences(found: list[Json]) -> TextTable:
    """Return a row for each kind of difference: largest and mean of all pictures."""
    groups = ("photographs", "synthetic")
    rows = [
        (row["name"], row["reason"], *(_difference(row, group) for group in groups))
        for row in found
    ]
    header = ("DALI against endcap", "why", *(f"{group}: largest, mean, share" for group in groups))
    return TextTable("Differences in 8-bit steps", header, rows, words=2)


def _threads(comparison: Json) -> str:
    count = comparison["threads"]
    return "1 thread" if count == 1 else f"{count} threads"


def _rate(comparison: Json, pipeline: str) -> str:
    rate = comparison["images_per_second"].get(pipeline)
    return comparison["rows"][pipeline]["outcome"] if rate is None else number(rate)


def _milliseconds(comparison: Json, pipeline: str) -> str:
    rate = comparison["images_per_second"].get(pipeline)
    return "-" if rate is None else number(1e3 / rate)


def _median(row: Json) -> str:
    return "-" if row["timing"] is None else number(row["timing"]["median_ms"])


def _reason(row: Json) -> str:
    return f"{row['outcome']}: {row['note']}"


def _difference(row: Json, group: str) -> str:
    found = row[group]
    if found is None:
        other = any(row[each] for each in ("photographs", "synthetic"))
        return "-" if other else "not measured"
    if found["largest"] == 0:
        return "equal"
    return f"{figure(found['largest'])}, {figure(found['mean'])}, {100 * found['share']:.3g} %"


def figure(value: float) -> str:
    """Two digits at least, without an exponent."""
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


PAGE = ROOT / "docs" / "dali.md"
DOCUMENT = RESULTS / "dali.json"
PARITY_PAGE = ROOT / "docs" / "dali_parity.md"
PARITY_DOCUMENT = RESULTS / "dali_parity.json"


def fill(page: str, document: Json | None) -> str:
    """Return the page with the times of a document, or with "Not measured yet." for None.

    Raises:
        ValueError: The page lacks a mark.
    """
    return between_marks(page, _times(document) if document else "Not measured yet.")


def fill_parity(page: str, document: Json | None) -> str:
    """Return the page with the differences of a document; else as `fill`."""
    return between_marks(page, _differences(document) if document else "Not measured yet.")


def committed(path: Path) -> Json | None:
    """Return the committed results, None before there are any."""
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
        throughput(found),
        latency(found),
        gpu(found),
        notes(found),
    )
    parts = [_heading(document["machine"])]
    for table in every:
        parts += [f"### {table.title}", table.markdown()]
    return "\n\n".join(parts)


def _differences(document: Json) -> str:
    table = differences(document["dali_parity"])
    return f"{_heading(document['machine'])}\n\n{table.markdown()}"


def _heading(machine: Json) -> str:
    return (
        f"{machine['cpu']}, {machine['cpus']} CPUs, {machine['date'][:10]}, commit "
        f"{machine['commit']}; {machine['dali']}."
    )
