"""What the way of the bytes decides: ratios of figures, each between two ways."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

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
    """Those of a document's ways."""
    ways = {(way["comparison"], way["name"]): way for way in document["ways"] if way["points"]}
    found = [
        Claim(
            "bytes to the server over gRPC: tensor by JPEG",
            10.0,
            _ratio(ways.get(("file", "tensor, gRPC")), ways.get(("file", "JPEG, gRPC")), _bytes_up),
        )
    ]
    for index, at in enumerate(concurrencies(document)):
        found.append(
            Claim(
                f"throughput of a ready tensor, {at} at once: system shm by gRPC",
                3.0,
                _ratio(
                    ways.get(("tensor", "system shm")),
                    ways.get(("tensor", "gRPC")),
                    partial(_rate, index),
                ),
            )
        )
    return found


def concurrencies(document: Json) -> list[int]:
    """How many requests were on their way at once."""
    points: list[Json] = next((way["points"] for way in document["ways"] if way["points"]), [])
    return [round(point["concurrency"]) for point in points]


def _ratio(above: Json | None, below: Json | None, figure: Callable[[Json], float]) -> float | None:
    return figure(above) / figure(below) if above and below else None


def _bytes_up(way: Json) -> float:
    return float(way["wire"]["up"])


def _rate(index: int, way: Json) -> float:
    return float(way["points"][index]["inferences_per_second"])
