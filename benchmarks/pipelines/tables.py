"""The figures of the roads as rows of text, for the screen and for the documentation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
_MIB = 2**20


@dataclass(frozen=True)
class TextTable:
    """A table of text; `left` is how many columns hold words, the others hold numbers."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    left: int

    def markdown(self) -> str:
        """The table without its title."""
        rule = [*["---"] * self.left, *["---:"] * (len(self.header) - self.left)]
        lines = [self.header, rule, *self.rows]
        return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def loads(contest: Json) -> TextTable:
    """A row for each road and concurrency. CPU times are those of one inference."""
    header = ("road", "at once", "inferences/s", "p50 ms", "p99 ms", "server CPU ms")
    rows = [
        (
            road["name"] if index == 0 else "",
            f"{point['concurrency']:.0f}",
            *(
                f"{point[name]:.1f}"
                for name in (
                    "inferences_per_second",
                    "p50_ms",
                    "p99_ms",
                    "service_cpu_ms",
                    "client_cpu_ms",
                )
            ),
        )
        for road in contest["roads"]
        for index, point in enumerate(road["points"])
    ]
    return TextTable(title(contest), (*header, "client CPU ms"), rows, left=1)


def footprints(contest: Json) -> TextTable:
    """A row for each road, also for one that was not measured, which then says why."""
    header = ("road", "how", "verified, or why not measured", "memory MiB", "processes")
    rows = [
        (road["name"], road["how"], road["note"], *_footprint(road["footprint"]))
        for road in contest["roads"]
    ]
    return TextTable(
        f"{title(contest)}: memory and answers",
        (*header, "Python instances", "/dev/shm MiB", "largest region MiB"),
        rows,
        left=3,
    )


def title(contest: Json) -> str:
    """What was asked, and of which network."""
    return f"{contest['task']}, {contest['network']}"


def both(contests: list[Json]) -> Iterator[TextTable]:
    """All tables."""
    for contest in contests:
        yield loads(contest)
        yield footprints(contest)


def _footprint(found: Json | None) -> tuple[str, ...]:
    if found is None:
        return ("",) * 5
    return (
        f"{found['memory_bytes'] / _MIB:.0f}",
        f"{found['processes']:.0f}",
        f"{found['python_instances']:.0f}",
        f"{found['shared_memory_bytes'] / _MIB:.0f}",
        f"{found['largest_region_bytes'] / _MIB:.0f}",
    )
