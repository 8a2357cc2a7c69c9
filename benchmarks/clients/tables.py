"""The figures of the ways as rows of text, for the screen and for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from benchmarks.clients.claims import claims, concurrencies
from benchmarks.clients.ways import COMPARISONS
from benchmarks.pipelines.tables import TextTable, number

Json = dict[str, Any]


def every(document: Json) -> Iterator[TextTable]:
    """All tables; a document without ways has none."""
    if not document:
        return
    for comparison, title in COMPARISONS.items():
        yield loads(document, comparison, title)
        yield costs(document, comparison, title)
    yield notes(document)
    yield ratios(document)


def loads(document: Json, comparison: str, title: str) -> TextTable:
    """A row for each way that was measured; a cell has a figure for each concurrency."""
    at = " / ".join(map(str, concurrencies(document)))
    names = ("inferences/s", "p50 ms", "p99 ms")
    rows = [
        (way["name"], *(_cell(way, key) for key in ("inferences_per_second", "p50_ms", "p99_ms")))
        for way in _measured(document, comparison)
    ]
    return TextTable(title, ("way", *(f"{name} at {at}" for name in names)), rows, words=1)


def costs(document: Json, comparison: str, title: str) -> TextTable:
    """A row for each way that was measured: bytes and CPU time of a request with its answer."""
    at = " / ".join(map(str, concurrencies(document)))
    header = ("way", "bytes up", "bytes down", f"client CPU ms at {at}", f"server CPU ms at {at}")
    rows = [
        (
            way["name"],
            f"{way['wire']['up']:,.0f}",
            f"{way['wire']['down']:,.0f}",
            _cell(way, "client_cpu_ms"),
            _cell(way, "service_cpu_ms"),
        )
        for way in _measured(document, comparison)
    ]
    return TextTable(f"{title}: bytes and CPU time", header, rows, words=1)


def notes(document: Json) -> TextTable:
    """A row for each way, also for one that was not measured, which then says why."""
    rows = [(COMPARISONS[way["comparison"]], way["name"], way["note"]) for way in document["ways"]]
    return TextTable("Answers", ("", "way", "verified, or why not measured"), rows, words=3)


def ratios(document: Json) -> TextTable:
    """A row for each claim."""
    rows = [
        (
            claim.what,
            f"at least {claim.at_least:g}",
            "not measured" if claim.ratio is None else number(claim.ratio),
        )
        for claim in claims(document)
    ]
    return TextTable("Ratios", ("", "wanted", "measured"), rows, words=1)


def _measured(document: Json, comparison: str) -> list[Json]:
    return [way for way in document["ways"] if way["comparison"] == comparison and way["points"]]


def _cell(way: Json, key: str) -> str:
    return " / ".join(number(point[key]) for point in way["points"])
