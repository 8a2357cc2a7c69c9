"""The figures of the roads as rows of text, for the screen and for the documentation."""

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


def title(contest: Json) -> str:
    """What was asked, and of which network."""
    return f"{contest['task']}, {contest['network']}"


def loads(contest: Json) -> TextTable:
    """A row for each road that was measured; a cell has a figure for each concurrency.

    CPU times are those of one inference, of server and client together.
    """
    at = " / ".join(f"{number:.0f}" for number in _concurrencies(contest))
    names = ("inferences/s", "p50 ms", "p99 ms", "CPU ms")
    header = ("road", *(f"{name} at {at}" for name in names))
    rows = [
        (
            road["name"],
            _cell([point["inferences_per_second"] for point in road["points"]]),
            _cell([point["p50_ms"] for point in road["points"]]),
            _cell([point["p99_ms"] for point in road["points"]]),
            _cell([_cpu(point) for point in road["points"]]),
        )
        for road in _measured(contest)
    ]
    return TextTable(title(contest), header, rows, words=1)


def costs(contest: Json) -> TextTable:
    """A row for each road that was measured: CPU time of each side, and memory after the load."""
    last = max(_concurrencies(contest), default=0)
    header = (
        "road",
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
            road["name"],
            number(road["points"][-1]["service_cpu_ms"]),
            number(road["points"][-1]["client_cpu_ms"]),
            *_footprint(road["footprint"]),
        )
        for road in _measured(contest)
    ]
    return TextTable(f"{title(contest)}: CPU time and memory", header, rows, words=1)


def notes(contest: Json) -> TextTable:
    """A row for each road, also for one that was not measured, which then says why."""
    header = ("road", "how", "verified, or why not measured")
    rows = [(road["name"], road["how"], road["note"]) for road in contest["roads"]]
    return TextTable(f"{title(contest)}: answers", header, rows, words=3)


def every(contests: list[Json]) -> Iterator[TextTable]:
    """All tables."""
    for contest in contests:
        yield loads(contest)
        yield costs(contest)
        yield notes(contest)


def number(value: float) -> str:
    """Three digits, or all of an integer part that is longer."""
    return (
        f"{value:.0f}" if value >= 99.95 else f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"
    )


def _measured(contest: Json) -> list[Json]:
    return [road for road in contest["roads"] if road["outcome"] == "measured"]


def _concurrencies(contest: Json) -> list[float]:
    measured = _measured(contest)
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
