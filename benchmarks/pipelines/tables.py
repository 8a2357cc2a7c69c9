"""The figures of the pipelines as rows of text, for the screen and for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
        """The table without its title."""
        rule = [*["---"] * self.words, *["---:"] * (len(self.header) - self.words)]
        lines = [self.header, rule, *self.rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def title(comparison: Json) -> str:
    """What was asked, and of which network."""
    return f"{comparison['task']}, {comparison['network']}"


def loads(comparison: Json) -> TextTable:
    """A row for each pipeline that was measured; a cell has a figure for each concurrency.

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
    """A row for each pipeline that was measured: CPU time of each side, memory after the load."""
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
    """A row for each pipeline, also for one that was not measured, which then says why."""
    header = ("pipeline", "how", "verified, or why not measured")
    rows = [
        (pipeline["name"], pipeline["how"], pipeline["note"])
        for pipeline in comparison["pipelines"]
    ]
    return TextTable(f"{title(comparison)}: answers", header, rows, words=3)


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
