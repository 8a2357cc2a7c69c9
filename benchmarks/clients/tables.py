"""Tables of the transports and the ratios between them, for the screen and docs/clients.md."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.clients.transports import COMPARISONS
from benchmarks.paths import RESULTS, ROOT
from benchmarks.pipelines.tables import TextTable, between_marks, number

Json = dict[str, Any]


@dataclass(frozen=True)
class Claim:
    """A ratio, more of it being better. ratio: None where one of the two was not measured."""

    what: str
    at_least: float
    ratio: float | None

    @property
    def holds(self) -> bool:
        """Whether it was measured and is as great as is claimed."""
        return self.ratio is not None and self.ratio >= self.at_least


def claims(document: Json) -> list[Claim]:
    """Those of a document's transports."""
    transports = {
        (transport["comparison"], transport["name"]): transport
        for transport in document["ways"]
        if transport["points"]
    }
    found = [
        Claim(
            "bytes to the server over gRPC: tensor by JPEG",
            10.0,
            _ratio(
                transports.get(("file", "tensor, gRPC")),
                transports.get(("file", "JPEG, gRPC")),
                _bytes_up,
            ),
        )
    ]
    for index, at in enumerate(concurrencies(document)):
        found.append(
            Claim(
                f"throughput of a ready tensor, {at} at once: system shm by gRPC",
                3.0,
                _ratio(
                    transports.get(("tensor", "system shm")),
                    transports.get(("tensor", "gRPC")),
                    partial(_rate, index),
                ),
            )
        )
    return found


def concurrencies(document: Json) -> list[int]:
    """How many requests were in flight at once."""
    points: list[Json] = next(
        (transport["points"] for transport in document["ways"] if transport["points"]), []
    )
    return [round(point["concurrency"]) for point in points]


def _ratio(above: Json | None, below: Json | None, figure: Callable[[Json], float]) -> float | None:
    return figure(above) / figure(below) if above and below else None


def _bytes_up(transport: Json) -> float:
    return float(transport["wire"]["up"])


def _rate(index: int, transport: Json) -> float:
    return float(transport["points"][index]["inferences_per_second"])


def every(document: Json) -> Iterator[TextTable]:
    """All tables; a document without transports has none."""
    if not document:
        return
    for comparison, title in COMPARISONS.items():
        yield loads(document, comparison, title)
        yield costs(document, comparison, title)
    yield notes(document)
    yield ratios(document)


def loads(document: Json, comparison: str, title: str) -> TextTable:
    """Return a row for each measured transport; a cell has a figure for each concurrency."""
    at = " / ".join(map(str, concurrencies(document)))
    names = ("inferences/s", "p50 ms", "p99 ms")
    rows = [
        (
            transport["name"],
            *(_cell(transport, key) for key in ("inferences_per_second", "p50_ms", "p99_ms")),
        )
        for transport in _measured(document, comparison)
    ]
    return TextTable(title, ("transport", *(f"{name} at {at}" for name in names)), rows, words=1)


def costs(document: Json, comparison: str, title: str) -> TextTable:
    """Return a row for each measured transport: bytes and CPU time of a request."""
    at = " / ".join(map(str, concurrencies(document)))
    header = (
        "transport",
        "bytes up",
        "bytes down",
        f"client CPU ms at {at}",
        f"server CPU ms at {at}",
    )
    rows = [
        (
            transport["name"],
            f"{transport['wire']['up']:,.0f}",
            f"{transport['wire']['down']:,.0f}",
            _cell(transport, "client_cpu_ms"),
            _cell(transport, "service_cpu_ms"),
        )
        for transport in _measured(document, comparison)
    ]
    return TextTable(f"{title}: bytes and CPU time", header, rows, words=1)


def notes(document: Json) -> TextTable:
    """Return a row for each transport; one that was not measured has the reason."""
    rows = [
        (COMPARISONS[transport["comparison"]], transport["name"], transport["note"])
        for transport in document["ways"]
    ]
    return TextTable("Responses", ("", "transport", "verified, or why not measured"), rows, words=3)


def ratios(document: Json) -> TextTable:
    """Return a row for each claim."""
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
    return [
        transport
        for transport in document["ways"]
        if transport["comparison"] == comparison and transport["points"]
    ]


def _cell(transport: Json, key: str) -> str:
    return " / ".join(number(point[key]) for point in transport["points"])


PAGE = ROOT / "docs" / "clients.md"
DOCUMENT = RESULTS / "clients.json"


def fill(page: str, document: Json | None) -> str:
    """Return the page with the figures of a document, or with "Not measured yet." for None.

    Raises:
        ValueError: The page lacks a mark.
    """
    return between_marks(page, _figures(document) if document else "Not measured yet.")


def committed() -> Json | None:
    """Return the committed results, None before there are any."""
    if not DOCUMENT.exists():
        return None
    found: Json = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    return found


def write() -> None:
    """Fill the page in place."""
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), committed()), encoding="utf-8")


def _figures(document: Json) -> str:
    found = document["clients"]
    parts = [_heading(document["machine"], found), ratios(found).markdown()]
    for comparison, title in COMPARISONS.items():
        two = (loads(found, comparison, title), costs(found, comparison, title))
        parts += [f"### {title}", *(each.markdown() for each in two if each.rows)]
    unmeasured = [transport for transport in found["ways"] if transport["outcome"] != "measured"]
    parts += [
        f"Not measured: {transport['name']} ({transport['note']})." for transport in unmeasured
    ]
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
