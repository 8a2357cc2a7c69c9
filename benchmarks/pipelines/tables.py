"""Tables of the pipelines, for the screen and for docs/pipelines.md."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.paths import RESULTS, ROOT

Json = dict[str, Any]
_MIB = 2**20


@dataclass(frozen=True)
class TextTable:
    """A table of text; `words` is how many columns hold words, the others hold numbers."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int

    def markdown(self) -> str:
        """Return the table without its title."""
        rule = [*["---"] * self.words, *["---:"] * (len(self.header) - self.words)]
        lines = [self.header, rule, *self.rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def title(comparison: Json) -> str:
    """Return the task and the network."""
    return f"{comparison['task']}, {comparison['network']}"


def loads(comparison: Json) -> TextTable:
    """Return a row for each pipeline that was measured; a cell has a figure for each concurrency.

    CPU times are those of one inference, of server and client together.
    """
    at = " / ".join(f"{number:.0f}" for number in _concurrencies(comparison))
    names = ("inferences/s", "p50 ms", "p99 ms", "CPU ms")
    header = ("pipeline", *(f"{name} at {at}" for name in names))
    rows = [
        (
            pipeline["name"],
            _cell([point["inferences_per_second"] for point in pipeline["points"]]),
            _cell([point["p50_ms"] for point in pipeline["points"]]),
            _cell([point["p99_ms"] for point in pipeline["points"]]),
            _cell([_cpu(point) for point in pipeline["points"]]),
        )
        for pipeline in _measured(comparison)
    ]
    return TextTable(title(comparison), header, rows, words=1)


def costs(comparison: Json) -> TextTable:
    """Return a row for each measured pipeline: CPU time of each side, memory after the load."""
    last = max(_concurrencies(comparison), default=0)
    header = (
        "pipeline",
        f"server CPU ms at {last:.0f}",
        f"client CPU ms at {last:.0f}",
        "memory MiB",
        "processes",
        "Python instances",
        "/dev/shm MiB",
        "largest",
    )
    rows = [
        (
            pipeline["name"],
            number(pipeline["points"][-1]["service_cpu_ms"]),
            number(pipeline["points"][-1]["client_cpu_ms"]),
            *_footprint(pipeline["footprint"]),
        )
        for pipeline in _measured(comparison)
    ]
    return TextTable(f"{title(comparison)}: CPU time and memory", header, rows, words=1)


def notes(comparison: Json) -> TextTable:
    """Return a row for each pipeline, also for one that was not measured, which then says why."""
    header = ("pipeline", "how", "verified, or why not measured")
    rows = [
        (pipeline["name"], pipeline["how"], pipeline["note"])
        for pipeline in comparison["pipelines"]
    ]
    return TextTable(f"{title(comparison)}: responses", header, rows, words=3)


def every(comparisons: list[Json]) -> Iterator[TextTable]:
    """All tables."""
    for comparison in comparisons:
        yield loads(comparison)
        yield costs(comparison)
        yield notes(comparison)


def number(value: float) -> str:
    """Three digits, or all of an integer part that is longer."""
    return (
        f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    )


def _measured(comparison: Json) -> list[Json]:
    return [pipeline for pipeline in comparison["pipelines"] if pipeline["outcome"] == "measured"]


def _concurrencies(comparison: Json) -> list[float]:
    measured = _measured(comparison)
    return [point["concurrency"] for point in measured[0]["points"]] if measured else []


def _cpu(point: Json) -> float:
    return float(point["service_cpu_ms"] + point["client_cpu_ms"])


def _cell(values: list[float]) -> str:
    return " / ".join(map(number, values))


def _footprint(found: Json) -> tuple[str, ...]:
    return (
        f"{found['memory_bytes'] / _MIB:.0f}",
        f"{found['processes']:.0f}",
        f"{found['python_instances']:.0f}",
        f"{found['shared_memory_bytes'] / _MIB:.0f}",
        f"{found['largest_region_bytes'] / _MIB:.0f}",
    )


PAGE = ROOT / "docs" / "pipelines.md"
DOCUMENT = RESULTS / "pipelines.json"
BEGIN, END = "<!-- figures begin -->", "<!-- figures end -->"
_SHOWN = ("fastapi", "opencv-python-headless", "onnxruntime")


def fill(page: str, document: Json | None) -> str:
    """Return the page with the figures of a document, or with "Not measured yet." for None.

    Raises:
        ValueError: The page lacks a mark.
    """
    return between_marks(page, _figures(document) if document else "Not measured yet.")


def between_marks(page: str, text: str) -> str:
    """Return the page with a text in the place of what stands between its marks.

    Raises:
        ValueError: The page lacks one.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page lacks '{BEGIN}' or '{END}' behind it; put both in.")
    return f"{before}{BEGIN}\n\n{text}\n\n{END}{after}"


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
    found = document["pipelines"]
    parts = [_heading(document["machine"], found)]
    for comparison in found["comparisons"]:
        three = (loads(comparison), costs(comparison), notes(comparison))
        shown = (each.markdown() for each in three if each.rows)
        parts += [f"### {title(comparison).capitalize()}", _requested(comparison), *shown]
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


def _requested(comparison: Json) -> str:
    return (
        f"A picture of 1920x1080, {comparison['encoded_bytes'] / 1e3:.0f} KB, with "
        f"{comparison['detections']} detections."
    )
